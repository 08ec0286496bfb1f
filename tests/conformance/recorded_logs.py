"""The logs on which tools were run whose values are in tests/fixtures, and the metrics of tools.

`recorded.json` has the metrics: by log, tool, and the tool's name. A metric is a name in
polars_rank, under the preset of the tool, or an expression.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr

from tests import recorded

_FILE = Path(__file__).with_name("recorded.json")
NAMES: dict[str, dict[str, dict[str, str]]] = json.loads(_FILE.read_text(encoding="utf-8"))
NAMES["trec_eval"] = {
    tool: {name: name for name in values}
    for tool, values in recorded.read("trec_eval")["values"].items()
}
RAG, USERS, RETRIEVAL = (recorded.read(name) for name in ("rag", "recommenders", "retrieval"))
DATA = USERS["log"]
BY_USER = {"query": "user", "doc": "item", "position": "position"}


def metric(text: str) -> str | pr.Metric:
    """Return the metric of a text."""
    return eval(text, {"pr": pr}) if "pr." in text else text


def table(rows: list[Any], *columns: str) -> pl.DataFrame:
    return pl.DataFrame(rows, columns, orient="row")


def ranked(rankings: dict[str, list[str]]) -> pl.DataFrame:
    """Return the documents of users with their positions."""
    rows = [
        (user, item, at) for user, items in rankings.items() for at, item in enumerate(items, 1)
    ]
    return table(rows, "user", "item", "position")


def nested(data: dict[str, dict[str, Any]], *columns: str) -> pl.DataFrame:
    """Return a row for each value of a dictionary of dictionaries."""
    return table([(a, b, value) for a, of in data.items() for b, value in of.items()], *columns)


def rag_log() -> pl.DataFrame:
    """Return the rankings as rows; a query without documents has a row without a document."""
    rows: list[tuple[int, str | None, float | None, int | None]] = []
    for query, ranking in enumerate(RAG["log"]):
        retrieved, relevant = ranking["retrieved"], ranking["relevant"]
        rows += [(query, doc, -float(i), int(doc in relevant)) for i, doc in enumerate(retrieved)]
        rows += [(query, doc, None, 1) for doc in relevant if doc not in retrieved]
        rows += [(query, None, None, None)] * (not retrieved and not relevant)
    schema = {"query": pl.Int64, "doc": pl.String, "score": pl.Float64, "label": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def accuracy_log(tool: str) -> pl.DataFrame:
    """Return the rankings and grades; Evidently knows the grades of recommended documents only."""
    data, how = DATA["accuracy"], "left" if tool == "Evidently" else "full"
    grades = nested(data["relevant"], "user", "item", "label")
    return ranked(data["rankings"]).join(grades, on=["user", "item"], how=how, coalesce=True)


def recommender_log(name: str) -> pl.DataFrame:
    """Return rankings with relevant, seen and expected documents, and attributes of documents.

    Two tools were given only documents with a category for some metrics.
    """
    pair, number = ["user", "item"], len(DATA["items"])
    train, test = table(DATA["train"], *pair), table(DATA["test"], *pair)
    base = ranked(DATA["baseline"]).filter(pl.col("position") <= 5)
    popularity = pr.catalog.popularity(train, query="user", doc="item").with_columns(
        of_largest=pl.col("users") / pl.col("users").max(),
        quantile=pl.col("users").rank("average") / pl.len(),
        expected=(number + 1 - pl.col("popularity_rank").cast(pl.Int64)) / number,
    )
    category = table([*DATA["category"].items()], "item", "category")
    frame = (
        ranked(DATA["rankings"])
        .join(test.unique().with_columns(label=1), on=pair, how="full", coalesce=True)
        .join(base.select(*pair, baseline=True), on=pair, how="left")
        .join(
            category.join(popularity, on="item", how="full", coalesce=True), on="item", how="left"
        )
        .join(train.select(*pair, seen=True).unique(), on=pair, how="left")
    )
    is_some = name in ("CategoricalDiversity@5", "ILS@5")
    return frame.filter(pl.col("item").is_in([*DATA["category"]])) if is_some else frame


def retrieval_log(tool: str, name: str) -> pl.DataFrame:
    """Return the log, with the labels that the tool reads; "graded" is before names with grades.

    Grades are then at most 1, and queries have one above 0.
    """
    data, label, is_graded = RETRIEVAL["log"], pl.col("label"), name.startswith("graded")
    hits = [(q, doc, score) for q, hits in data["rankings"].items() for doc, score in hits]
    grades = nested(data["grades"], "query", "doc", "label")
    if tool == "Vespa":
        grades = grades.with_columns(label / 3 if is_graded else (label > 0).cast(pl.Int8))
    log = table(hits, "query", "doc", "score").join(
        grades, on=["query", "doc"], how="full", coalesce=True, maintain_order="left"
    )
    return log.filter((label.max() > 0).over("query").fill_null(False)) if is_graded else log
