"""Logs for the comparison with peers: random logs with all special cases, and real logs."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import polars_rank as pr

SHARED = Path(__file__).parents[3] / "shared" / "data"

GRADES = (0, 0, 0, 1, 1, 2, 3, 4)
NEGATIVE = (-2, -1, 0, 0, 1, 2, 3)
FRACTIONAL = (0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.25)
BINARY = (0, 0, 0, 1)
PROBABILITY = (0.0, 0.0, 0.25, 0.375, 0.5, 0.75, 1.0)

SUBTOPICS = ("a", "b", "c", "d", "e")

#: Few distinct scores, which cause ties; some scores are equal only as 32-bit floats.
TIED = (-1.0, 0.0, 0.25, 0.25 + 1e-12, 0.5, 0.5, 2.0, 1e6, 1e6 + 1e-3)


def random_log(
    seed: int, labels: tuple[float, ...], *, queries: int = 40, tied: bool = True,
    pooled: bool = True, longest: int = 14,
) -> pl.DataFrame:  # fmt: skip
    """Return a random log, including rankings of one document or without relevant documents.

    If it is `tied`, scores may be equal within a ranking. If it is `pooled`, documents, and all
    documents of a query, may be unjudged or not retrieved. Rankings have up to `longest` documents.
    """
    draw = random.Random(seed)
    rows = []
    for query in range(queries):
        size = 1 if query % 10 == 0 else draw.randint(1, longest)
        worthless = query % 7 == 3
        # As text, query "9" sorts after "10", and document "d9" after "d10".
        for rank, doc in enumerate(draw.sample(range(30), size)):
            score = draw.choice(TIED) if tied else round(draw.uniform(0.1, 5), 4) + rank / 1e3
            label = min(labels) if worthless else draw.choice(labels)
            known = draw.random() if pooled else 0.5
            rows.append((
                str(query + 5),
                f"d{doc}",
                None if known < 0.2 or (pooled and query % 11 == 4) else score,
                None if known > 0.8 or (pooled and query % 11 == 7) else label,
            ))  # fmt: skip
    whole = all(isinstance(label, int) for label in labels)
    schema = {
        "query": pl.String,
        "doc": pl.String,
        "score": pl.Float64,
        "label": pl.Int64 if whole else pl.Float64,
    }
    return pl.DataFrame(rows, schema, orient="row").filter(
        pl.col("score").is_not_null() | pl.col("label").is_not_null()
    )


def diverse_log(seed: int) -> pl.DataFrame:
    """Return a random log with subtopics; some documents are relevant to none, some are unjudged.

    The label is the number of subtopics.
    """
    draw = random.Random(seed)
    log = random_log(seed, GRADES)
    subtopics = [
        None if label is None else sorted(draw.sample(SUBTOPICS, min(label, 3)))
        for label in log["label"]
    ]
    return log.with_columns(subtopics=pl.Series(subtopics, dtype=pl.List(pl.String)))


def trec_log() -> pl.DataFrame:
    """Return the real run and judgments."""
    run = pr.scan_run(SHARED / "trec" / "results.test")
    judgments = pr.scan_judgments(SHARED / "trec" / "qrels.test")
    return (
        run.select("query", "doc", "score")
        .join(judgments.select("query", "doc", "label"), on=["query", "doc"], how="full",
              coalesce=True)
        .collect()
    )  # fmt: skip


def search_log() -> pl.DataFrame:
    """Return 50 real web search queries, ranked by a model."""
    log = pl.read_parquet(SHARED / "lambdarank_test.parquet")
    return log.filter(pl.col("run") == "lambdarank-10").select(
        pl.col("query").cast(pl.String),
        pl.col("doc").cast(pl.String),
        pl.col("score").cast(pl.Float64),
        pl.col("label").cast(pl.Int64),
    )


LOGS = {
    "grades": lambda: random_log(1, GRADES),
    "negative": lambda: random_log(2, NEGATIVE),
    "positive scores": lambda: random_log(13, GRADES).with_columns(pl.col("score") + 2),
    "untied": lambda: random_log(4, GRADES, tied=False),
    "untied, negative": lambda: random_log(5, NEGATIVE, tied=False),
    "scored": lambda: random_log(7, GRADES, pooled=False),
    "scored, fractional": lambda: random_log(8, FRACTIONAL, pooled=False),
    "scored, binary": lambda: random_log(9, BINARY, pooled=False),
    "scored, probability": lambda: random_log(10, PROBABILITY, pooled=False),
    "scored, untied": lambda: random_log(11, GRADES, pooled=False, tied=False),
    "scored, untied, binary": lambda: random_log(12, BINARY, pooled=False, tied=False),
    "subtopics": lambda: diverse_log(14),
    "more subtopics": lambda: diverse_log(15),
    "trec": trec_log,
    "search": search_log,
}

#: Logs that are read from files, which may be missing.
REAL = ("trec", "search")
