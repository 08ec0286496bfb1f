"""Each command returns what its function returns."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import on_terminal, run
from polars.testing import assert_frame_equal

import polars_rank as pr
from polars_rank.cli.program import app

BOTH = ["ndcg@10", "ap"]
RRF = "rrf(k=10, weights={'old': 1, 'new': 2.5})"
RULES = ["ndcg@10 >= 0.01", "difference(ndcg@10) >= -9", "queries >= 2"]


class Data:
    """The tables that the commands read, as frames."""

    def __init__(self) -> None:
        user, traffic = (pl.col("query") % 40).alias("user"), (pl.col("query") % 3 + 1)
        labels = pl.col("label").fill_null(0)
        self.log = (
            pr.datasets.search_log(80, 10, seed=1, runs=["old", "new"])
            .with_columns(
                user, traffic=traffic, day=pl.col("query") % 3, graded=pl.col("label"),
                human=pl.when(pl.col("query") < 40).then(labels),
                llm=(labels + pl.struct("query", "doc").hash(1) % 2).cast(pl.Float64),
            )
            .collect()
        )  # fmt: skip
        keep = ["country", "user", "traffic"]
        self.values = pr.per_query(self.log, BOTH, keep=keep)
        self.m0, self.m1, self.m2 = (
            self.values.filter(pl.col("query") % 3 == day) for day in range(3)
        )
        self.some = self.values.filter(pl.col("query") < 40)
        self.one = self.log.filter(run="old").drop("run").with_columns(other=-pl.col("position"))
        names = {"query": "q", "doc": "d", "score": "s", "label": "g"}
        number = (pl.col("run") == "new").cast(pl.Int64) + 1
        renamed = self.log.drop("day").with_columns(run=number)
        self.renamed = renamed.rename({**names, "run": "day"})
        self.chunks = self.one.select("query", "doc", "other", start=0, end="position").drop_nulls()
        self.spans = self.chunks.drop("other").filter(pl.col("end") > 4)

    def write(self) -> None:
        for name, frame in vars(self).items():
            frame.write_parquet(f"{name}.parquet")


#: Names of commands → command lines → what the library returns for the same question.
CASES: dict[str, dict[str, Callable[[Data], Any]]] = {
    "evaluate": {
        'log.parquet -m "ndcg@10 ap"': lambda d: pr.evaluate(d.log, BOTH),
        "log.parquet -m ap --by country --weight traffic --query-set judged": lambda d: pr.evaluate(
            d.log, "ap", by="country", weight="traffic", query_set="judged"
        ),
        "log.parquet -m ap,p@3 --rel 2 --unjudged removed --ties best": lambda d: pr.evaluate(
            d.log, ["ap", "p@3"], rel=2, unjudged="removed", ties="best"
        ),
        'log.parquet -m "rr ap" --undefined one --undefined ap=skip': lambda d: pr.evaluate(
            d.log, ["rr", "ap"], undefined={"*": "one", "ap": "skip"}
        ),
        "log.parquet -m ndcg@3 --conventions LightGBM": lambda d: pr.evaluate(
            d.log, "ndcg@3", conventions="lightgbm"
        ),
        """log.parquet -m ndcg@3 --parameters '{"gain": "exp2"}' --no-text-ids""": lambda d: (
            pr.evaluate(d.log, "ndcg@3", parameters={"gain": "exp2"})
        ),
        "log.parquet -m ap --position position": lambda d: pr.evaluate(
            d.log, "ap", position="position"
        ),
        "one.parquet -m rr --score=-score": lambda d: pr.evaluate(d.one, "rr", score="-score"),
        "log.parquet -m rr --label llm": lambda d: pr.evaluate(d.log, "rr", label="llm"),
        "one.parquet -m rr --doc ''": lambda d: pr.evaluate(d.one, "rr", doc=None),
        "renamed.parquet -m ap --query q --doc d --score s --label g --run day": lambda d: (
            pr.evaluate(d.renamed, "ap", query="q", doc="d", score="s", label="g", run="day")
        ),
        'log.parquet -m "P_5,10 ndcg@[5, 10], utility_2,-1,0,0"': lambda d: pr.evaluate(
            d.log, ["P_5", "P_10", "ndcg@5", "ndcg@10", "utility_2,-1,0,0"]
        ),
    },
    "per-query": {
        'log.parquet -m ap --keep "country user" --undefined null': lambda d: pr.per_query(
            d.log, "ap", keep=["country", "user"], undefined="null"
        ),
    },
    "rank": {"log.parquet --ties worst": lambda d: pr.rank(d.log, ties="worst")},
    "explain": {
        "ndcg@10 log.parquet --versus lightgbm --n 2": lambda d: pr.explain_difference(
            d.log, "ndcg@10", "polars_rank", "lightgbm", n=2
        ),
    },
    "identify": {
        'log.parquet -m ndcg@3 --value "old=0.70 new=0.5" --n 2 --rel 2': lambda d: pr.identify(
            d.log, "ndcg@3", {"old": "0.70", "new": "0.5"}, n=2, rel=2
        ),
        "one.parquet -m ndcg@3 --value 0.70": lambda d: pr.identify(d.one, "ndcg@3", "0.70"),
        "log.parquet -m ndcg@10 --per-query values.parquet": lambda d: pr.identify(
            d.log, "ndcg@10", d.values
        ),
    },
    "summarize": {
        'log.parquet -m "ndcg@10 ap"': lambda d: pr.summarize(d.values, BOTH),
        "--values values.parquet": lambda d: pr.summarize(d.values),
        'log.parquet -m "ndcg@10 ap" --weight traffic --cluster user --confidence 0.9 --repeated '
        "--details": lambda d: pr.summarize(
            d.values,
            BOTH,
            weight="traffic",
            cluster="user",
            confidence=0.9,
            repeated=True,
            details=True,
        ),
        'log.parquet -m "ndcg@10 ap" --slices country': lambda d: pr.summarize(
            d.values, BOTH, slices="country"
        ),
        "log.parquet -m ndcg@3 --conventions lightgbm --by country": lambda d: pr.summarize(
            pr.per_query(d.log, "ndcg@3", by="country", conventions="lightgbm"), by="country"
        ),
        '--values "m*.parquet"': lambda d: pr.summarize(d.values, BOTH),
        "log.parquet -m ap --by run": lambda d: pr.summarize(d.values, "ap"),
    },
    "compare": {
        "--values values.parquet --baseline old": lambda d: pr.compare(
            d.values, BOTH, baseline="old"
        ),
        'log.parquet -m "ndcg@10 ap" --baseline new --margin 2% --no-correction --slices "country '
        'traffic" --min-queries 2 --details': lambda d: pr.compare(
            d.values,
            BOTH,
            baseline="new",
            margin="2%",
            correction=False,
            slices=["country", "traffic"],
            min_queries=2,
            details=True,
        ),
        "--values values.parquet -m ap --margin 0.3 --weight traffic --cluster user": lambda d: (
            pr.compare(d.values, "ap", margin=0.3, weight="traffic", cluster="user")
        ),
        '--values "m*.parquet" -m ap --baseline old --repeated': lambda d: pr.compare(
            d.values, "ap", baseline="old", repeated=True
        ),
        "renamed.parquet -m ap --query q --doc d --score s --label g --run day --baseline 1": lambda d: (
            pr.compare(
                pr.per_query(d.renamed, "ap", query="q", doc="d", score="s", label="g", run="day"),
                run="day",
                query="q",
                baseline=1,
            )
        ),
    },
    "leaderboard": {
        'log.parquet -m "ndcg@10 ap" --cluster user --weight traffic --details': lambda d: (
            pr.leaderboard(d.values, BOTH, cluster="user", weight="traffic", details=True)
        ),
        "--values values.parquet -m ap --by country": lambda d: pr.leaderboard(
            d.values, "ap", by="country"
        ),
    },
    "power": {
        "--values values.parquet --baseline old --difference 0.05": lambda d: pr.power(
            d.values, baseline="old", difference=0.05
        ),
        '--values values.parquet -m ap --n "10 20"': lambda d: pr.power(d.values, "ap", n=[10, 20]),
    },
    "check": {
        "log.parquet --baseline old --slices country --min-queries 2 "
        + " ".join(f"--rule '{rule}'" for rule in RULES): lambda d: pr.check(
            [
                pr.summarize(d.values, "ndcg@10", slices="country", details=True).filter(run="new"),
                pr.compare(
                    d.values,
                    "ndcg@10",
                    baseline="old",
                    min_queries=2,
                    slices="country",
                    details=True,
                ),
            ],
            RULES,
        ),
        "--values values.parquet --weight traffic --cluster user --rule 'ap >= 0.01'": lambda d: (
            pr.check(
                pr.summarize(d.values, weight="traffic", cluster="user", details=True),
                ["ap >= 0.01"],
            )
        ),
    },
    "movers": {
        "log.parquet -m ap --baseline old --n 3 --k 2 --keep country --rel 2": lambda d: (
            pr.diagnostics.movers(d.log, "ap", baseline="old", n=3, k=2, keep="country", rel=2)
        ),
    },
    "robustness": {
        "log.parquet -m p@5 --baseline old --margin 1% --cluster user": lambda d: (
            pr.diagnostics.robustness(d.log, "p@5", baseline="old", margin="1%", cluster="user")
        ),
    },
    "fuse": {
        f'log.parquet --method "{RRF}" --keep-runs': lambda d: pr.fuse(d.log, RRF, keep_runs=True),
    },
    "join-spans": {
        "chunks.parquet --gold spans.parquet --overlap any --of chunk --score other": lambda d: (
            pr.join_spans(d.chunks, d.spans, "any", of="chunk", score="other")
        ),
    },
    "tune-fusion": {
        "log.parquet -m ndcg@5 --step 0.5 --folds 3 --undefined skip": lambda d: pr.tune_fusion(
            d.log, "ndcg@5", step=0.5, folds=3, undefined="skip"
        ),
        'log.parquet -m ap --candidates "rrf(k=1)" --candidates borda --curve': lambda d: (
            pr.tune_fusion(d.log, "ap", ["rrf(k=1)", "borda"], curve=True)
        ),
    },
    "generate": {
        "--queries 30 --docs-per-query 5 --runs 3 --seed 9": lambda _: pr.datasets.search_log(
            30, 5, runs=3, seed=9
        ).collect(),
    },
}

#: Commands whose results are tested in other files.
ELSEWHERE = {
    *("explain", "metrics", "inspect", "convert", "report", "demo", "gate", "init", "referee"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Data]:
    folder, data = tmp_path_factory.mktemp("data"), Data()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        data.write()
    return folder, data


def test_each_command_has_a_case() -> None:
    assert {*CASES} | ELSEWHERE == {*app.rows()}


@pytest.mark.parametrize(
    ("command", "line"), [(command, line) for command, lines in CASES.items() for line in lines]
)
def test_a_command_returns_what_its_function_returns(
    data: tuple[Path, Data],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    line: str,
) -> None:
    monkeypatch.chdir(data[0])
    output = tmp_path / "out.parquet"
    place = [output] if command == "generate" else ["-o", output]
    code, out, err = run(command, *shlex.split(line), *place)
    assert (code, out, err.splitlines()[-1]) == (0, "", f"Wrote {output}"), err
    with warnings.catch_warnings(action="ignore"):
        expected = CASES[command][line](data[1]).lazy().collect()
    found = pl.read_parquet(output)
    assert_frame_equal(found, expected, abs_tol=1e-12, check_row_order=command != "check")


@pytest.mark.parametrize("command", [each for each in CASES if each != "generate"])
def test_an_output_never_replaces_an_input(
    data: tuple[Path, Data], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(data[0])
    words = shlex.split(next(iter(CASES[command])))
    (log, *_) = [word for word in words if word.endswith(".parquet")]
    before = Path(log).read_bytes()
    code, out, err = run(command, *words, "-o", log, "--overwrite")
    assert (code, out, Path(log).read_bytes()) == (2, "", before)
    assert f"'{log}' is an input; write to another file" in err


@pytest.mark.parametrize("command", CASES)
def test_tables_fit_in_80_columns(
    data: tuple[Path, Data], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """With a line per row, as in a pipe."""
    monkeypatch.chdir(data[0])
    if app.rows()[command].writes == "table":
        for line in CASES[command]:
            shown = on_terminal(monkeypatch, 80, command, *shlex.split(line))
            lines = [each for each in shown.splitlines() if not each.startswith("pr.evaluate(")]
            assert max(map(len, lines)) <= 80, line
