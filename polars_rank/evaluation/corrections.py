"""Labels of a judge, corrected by those that people gave to a random sample of documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import Check
from polars_rank.columns import is_relevant
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.log import Log
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.document_sums import NotASumError, with_document_terms, with_label
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.nodes import Column, Term

#: Columns of the labels of people and of the inclusion probabilities as Float64, and the tuple of
#: both: the user's names may be those of columns of the ranked table, such as "label".
_HUMAN, _PROBABILITY = OWN + "human", OWN + "probability"
CORRECTION_COLUMNS = (_HUMAN, _PROBABILITY)

_HUMAN_LABEL = Column(_HUMAN, "human", "as is")
_INCLUSION = Column(_PROBABILITY, "probability", "as is")


class Correction(NamedTuple):
    """The columns of the labels of people and of the inclusion probabilities."""

    human: str
    probability: str

    def read(self, log: Log) -> Log:
        """Return the log with internal columns, checked."""
        table = log.table.with_columns(
            pl.col(self.human).cast(pl.Float64).alias(_HUMAN),
            pl.col(self.probability).cast(pl.Float64).alias(_PROBABILITY),
        )
        return replace(log, table=table, columns=log.columns._replace(schema=schema_of(table)))

    def checks(self, refusals: Mapping[str, Callable[[pl.Expr], pl.Expr]]) -> list[Check]:
        """Return the checks of rows.

        `refusals` has the checks of gains that do not accept all labels: messages and conditions.
        """
        human, probability = pl.col(_HUMAN), pl.col(_PROBABILITY)
        of_human = f"column {self.human!r} (`human`)"
        of_probability = f"column {self.probability!r} (`probability`)"
        valid = ((probability > 0) & (probability <= 1)).fill_null(value=False)
        return [
            Check(
                "row",
                ~human.is_finite(),
                f"{of_human} has NaN or infinite values; use null for unknown",
            ),
            *(
                Check("row", condition(human), f"{self.human!r} {problem}")
                for problem, condition in refusals.items()
            ),
            Check(
                "row",
                human.is_not_null() & ~valid,
                f"{of_probability} must be above 0 and at most 1 where {self.human!r} (`human`) "
                "has a label: the probability with which the document was chosen for people to "
                "judge",
            ),
        ]


def corrected_metric(metric: pl.Expr, name: str, rel: float) -> Metric:
    """Return a metric whose terms of the judge's labels are corrected by those of people.

    `name` is the name of the metric in errors, and `rel` the lowest relevant label of the call.

    Raises
    ------
    ArgumentError
        If the metric is not a sum over documents with a fixed weight per rank.
    """
    try:
        tree = with_document_terms(tree_of(metric), lambda term: _corrected(term, rel))
    except NotASumError as error:
        raise ArgumentError(
            f"{name} {error}, but `metrics` must be sums over documents with a fixed weight per "
            "rank, such as dcg, cg, precision, rbp and num_relevant_retrieved; for other metrics, "
            "let people judge whole queries and pass `predictions` to pr.compare"
        ) from None
    return Metric(lambda: tree, {}, name)


def _corrected(term: Term, rel: float) -> Term:
    """Return the term of the judge's label plus the weighted error that a person found in it."""

    def relevant(lowest: float | None) -> Term:
        return _HUMAN_LABEL.map(is_relevant, lowest=rel if lowest is None else lowest)

    of_human = with_label(term, _HUMAN_LABEL, relevant)
    return term.map(_difference_estimate, of_human, _HUMAN_LABEL, _INCLUSION)


def _difference_estimate(
    judge: pl.Expr, human: pl.Expr, label: pl.Expr, probability: pl.Expr
) -> pl.Expr:
    """Return the estimate of a document's term; nulls count as 0, as in sums."""
    of_judge, of_human = (each.cast(pl.Float64).fill_null(0.0) for each in (judge, human))
    error = pl.when(label.is_not_null()).then((of_human - of_judge) / probability)
    return of_judge + error.fill_null(0.0)
