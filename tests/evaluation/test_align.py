"""`align`: means of several runs over the same queries."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import polars as pl
import polars_rank as pr
import pytest

#: Whether a query counts, by its numbers of judged and of retrieved documents.
COUNTS = {
    "all": lambda judged, retrieved: True,
    "judged": lambda judged, retrieved: judged > 0,
    "retrieved": lambda judged, retrieved: retrieved > 0,
    "both": lambda judged, retrieved: judged > 0 and retrieved > 0,
}

#: The documents of each ranking: scores and labels. Run "c" has no ranking that counts by "both".
RANKINGS: dict[str, dict[str, list[tuple[float | None, int | None]]]] = {
    "a": {"s": [(2.0, 1), (1.0, 0)], "t": [(1.0, 0)], "u": [(1.0, 1)], "v": [(1.0, None)]},
    "b": {"s": [(2.0, 0), (1.0, 1)], "t": [(None, 1)], "u": [(1.0, 1)], "w": [(1.0, 1)]},
    "c": {"s": [(None, 1)], "u": [(None, 1)], "w": [(1.0, None)]},
}
TRAFFIC = {"s": 1.0, "t": 2.0, "u": 4.0, "v": 8.0, "w": 16.0}


def a_log() -> pl.DataFrame:
    rows = [
        {"run": run, "query": query, "doc": doc, "score": score, "label": label}
        for run, queries in RANKINGS.items()
        for query, documents in queries.items()
        for doc, (score, label) in enumerate(documents)
    ]
    log = pl.DataFrame(rows, schema_overrides={"score": pl.Float64, "label": pl.Int64})
    return log.with_columns(traffic=pl.col("query").replace_strict(TRAFFIC))


def expected(
    metric: str, align: str, query_set: str, weighted: bool, missing: float | None
) -> dict[str, tuple[int, float | None]]:
    """Return the numbers of queries and the means, computed with loops."""
    values = {
        (run, query): value
        for run, query, value in pr.per_query(a_log(), metric, by="run", undefined="null")
        .select("run", "query", metric)
        .iter_rows()
    }
    counted = {
        run: {
            query
            for query, documents in queries.items()
            if COUNTS[query_set](
                sum(label is not None for _, label in documents),
                sum(score is not None for score, _ in documents),
            )
        }
        for run, queries in RANKINGS.items()
    }
    every = set.union(*counted.values()) if align == "all" else set.intersection(*counted.values())
    result = {}
    for run, own in counted.items():
        pairs = [
            (values[run, query] if query in own else None, TRAFFIC[query] if weighted else 1.0)
            for query in sorted(every)
        ]
        known = [(missing if value is None else value, weight) for value, weight in pairs]
        known = [(value, weight) for value, weight in known if value is not None]
        total = sum(value * weight for value, weight in known)
        if metric != "num_retrieved":
            total = total / sum(weight for _, weight in known) if known else None
        result[run] = (len(every), total)
    return result


@pytest.mark.filterwarnings("ignore:no retrieved document has a label")  # of run "c"
@pytest.mark.parametrize("align", ["common", "all"])
@pytest.mark.parametrize("query_set", COUNTS)
@pytest.mark.parametrize("undefined", ["zero", "one", "skip"])
def test_runs_are_averaged_over_the_same_queries(
    align: Literal["common", "all"], query_set: Any, undefined: Any
) -> None:
    missing = {"zero": 0.0, "one": 1.0, "skip": None}[undefined]
    for engine, weight in product(("in-memory", "streaming"), (None, "traffic")):
        options: dict[str, Any] = {"by": "run", "align": align, "query_set": query_set}
        result = pr.evaluate(
            a_log().lazy(), ["recall@1", "num_retrieved"],
            undefined=undefined, weight=weight, **options,
        ).collect(engine=engine)  # fmt: skip
        for metric in ("recall@1", "num_retrieved"):
            # No ranking has 1 document because it is missing.
            value = 0.0 if metric == "num_retrieved" else missing
            right = expected(metric, align, query_set, weight is not None, value)
            if all(queries == 0 for queries, _ in right.values()):
                assert result.is_empty()
                continue
            found = {row["run"]: (row["queries"], row[metric]) for row in result.to_dicts()}
            assert found == {run: pytest.approx(each, nan_ok=True) for run, each in right.items()}


@pytest.mark.parametrize("preset", ["trec_eval", "trec_eval_9", "ndeval", "ir_measures", "ranx"])
@pytest.mark.parametrize("align", ["common", "all"])
def test_presets_align_runs(preset: str, align: Any) -> None:
    run = {"new": {q: {"d": 1.0} for q in "st"}, "old": {q: {"d": 1.0} for q in "stuv"}}
    log = pr.from_dicts(run, {"s": {"d": 1}, "t": {"d": 0}, "u": {"d": 1}, "v": {"d": 1}})
    log = log.filter(pl.col("score").is_not_null())
    number, means = {"common": (2, [1 / 2, 1 / 2]), "all": (4, [1 / 4, 3 / 4])}[align]
    options: dict[str, Any] = {"by": "run", "conventions": preset, "align": align}
    result = pr.evaluate(log, "P_1", **options).sort("run")
    assert (result["queries"].to_list(), result["P_1"].to_list()) == ([number] * 2, means)
    curve = pr.rank_curve(log, "precision", [1], **options).sort("run")
    assert (curve["queries"].to_list(), curve["precision"].to_list()) == ([number] * 2, means)


def test_trec_eval_9_aligns_runs_with_judged_queries_that_they_do_not_retrieve() -> None:
    run = {"old": {q: {"d": 1.0} for q in "stuv"}, "new": {q: {"d": 1.0} for q in "st"}}
    log = pr.from_dicts(run, {"s": {"d": 1}, "t": {"d": 0}, "u": {"d": 1}, "v": {"d": 1}})
    found = {
        align: pr.evaluate(log, "P_1", by="run", conventions="trec_eval_9", align=align)
        .sort("run")
        .select("run", "queries", "P_1")
        .rows()
        for align in ("common", "all")
    }
    assert found == {
        "common": [("new", 2, 1 / 2), ("old", 2, 1 / 2)],
        "all": [("new", 4, 1 / 4), ("old", 4, 3 / 4)],
    }


def test_missing_rankings_have_the_mean_weight_of_the_query_in_other_runs() -> None:
    log = pl.DataFrame(
        {
            "run": ["a", "b", "a", "b", "c"],
            "query": ["s", "s", "t", "t", "t"],
            "score": 1.0,
            "label": [1, 1, 0, 0, 1],
            "traffic": [1.0, 3.0, 5.0, 5.0, 5.0],
        }
    )
    result = pr.evaluate(log, "p@1", by="run", weight="traffic", align="all")
    # The missing ranking of c for s has the weight (1 + 3) / 2.
    assert result["p@1"].to_list() == pytest.approx([1 / (1 + 5), 3 / (3 + 5), 5 / (2 + 5)])


@pytest.mark.parametrize("align", ["common", "all"])
def test_judged_documents_without_a_run_are_an_error_if_runs_are_aligned(align: Any) -> None:
    log = pl.DataFrame(
        {
            "run": ["a", "b", None],
            "query": ["s", "s", "t"],
            "score": [1.0, 1.0, None],
            "label": [1, 1, 1],
        }
    )
    for query_set in ("all", "both"):
        with pytest.raises(pr.errors.DataError, match="'run' \\(`run`\\) is null"):
            pr.evaluate(log, "p@1", by="run", align=align, query_set=query_set)
