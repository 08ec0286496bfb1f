"""Every metric has the same value as an expression, by rows and by columns, for all ties."""

from __future__ import annotations

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.evaluation import plan
from polars_rank.frames import tables
from polars_rank.metrics.analyses import fits_columns
from strategies import assert_close, every_metric, log_of, random_lists, shuffled

#: Documents without labels and scores, and rankings without relevant documents.
LOG = log_of(random_lists(seed=34, queries=40))


def above_zero_for_null(label: pl.Expr) -> pl.Expr:
    return label.fill_null(1) + 1


GAINS = (above_zero_for_null, "exp2", {0: 0, 1: 1, 2: 1.5, 3: 7, 4: 8})
OWN_GAINS = [
    metric.alias(f"{metric.function.__name__} {k} {index}")
    for index, gain in enumerate(GAINS)
    for k in (2, None)
    for metric in (
        pr.cg(k, gain=gain),
        pr.dcg(k, gain=gain),
        pr.ideal_dcg(k, gain=gain),
        pr.ndcg(k, gain=gain),
        pr.ndcg(k, gain=gain, ideal="retrieved"),
    )
]
OWN_GAINS = [*{metric.output_name: metric for metric in OWN_GAINS}.values()]
METRICS = [*every_metric(3), *OWN_GAINS]
FITTING = [metric for metric in METRICS if fits_columns(metric.tree)]


@pytest.mark.parametrize("ties", ["doc", "doc_ascending", "best", "worst", "input"])
def test_equal_by_all_compilers(ties: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "columns_are_faster", lambda _: False)
    by_rows = pr.per_query(LOG, METRICS, ties=ties)
    expressions = pr.rank(LOG, ties=ties).group_by("query").agg(METRICS).sort("query")
    assert_close(expressions, by_rows)

    used = []

    def are_faster(_: object) -> bool:
        used.append(True)
        return True

    monkeypatch.setattr(plan, "columns_are_faster", are_faster)
    monkeypatch.setattr(tables, "FEW_ROWS", 0)
    by_columns = pr.per_query(LOG, FITTING, ties=ties)
    assert used
    assert_close(by_columns, by_rows.select(by_columns.columns))


def test_unjudged_documents_are_not_in_the_ideal_ranking() -> None:
    log = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [None, 1, None]})
    ideal = pr.ideal_dcg(gain=above_zero_for_null)
    assert pr.per_query(log, ideal).item(0, 1) == 2.0
    assert pr.rank(log).select(ideal).item() == 2.0


def test_the_order_of_rows_has_no_effect() -> None:
    assert_close(pr.per_query(shuffled(LOG), OWN_GAINS), pr.per_query(LOG, OWN_GAINS))
