"""Each command returns what its function returns, each time."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import invoke, on_terminal, run
from polars.testing import assert_frame_equal
from rows import check_each

import polars_rank as pr

# The application, for calls in this process.
from polars_rank.cli.program import app

BOTH = ["ndcg@10", "ap"]
RRF = "rrf(k=10, weights={'old': 1, 'new': 2.5})"
RULES = ["ndcg@10 >= 0.01", "difference(ndcg@10) >= -9", "queries >= 2"]

Data = dict[str, pl.DataFrame]


def tables() -> Data:
    """Return the tables that the commands read."""
    user, traffic = (pl.col("query") % 40).alias("user"), (pl.col("query") % 3 + 1)
    log = pr.datasets.search_log(80, 10, seed=1, runs=["old", "new"])
    log = log.with_columns(user, traffic=traffic, day=pl.col("query") % 3).collect()
    values = pr.per_query(log, BOTH, keep=["country", "user", "traffic"])
    one = log.filter(run="old").drop("run").with_columns(other=-pl.col("position"))
    number = (pl.col("run") == "new").cast(pl.Int64) + 1
    names = {"query": "q", "doc": "d", "score": "s", "label": "g", "run": "day"}
    chunks = one.select("query", "doc", "other", start=0, end="position").drop_nulls()
    return {
        "log": log, "values": values, "one": one,
        **{f"m{n}": values.filter(pl.col("query") % 3 == n) for n in range(3)},
        "renamed": log.drop("day").with_columns(run=number).rename(names),
        "chunks": chunks, "spans": chunks.drop("other").filter(pl.col("end") > 4),
    }  # fmt: skip


def of(function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[Data], Any]:
    """Return the call of a function with tables, by their names, in place of tables."""

    def called(data: Data) -> Any:
        given = [data.get(each, each) if isinstance(each, str) else each for each in arguments]
        return function(*given, **options)

    return called


RENAMED: Any = {"query": "q", "doc": "d", "score": "s", "label": "g", "run": "day"}
NAMES = "--query q --doc d --score s --label g --run day"
DETAILS = {"weight": "traffic", "cluster": "user", "details": True}

#: Names of commands → command lines → what the library returns for the same question.
CASES: dict[str, dict[str, Callable[[Data], Any]]] = {
    "evaluate": {
        'LOG -m "ndcg@10 ap"': of(pr.evaluate, "log", BOTH),
        "LOG -m ap --by country --weight traffic --query-set judged":
            of(pr.evaluate, "log", "ap", by="country", weight="traffic", query_set="judged"),
        "LOG -m ap,p@3 --rel 2 --unjudged removed --ties best":
            of(pr.evaluate, "log", ["ap", "p@3"], rel=2, unjudged="removed", ties="best"),
        'LOG -m "rr ap" --undefined one --undefined ap=skip':
            of(pr.evaluate, "log", ["rr", "ap"], undefined={"*": "one", "ap": "skip"}),
        """LOG -m ndcg@3 --parameters '{"gain": "exp2"}' --no-text-ids""":
            of(pr.evaluate, "log", "ndcg@3", parameters={"gain": "exp2"}),
        "one.parquet -m rr --score=-score": of(pr.evaluate, "one", "rr", score="-score"),
        "one.parquet -m rr --position position": of(pr.evaluate, "one", "rr", position="position"),
        "one.parquet -m rr --doc ''": of(pr.evaluate, "one", "rr", doc=None),
        f"renamed.parquet -m ap {NAMES}": of(pr.evaluate, "renamed", "ap", **RENAMED),
        'LOG -m "P_5,10 ndcg@[5, 10], utility_2,-1,0,0"': of(
            pr.evaluate, "log", ["P_5", "P_10", "ndcg@5", "ndcg@10", "utility_2,-1,0,0"]),
    },
    "per-query": {
        'LOG -m ap --keep "country user" --undefined null':
            of(pr.per_query, "log", "ap", keep=["country", "user"], undefined="null"),
    },
    "rank": {"LOG --ties worst": of(pr.rank, "log", ties="worst")},
    "explain": {
        "ndcg@3 LOG --versus LightGBM --n 2":
            of(pr.explain_difference, "log", "ndcg@3", "polars_rank", "lightgbm", n=2),
    },
    "identify": {
        "one.parquet -m ndcg@3 --value 0.70": of(pr.identify, "one", "ndcg@3", "0.70"),
        'LOG -m ndcg@3 --value "old=0.70 new=0.5" --n 2 --rel 2':
            of(pr.identify, "log", "ndcg@3", {"old": "0.70", "new": "0.5"}, n=2, rel=2),
        "LOG -m ndcg@10 --per-query values.parquet": of(pr.identify, "log", "ndcg@10", "values"),
    },
    "summarize": {
        "VALUES": of(pr.summarize, "values"),
        'LOG -m "ndcg@10 ap" --weight traffic --cluster user --confidence 0.9 --repeated --details':
            of(pr.summarize, "values", BOTH, confidence=0.9, repeated=True, **DETAILS),
        "LOG -m ndcg@3 --conventions lightgbm --by country": lambda d: pr.summarize(
            pr.per_query(d["log"], "ndcg@3", by="country", conventions="lightgbm"), by="country"),
        '--values "m*.parquet"': of(pr.summarize, "values", BOTH),
    },
    "compare": {
        "VALUES --baseline old": of(pr.compare, "values", BOTH, baseline="old"),
        'LOG -m "ndcg@10 ap" --baseline new --margin 2% --no-correction --slices "country traffic" '
        "--min-queries 2 --details": of(
            pr.compare, "values", BOTH, baseline="new", margin="2%", correction=False,
            slices=["country", "traffic"], min_queries=2, details=True),
        "VALUES -m ap --margin 0.3 --weight traffic --cluster user":
            of(pr.compare, "values", "ap", margin=0.3, weight="traffic", cluster="user"),
        f"renamed.parquet -m ap {NAMES} --baseline 1": lambda d: pr.compare(
            pr.per_query(d["renamed"], "ap", **RENAMED), run="day", query="q", baseline=1),
    },
    "leaderboard": {
        'LOG -m "ndcg@10 ap" --cluster user --weight traffic --details':
            of(pr.leaderboard, "values", BOTH, **DETAILS),
        "VALUES -m ap --by country": of(pr.leaderboard, "values", "ap", by="country"),
    },
    "power": {
        "VALUES --baseline old --difference 0.05":
            of(pr.power, "values", baseline="old", difference=0.05),
        'VALUES -m ap --n "10 20"': of(pr.power, "values", "ap", n=[10, 20]),
    },
    "check": {
        "LOG --baseline old --slices country --min-queries 2 "
        + " ".join(f"--rule '{rule}'" for rule in RULES): lambda d: pr.check([
            pr.summarize(d["values"], BOTH[0], slices="country", details=True).filter(run="new"),
            pr.compare(d["values"], BOTH[0], baseline="old", min_queries=2, slices="country",
                       details=True),
        ], RULES),
        "VALUES --weight traffic --cluster user --rule 'ap >= 0.01'":
            lambda d: pr.check(pr.summarize(d["values"], **DETAILS), ["ap >= 0.01"]),
    },
    "movers": {
        "LOG -m ap --baseline old --n 3 --k 2 --keep country --rel 2": of(
            pr.diagnostics.movers, "log", "ap", baseline="old", n=3, k=2, keep="country", rel=2),
    },
    "robustness": {
        "LOG -m p@5 --baseline old --margin 1% --cluster user": of(
            pr.diagnostics.robustness, "log", "p@5", baseline="old", margin="1%", cluster="user"),
    },
    "fuse": {f'LOG --method "{RRF}" --keep-runs': of(pr.fuse, "log", RRF, keep_runs=True)},
    "join-spans": {
        "chunks.parquet --gold spans.parquet --overlap any --of chunk --score other":
            of(pr.join_spans, "chunks", "spans", "any", of="chunk", score="other"),
    },
    "tune-fusion": {
        "LOG -m ndcg@5 --step 0.5 --folds 3 --undefined skip":
            of(pr.tune_fusion, "log", "ndcg@5", step=0.5, folds=3, undefined="skip"),
        'LOG -m ap --candidates "rrf(k=1)" --candidates borda --curve':
            of(pr.tune_fusion, "log", "ap", ["rrf(k=1)", "borda"], curve=True),
    },
    "generate": {
        "--queries 30 --docs-per-query 5 --runs 3 --seed 9":
            of(pr.datasets.search_log, 30, 5, runs=3, seed=9),
    },
}  # fmt: skip

#: Commands whose results are tested in other files.
ELSEWHERE = {
    *("explain", "metrics", "convert", "report", "demo", "gate", "init", "referee"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Data]:
    folder, data = tmp_path_factory.mktemp("data"), tables()
    for name, table in data.items():
        table.write_parquet(folder / f"{name}.parquet")
    return folder, data


def words(line: str) -> list[str]:
    files = {"LOG": ["log.parquet"], "VALUES": ["--values", "values.parquet"]}
    return [word for each in shlex.split(line) for word in files.get(each, [each])]


@pytest.mark.parametrize("command", CASES)
def test_a_command_returns_what_its_function_returns(
    data: tuple[Path, Data], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(data[0])
    output = tmp_path / "out.parquet"
    place = ["--overwrite", *(["-o"] if command != "generate" else []), output]

    def check(line: str) -> None:
        code, out, err = run(command, *words(line), *place)
        assert (code, out, err.splitlines()[-1]) == (0, "", f"Wrote {output}"), err
        with warnings.catch_warnings(action="ignore"):
            expected = CASES[command][line](data[1]).lazy().collect()
        found = pl.read_parquet(output)
        assert_frame_equal(found, expected, abs_tol=1e-12, check_row_order=command != "check")

    check_each(check, [(line,) for line in CASES[command]])
    if app.rows()[command].writes == "table":  # the table fits in a terminal of 80 columns
        shown = on_terminal(monkeypatch, 80, command, *words(next(iter(CASES[command]))))
        lines = [each for each in shown.splitlines() if not each.startswith("pr.evaluate(")]
        assert max(map(len, lines)) <= 80


def test_each_command_has_a_case() -> None:
    assert {*CASES} | ELSEWHERE == {*app.rows()}


def test_explain(tmp_path: Path) -> None:
    code, out, _ = run("explain", "ndcg@10", "--conventions", "lightgbm")
    assert (code, out) == (0, pr.explain("ndcg@10", "lightgbm") + "\n")
    _, out, _ = run("explain", "map", "--versus", "trec_eval")
    assert out == f"{pr.explain('map')}\n\n{pr.explain('map', 'trec_eval')}\n"
    assert run("explain", "rr", "-o", tmp_path / "rr.txt")[0] == 0
    assert (tmp_path / "rr.txt").read_text("utf-8") == pr.explain("rr") + "\n"


def test_ties_are_in_the_same_order_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs have many tied documents, and the judgments are in another order."""
    monkeypatch.chdir(tmp_path)
    docs = [f"d{number}" for number in range(40)]
    for name, step in (("a", 7), ("b", 11)):
        ranked = (
            f"{query} Q0 {docs[place * step % 40]} 0 {9 - place // 13} {name}\n"
            for query in range(30) for place in range(30 + query % 3)
        )  # fmt: skip
        Path(f"{name}.run").write_text("".join(ranked), "utf-8")
    judged = ((query, docs[place * 3 % 40]) for place in range(34) for query in range(29, -1, -1))
    labels = (f"{query} 0 {doc} {(query * int(doc[1:])) % 4}\n" for query, doc in judged)
    Path("qrels").write_text("".join(labels), "utf-8")
    log = "a.run b.run --judgments qrels"

    def check(line: str) -> None:
        first, *others = (invoke(*line.split(), "--format", "json") for _ in range(4))
        assert first.exit_code == 0, first.stderr
        assert {each.stdout for each in others} == {first.stdout}

    check_each(check, [
        (f"evaluate {log} -m ndcg@10,ap --conventions ranx",),
        (f"explain ndcg@10 {log} --versus ranx",),
        (f"movers {log} -m ndcg@10 --baseline a --k 5 --conventions ranx",),
    ])  # fmt: skip
    tables = []
    for _ in range(4):
        run("convert", *log.split(), "-o", "out.parquet", "--overwrite")
        tables.append(pl.read_parquet("out.parquet").rows())
    assert tables == tables[:1] * 4
