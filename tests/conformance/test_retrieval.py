"""Values of tools for retrieval, query by query, from a file that `write_retrieval` writes."""

from __future__ import annotations

import json

import polars as pl
import polars_rank as pr
import pytest

from .write_retrieval import FIXTURE, log

FOUND = json.loads(FIXTURE.read_text(encoding="utf-8"))
#: MTEB rounds to five decimals.
TOLERANCES = {"MTEB": 6e-6}
#: The names in each tool; "graded" stands before those that also read grades.
NAMES = [(tool, name) for tool, values in FOUND["values"].items() for name in values]
#: The metric for each name in each tool, under the preset of the tool.
METRICS: dict[tuple[str, str], str] = {
    (tool, name): name for tool, name in NAMES if not name.startswith("graded")
}


def rankings(tool: str, name: str) -> pl.DataFrame:
    """Return the log, with the labels that the tool reads."""
    data = FOUND["log"]
    hits = [(q, doc, score) for q, hits in data["rankings"].items() for doc, score in hits]
    grades = [
        (q, doc, grade) for q, of_query in data["grades"].items() for doc, grade in of_query.items()
    ]
    label = pl.col("label")
    if tool == "Vespa":
        label = label / 3 if name.startswith("graded") else (label > 0).cast(pl.Int8)
    return pl.DataFrame(hits, ["query", "doc", "score"], orient="row").join(
        pl.DataFrame(grades, ["query", "doc", "label"], orient="row").with_columns(label),
        on=["query", "doc"],
        how="full",
        coalesce=True,
        maintain_order="left",
    )


def test_the_file_is_up_to_date() -> None:
    assert json.loads(json.dumps(log())) == FOUND["log"]


@pytest.mark.parametrize(("tool", "name"), NAMES, ids=map("-".join, NAMES))
def test_every_value_and_mean(tool: str, name: str) -> None:
    frame, metric = rankings(tool, name), name.removeprefix("graded ")
    if name.startswith("graded"):  # grades are at most 1
        relevant = frame.filter(pl.col("label") > 0)["query"]
        frame = frame.filter(pl.col("query").is_in(relevant.implode()))
    expected = {q: v for q, v in FOUND["values"][tool][name].items() if v is not None}
    values = pr.per_query(frame, metric, conventions=tool).select("query", pl.last())
    ours = dict(values.drop_nulls().iter_rows())
    tolerance = TOLERANCES.get(tool, 1e-12)
    if name in ("cg@10", "dcg@10"):  # a hit without a rating makes Quepid's value NaN
        ours = {query: ours[query] for query in expected}
    assert len(expected) > 3
    assert ours == pytest.approx(expected, rel=tolerance, abs=tolerance)
    if tool in FOUND["means"] and FOUND["means"][tool]:
        mean = pr.evaluate(frame, metric, conventions=tool).to_series(-1).item()
        assert mean == pytest.approx(FOUND["means"][tool][name], abs=tolerance)
