"""Random logs with ties, nulls, rankings of different lengths, and no relevant document."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps

import oracles
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from oracles import Doc
from polars.testing import assert_frame_equal
from polars_rank import datasets

# The registry of metrics, to test each of them.
from polars_rank.metrics.metric import REGISTER, Metric

#: For tests with small, cheap examples.
more_examples = settings(max_examples=4 * settings().max_examples)
#: For tests that evaluate all metrics, whose plan takes longer than the rows: one large log.
fewer_examples = settings(max_examples=settings().max_examples // 3)

#: Rankings of a log by query; documents are in the order of rows.
Lists = Mapping[int, list[Doc]]

SCORES = (None, -1.0, 0.0, 0.25, 0.5, 0.5, 2.0)
LABELS = (None, 0, 0, 1, 1, 2, 3, 4)
SCHEMA = {"query": pl.Int64, "doc": pl.Int64, "score": pl.Float64, "label": pl.Int64}
#: Clicks, and the column that metrics of subtopics read, computed from the document.
DID = {"click": oracles.clicked, "dwell": oracles.dwell, "subtopics": oracles.subtopics}
DID_SCHEMA = {"click": pl.Boolean, "dwell": pl.Float64, "subtopics": pl.List(pl.Int64)}
#: Attributes of documents, which metrics of novelty and diversity read.
ATTRIBUTES = {
    "users": oracles.users,
    "share": oracles.share,
    "interactions": oracles.rows,
    "seen": oracles.seen,
    "expected": oracles.expected_by_others,
    "forbidden": oracles.must_not_be_retrieved,
    "long_tail": oracles.long_tail,
    "category": oracles.category,
    "genres": oracles.genres,
    "embedding": oracles.embedding,
}
ATTRIBUTES_SCHEMA = {
    "users": pl.Int64,
    "share": pl.Float64,
    "interactions": pl.Int64,
    "seen": pl.Boolean,
    "expected": pl.Float64,
    "forbidden": pl.Boolean,
    "long_tail": pl.Boolean,
    "category": pl.String,
    "genres": pl.List(pl.String),
    "embedding": pl.List(pl.Float64),
    "history_category": pl.List(pl.String),
}

#: Arguments of metrics that require some.
NEEDED = {"k": 4, "max_grade": 4, "recall": 0.5, "T": 1.0, "p": 0.7}


def log_of(lists: Lists, label: type[pl.DataType] = pl.Int64) -> pl.DataFrame:
    """Return the long table of some rankings, with clicks, subtopics and attributes."""
    rows = [doc for docs in lists.values() for doc in docs]
    columns = {
        "query": [query for query, docs in lists.items() for _ in docs],
        "doc": [doc.doc for doc in rows],
        "score": [doc.score for doc in rows],
        "label": [doc.label for doc in rows],
        **{name: [*map(column, rows)] for name, column in {**DID, **ATTRIBUTES}.items()},
        "history_category": [
            each for docs in lists.values() for each in [oracles.history_category(docs)] * len(docs)
        ],
    }
    schema = {**SCHEMA, "label": label, **DID_SCHEMA, **ATTRIBUTES_SCHEMA}
    return pl.DataFrame([_series(name, columns[name], schema[name]) for name in schema])


def _series(name: str, values: list[object], dtype: pl.DataType) -> pl.Series:
    """Return a column; through Arrow if it has lists, which Polars takes much longer to read."""
    if not isinstance(dtype, pl.List):
        return pl.Series(name, values, dtype)
    return pl.Series(name, pa.array(values, pl.Series(dtype=dtype).to_arrow().type))


def logs(
    scores: tuple = SCORES, labels: tuple = LABELS, *, queries: tuple[int, int] = (5, 15)
) -> st.SearchStrategy[Lists]:
    """Generate the rankings of a log."""
    doc = st.builds(Doc, st.integers(0, 20), st.sampled_from(scores), st.sampled_from(labels))
    docs = st.lists(doc, min_size=1, max_size=9, unique_by=lambda d: d.doc)
    low, high = queries
    return st.lists(docs, min_size=low, max_size=high).map(lambda many: dict(enumerate(many)))


def large_logs() -> st.SearchStrategy[Lists]:
    """Generate logs with a retrieved and relevant document, which hypothesis' first log lacks."""
    return logs(queries=(20, 40)).filter(
        lambda lists: any(d.label and d.score is not None for docs in lists.values() for d in docs)
    )


def random_lists(
    seed: int, queries: int = 60, scores: tuple = SCORES, labels: tuple = LABELS
) -> Lists:
    """Return the rankings of a log, always the same for a seed."""
    draw = random.Random(seed)

    def docs() -> list[Doc]:
        ids = draw.sample(range(30), draw.randint(1, 12))
        return [Doc(doc, draw.choice(scores), draw.choice(labels)) for doc in ids]

    return {query: docs() for query in range(queries)}


def make_fewer_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit generated logs to 100 queries."""

    generate = datasets.search_log

    @wraps(generate)
    def fewer(queries: int, *arguments: Any, **options: Any) -> pl.LazyFrame:
        return generate(min(queries, 100), *arguments, **options)

    monkeypatch.setattr(datasets, "search_log", fewer)


def shuffled(frame: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Return the rows in another order."""
    return frame.sample(fraction=1, shuffle=True, seed=seed)


def assert_close(left: pl.DataFrame, right: pl.DataFrame) -> None:
    """Compare two results to 1e-12, nulls included."""
    assert_frame_equal(left, right, check_dtypes=False, rel_tol=1e-12, abs_tol=1e-12)


def every_metric(*cutoffs: int) -> list[Metric]:
    """Call all metrics of the package with their defaults; if cutoffs are given, also with them.

    Metrics with a relevance threshold are also called with one.
    """
    return list({str(metric): metric for metric in _calls(cutoffs)}.values())


def _calls(cutoffs: tuple[int, ...]) -> Iterator[Metric]:
    for build in REGISTER.values():
        parameters = inspect.signature(build).parameters
        needed = {p.name: NEEDED[p.name] for p in parameters.values() if p.default is p.empty}
        yield build(**needed)
        if "k" in parameters:
            yield from (build(**{**needed, "k": k}) for k in cutoffs)
        if "rel" in parameters and cutoffs:
            yield build(**needed, rel=2)


def in_rank_order(docs: Iterable[Doc], ties: str) -> list[Doc]:
    """Sort by several keys, the least important first; None comes after all scores."""
    rows = list(docs)
    if ties != "input":
        rows.sort(key=lambda d: d.doc, reverse=ties != "doc_ascending")
    if ties in ("best", "worst"):
        rows.sort(key=lambda d: (d.label or 0, d.label is not None), reverse=ties == "best")
    return sorted(rows, key=lambda d: (d.score is not None, d.score or 0), reverse=True)


def truth(metrics: list[Metric], lists: Lists, ties: str = "doc") -> pl.DataFrame:
    """Return the expected result of `per_query` from the oracles, which get rows in rank order."""
    columns = {}
    ordered = [in_rank_order(docs, ties) for docs in lists.values()]
    for metric in metrics:
        oracle = getattr(oracles, metric.function.__name__)
        arguments = {name: _plain(value) for name, value in metric.arguments.items()}
        columns[metric.output_name] = [oracle(docs, **arguments) for docs in ordered]
    return pl.DataFrame({"query": list(lists), **columns}, strict=False)


def _plain(value: object) -> object:
    """Return the oracles' own gain or discount of the same name."""
    if not callable(value):
        return value
    found = eval(value.__name__, vars(oracles))  # "exp2", "jarvelin(3)", "{0: 0, 1: 3}"
    return oracles.mapping(found) if isinstance(found, dict) else found
