"""How far predicted labels agree with those of people, and what either labels alone show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.frames.tables import collected
from polars_rank.judges.agreements import agreement
from polars_rank.judges.confusions import confusion
from polars_rank.judges.labels import MOST_GRADES
from polars_rank.reporting.estimates import Estimates, Values, estimates, no_warnings
from polars_rank.reporting.formats import number, percent, signed
from polars_rank.reporting.headline import headline
from polars_rank.reporting.question import names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank.reporting.question import Question

#: Maximum number of grades in a table.
_FEW = 12


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Statistics of the labels of a judge; None if a table does not apply."""

    #: The numbers of queries with labels of people, and with predicted labels.
    human_queries: int
    predicted_queries: int
    #: Means and comparisons by the labels of people alone, and by predicted labels alone.
    human: Estimates
    predicted: Estimates
    agreement: pl.DataFrame | None
    confusion: pl.DataFrame | None
    #: Why there is no agreement.
    note: str | None


def judge_of(values: Values, question: Question) -> Judge | None:
    """Return the statistics of the labels of a judge, if there are predicted labels."""
    if values.predictions is None:
        return None
    whole = replace(question, slices=())
    with no_warnings():
        human = estimates(Values(values.table), whole)
        predicted = estimates(Values(values.predictions), whole)
    queries = pl.struct(question.queries).n_unique()
    counts = [collected(each.select(queries)).item() for each in (values.table, values.predictions)]
    tables: dict[str, Any] = dict.fromkeys(("agreement", "confusion"))
    note = None
    if question.columns.doc is None:
        note = "Agreement needs a column of documents"
    else:
        labels = _labels(question)
        both = labels.select(_columns(question)).cast(pl.Float64).unpivot()["value"]
        grades = [grade + 0.0 for grade in both.drop_nulls().unique().sort()]  # -0.0 is 0.0
        if len(grades) > MOST_GRADES:
            note = f"The labels have {len(grades):,} different values, too many to compare them"
        else:
            tables = _tables(labels, grades, question)
    return Judge(
        human_queries=counts[0], predicted_queries=counts[1], human=human, predicted=predicted,
        note=note, **tables,
    )  # fmt: skip


def _columns(question: Question) -> tuple[str, str]:
    """Return the columns of the labels of people and of predicted labels."""
    return question.columns.label, str(question.predicted_label)


def _labels(question: Question) -> pl.DataFrame:
    """Return the labels of documents that people judged: others do not say how far both agree.

    A document may have another label in another group.
    """
    label, predicted_label = _columns(question)
    doc = pl.col(str(question.columns.doc))
    doc = pl.struct(*question.by, doc).alias(str(question.columns.doc)) if question.by else doc
    rows = question.log.filter(pl.col(label).is_not_null())
    return collected(rows.select(*question.columns.query, doc, label, predicted_label).unique())


def _tables(
    labels: pl.DataFrame, grades: Sequence[float], question: Question
) -> dict[str, pl.DataFrame]:
    """Return the agreement and the confusion of both columns of labels."""
    columns = _columns(question)
    options: dict[str, Any] = {
        "label": columns, "reference": columns[0], "query": question.columns.query,
        "doc": str(question.columns.doc), "categories": grades,
    }  # fmt: skip
    return {
        "agreement": agreement(labels, **options),
        "confusion": confusion(labels, **options),
    }


def judge_context(judge: Judge | None, question: Question, corrected: Estimates) -> dict[str, Any]:
    """Return the template variables about a judge; `corrected` are the estimates of the report."""
    if judge is None:
        return {"judge": None}
    people, name = _columns(question)
    claims = {"claim": judge.predicted, "human_claim": judge.human}
    return {
        "judge": {
            **vars(judge),
            "name": name,
            "people": people,
            **{claim: headline(table, question) for claim, table in claims.items()},
            "estimates": _estimate_rows(judge, question, corrected),
            "agreement": _agreement_rows(judge.agreement),
            "confusion": _confusion_rows(judge.confusion),
        }
    }


def _estimate_rows(judge: Judge, question: Question, corrected: Estimates) -> list[dict[str, Any]]:
    """Return a row per metric and run with the estimate, and those by either labels alone.

    They are differences from the baseline, or means without one.
    """
    tables = {"row": corrected, "human": judge.human, "predicted": judge.predicted}
    by_key = {name: _by_metric_and_run(table, question) for name, table in tables.items()}
    order = names_of(question.metrics)
    keys = sorted(by_key["row"], key=lambda key: order.index(key[0]))
    return [
        {"metric": metric, "run": run, "first": not place or keys[place - 1][0] != metric}
        | {name: rows.get((metric, run)) for name, rows in by_key.items()}
        for place, (metric, run) in enumerate(keys)
    ]


def _by_metric_and_run(
    table: Estimates, question: Question
) -> dict[tuple[str, Any], Mapping[str, Any]]:
    rows, value = (
        (table.summary, "mean") if table.comparison is None else (table.comparison, "difference")
    )
    return {
        (row["metric"], question.run and row[question.run]): {**row, "value": row[value]}
        for row in rows.iter_rows(named=True)
    }


def _agreement_rows(table: pl.DataFrame | None) -> list[dict[str, Any]]:
    """Return the statistics of agreement that are shown, as texts."""
    if table is None:
        return []
    shown: dict[str, tuple[str, str, Callable[[float | None], str]]] = {
        "agreement": ("Equal labels", "", percent),
        "kappa_quadratic": ("Cohen's kappa", "quadratic weights", number),
        "alpha_ordinal": ("Krippendorff's alpha", "ordinal", number),
        "bias": ("Bias", "mean of the predicted label minus the label of people", signed),
    }
    rows = {row["statistic"]: row for row in table.iter_rows(named=True)}
    return [
        {
            **rows[name],
            "title": title,
            "detail": rows[name]["note"] or detail,
            **{end: write(rows[name][end]) for end in ("value", "low", "high")},
        }
        for name, (title, detail, write) in shown.items()
    ]


def _confusion_rows(table: pl.DataFrame | None) -> dict[str, Any] | None:
    """Return the numbers of documents by grade of people and predicted grade, if they are few."""
    if table is None:
        return None
    grades = table.get_column("label").unique().sort().to_list()
    if not grades or len(grades) > _FEW:
        return None
    rows = table.sort("label").group_by("reference_label", maintain_order=True).agg("pairs")
    return {"grades": grades, "rows": rows.sort("reference_label").rows()}
