"""`fuse` equals ranx, for all methods and normalizations that both have."""

from __future__ import annotations

import random
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest

# All methods of fusion.
from polars_rank.fusion.methods import FORMULAS

pytestmark = pytest.mark.filterwarnings("ignore")  # of ranx

RUNS = ("a", "b", "c")
WEIGHTS = {"a": 0.5, "b": 2.0, "c": 1.25}
#: The methods of ranx, their names there, and their parameters.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "rrf": ("rrf", {"k": 20}),
    **{name: (name, {}) for name in ("sum", "mnz", "anz", "min", "max", "isr", "log_isr")},
    "logn_isr": ("logn_isr", {}),
    "median": ("med", {}),
    "gmnz": ("gmnz", {"gamma": 1.5}),
    "rbc": ("rbc", {"phi": 0.8}),
    "weighted_sum": ("wsum", {"weights": WEIGHTS}),
    "wmnz": ("wmnz", {"weights": WEIGHTS}),
    "mixed": ("mixed", {"weights": WEIGHTS}),
    "borda": ("bordafuse", {}),
    "weighted_borda": ("w_bordafuse", {"weights": WEIGHTS}),
}
#: The normalizations of ranx by their names here.
NORMALIZATIONS = {
    **{"min_max": "min-max", "max": "max", "sum": "sum"},
    **{"zscore": "zmuv", "rank": "rank", "borda": "borda"},
}


def runs_of(rows: pl.DataFrame) -> list[Any]:
    """Return the runs as objects of ranx, which sorts them when they are made."""
    import ranx

    runs: dict[str, dict[str, dict[str, float]]] = {run: {} for run in RUNS}
    for run, query, doc, score in rows.rows():
        runs[run].setdefault(query, {})[doc] = score
    return [ranx.Run(rankings) for rankings in runs.values()]


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Return runs with ties in the order of ranx, whose sort is unstable.

    Scores of a ranking differ, because ranx gives equal ones 0 where others give them 1.
    """
    needs.package("ranx", "conformance")
    draw = random.Random(0)
    columns = ["run", "query", "doc", "score"]
    given = [
        (run, f"q{query}", f"d{doc}", draw.choice([0.5, 1.0, 2.0, 3.0, 7.25]))
        for run in RUNS for query in range(20) for doc in draw.sample(range(15), 9)
    ]  # fmt: skip
    runs = zip(RUNS, runs_of(pl.DataFrame(given, columns, orient="row")), strict=True)
    found = [
        (run, query, doc, score)
        for run, ranked in runs
        for query, docs in ranked.to_dict().items() for doc, score in docs.items()
    ]  # fmt: skip
    return pl.DataFrame(found, columns, orient="row")


@pytest.mark.parametrize("method", METHODS)
def test_ranx(method: Any, rows: pl.DataFrame) -> None:
    import ranx

    name, parameters = METHODS[method]
    theirs = dict(parameters)
    if "weights" in parameters:
        theirs["weights"] = [*parameters["weights"].values()]
    for normalize in NORMALIZATIONS if FORMULAS[method].points is None else (None,):
        norm = None if normalize is None else NORMALIZATIONS[normalize]
        fused = ranx.fuse(runs_of(rows), norm=norm, method=name, params=theirs).to_dict()
        expected = {
            (query, doc): score for query, docs in fused.items() for doc, score in docs.items()
        }
        fusion = pr.Fusion(method, normalize=normalize, **parameters)
        table = pr.fuse(rows, fusion, ties="input")
        scores = {tuple(row[:2]): row[2] for row in table.select("query", "doc", "score").rows()}
        assert scores == pytest.approx(expected, rel=1e-9, abs=1e-9), normalize
