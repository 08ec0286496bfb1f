"""Values of tools from the files that `python -m tests.recorded` writes, and their means."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from tables import with_own_ids

from tests import recorded
from tests.recorded import text_of

from . import recorded_logs
from .logs import LOGS
from .recorded_logs import BY_USER, DATA, NAMES, RAG, RETRIEVAL, USERS, metric

#: Metrics whose values of short rankings differ, as `test_differences` shows, and the mean of all.
DIFFERENT = ("Accuracy@5", "MCC@5", "FBetaTopK@5", "RocAuc@5")
#: Gini indices of all users together: our value, and the discount of the exposure.
RECOMMENDED = pl.col("recommended").cast(pl.Int64)
GINI: dict[tuple[str, str], tuple[pl.Expr, Any]] = {
    ("LensKit", "ListGini@5"): (pl.col("gini"), None),
    ("LensKit", "ExposureGini@5"): (pl.col("gini"), lambda rank: 0.85 ** (rank - 1)),
    ("Evidently", "Gini@5"): (pl.col("gini_recommended") * RECOMMENDED / (RECOMMENDED - 1), None),
}


def known(values: dict[Any, float | None]) -> dict[Any, float]:
    return {key: value for key, value in values.items() if value is not None}


def values(frame: pl.DataFrame, name: str, **options: Any) -> dict[Any, float | None]:
    """Return the values of queries."""
    found = pr.per_query(frame, metric(name), **options)
    return dict(found.select(pl.first(), pl.last()).iter_rows())


def mean(frame: pl.DataFrame, name: str, **options: Any) -> float:
    return float(pr.evaluate(frame, metric(name), **options).to_series(-1).item())


def test_files_are_of_the_logs() -> None:
    for name in ("tools", "recommenders", "retrieval", "rag"):
        module, file = importlib.import_module(f"tests.recorded.{name}"), recorded.read(name)
        assert file["log"] == json.loads(json.dumps(module.log()))
        assert file["versions"].keys() == module.TOOLS.keys()
        assert (recorded.FIXTURES / f"{name}.json").read_text("utf-8") == text_of(file) + "\n"


def test_each_name_of_a_tool_is_compared() -> None:
    compared = {
        **{name: {(t, n) for t in NAMES[name] for n in NAMES[name][t]} for name in NAMES},
        "users": {*GINI},
    }
    users = compared["accuracy"] | compared["recommenders"] | compared["users"]
    for file, names in ((USERS, users), (RAG, compared["rag"]), (RETRIEVAL, compared["retrieval"])):
        assert names == {(tool, name) for tool, of in file["values"].items() for name in of}


#: The file of a log, its rows for a tool and metric, its columns, and its least number of values.
FILES: dict[str, tuple[Any, Callable[[str, str], pl.DataFrame], dict[str, str], int]] = {
    "accuracy": (USERS, lambda tool, _: recorded_logs.accuracy_log(tool), BY_USER, 26),
    "recommenders": (USERS, lambda _, name: recorded_logs.recommender_log(name), BY_USER, 16),
    "retrieval": (RETRIEVAL, recorded_logs.retrieval_log, {}, 4),
}
#: Tools whose values are rounded, and metrics without a mean to compare.
TOLERANCES = {"MTEB": 6e-6}
WITHOUT_MEAN = {
    *(("LensKit", name) for name in NAMES["recommenders"]["LensKit"]),
    ("Evidently", "MAP@5"),
}


@pytest.mark.filterwarnings("ignore:`items` has no row")
@pytest.mark.parametrize(("log", "tool"), [(log, tool) for log in FILES for tool in NAMES[log]])
def test_values_and_means(log: str, tool: str) -> None:
    file, rows, columns, least = FILES[log]
    options = {**columns, "conventions": tool}
    equal = {"rel": TOLERANCES.get(tool, 1e-9), "abs": TOLERANCES.get(tool, 1e-12)}
    for name, own in NAMES[log][tool].items():
        frame, theirs = rows(tool, name), known(file["values"][tool][name])
        ours = known(values(frame, own, **options))
        if name in DIFFERENT:
            rankings = DATA["accuracy"]["rankings"]
            users = [u for u in ours.keys() & theirs.keys() if len(rankings.get(u, ())) >= 5]
            ours, theirs = ({u: each[u] for u in users} for each in (ours, theirs))
        elif name in ("cg@10", "dcg@10"):  # a hit without a rating makes Quepid's value NaN
            ours = {query: ours[query] for query in theirs}
        assert len(theirs) >= (10 if name in DIFFERENT else least), name
        assert ours == pytest.approx(theirs, **equal), name
        means = file["means"][tool]
        if means and name not in DIFFERENT and (tool, name) not in WITHOUT_MEAN:
            assert mean(frame, own, **options) == pytest.approx(means[name], **equal), name


def test_gini() -> None:
    for (tool, name), (value, discount) in GINI.items():
        shown, items = recorded_logs.ranked(DATA["rankings"]), pl.DataFrame({"item": DATA["items"]})
        found = pr.catalog.summary(shown, 5, items=items, discount=discount, **BY_USER)
        # LensKit adds exposures up in 32 bits.
        theirs = USERS["values"][tool][name]["all"]
        assert found.select(value).item() == pytest.approx(theirs, rel=1e-6), name


@pytest.mark.parametrize("tool", NAMES["rag"])
def test_rag(tool: str) -> None:
    """Copies with ids of their own count as in Haystack, and without copies, as in ragas."""
    log = recorded_logs.rag_log()
    unique = log.filter(pl.struct("query", "doc").is_unique().all().over("query"))
    logs: list[tuple[pl.DataFrame, dict[str, Any], int]] = [(unique, {}, 10)]
    logs += [(with_own_ids(log), {}, 31)] * (tool == "Haystack")
    logs += [(log, {"duplicates": "max"}, 31)] * (tool == "ragas")
    for name, own in NAMES["rag"][tool].items():
        theirs = RAG["values"][tool][name]
        for frame, options, least in logs:
            ours = known(values(frame, own, ties="input", undefined="null", **options))
            both = {query: theirs[query] for query in ours if theirs[query] is not None}
            assert len(both) >= least
            assert {query: ours[query] for query in both} == pytest.approx(both, rel=1e-7), name
        if len(logs) > 1:  # Haystack counts undefined values as 0, and ragas leaves them out
            options = {"duplicates": "max", "undefined": "zero" if tool == "Haystack" else "skip"}
            numbers = [value for value in theirs if value is not None]
            expected = pytest.approx(sum(numbers) / len(numbers))
            assert mean(logs[1][0], own, **options) == expected, name


def test_trec_eval() -> None:
    log, found = LOGS["grades"](), recorded.read("trec_eval")["values"]["trec_eval"]
    table = pr.per_query(log, [*found], conventions="trec_eval")
    means = pr.evaluate(log, [*found], conventions="trec_eval").row(0, named=True)
    for name, theirs in found.items():
        ours = {**dict(table.select("query", name).iter_rows()), "all": means[name]}
        # trec_eval prints four decimals.
        assert {q: ours[q] or 0.0 for q in theirs} == pytest.approx(theirs, abs=6e-5), name
    assert "map" in found and len(found["map"]) > 30
