"""What metrics read of a log besides documents, scores and labels, and its checks."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

import polars as pl

from polars_rank._params import OWN, check_name, check_type, missing_column
from polars_rank.checks import Check, checks_of
from polars_rank.columns import RANKED
from polars_rank.errors import SchemaError, hint
from polars_rank.evaluation.checks import fraction_check, unscored_check, weight_check
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.parameters import Evaluation
from polars_rank.evaluation.ranked import DOCUMENT
from polars_rank.evaluation.stages import Needs
from polars_rank.metrics.analyses import has_threshold, invalid_values, of_scored_documents
from polars_rank.metrics.metric import Metric, parameters_of, tree_of

#: What joins a column of another table to the log, by the parameter of a metric that names the
#: column.
_JOINS = {
    **dict.fromkeys(
        ("share", "users", "interactions", "long_tail", "features", "category"),
        'log.join(items, on={doc}, how="left", maintain_order="left")',
    ),
    "seen": (
        "log.join(history.select({keys}, {name}=True).unique(), on=[{keys}], "
        'how="left", maintain_order="left")'
    ),
    "history": (
        "log.join(history.join(items, on={doc}).group_by({query}).agg({name}={category}), "
        'on=[{query}], how="left", maintain_order="left")'
    ),
}


def with_inputs(log: Log, evaluation: Evaluation, needs: Needs, reads: AbstractSet[str]) -> Log:
    """Return the log with the other columns that metrics read.

    `reads` are the columns of the ranked table and of the log that the metrics read.
    """
    canonical = {"score", "label", *RANKED, *([] if log.columns.doc is None else ["doc"])}
    extras = sorted(name for name in reads - canonical if not name.startswith(OWN))
    for name in extras:
        if name not in log.columns.schema:
            raise _missing(name, log, evaluation)
        check_name(name)
    for column in needs.columns:
        if column.kind != "as is":
            check_type(column.parameter, column.name, log.columns.schema[column.name], "number")
    read = {**evaluation.kept, **{name: name for name in extras}}
    others = {own: pl.col(name) for own, name in read.items()}
    if DOCUMENT in reads:
        others[DOCUMENT] = log.columns.is_document
    return replace(
        log,
        others=others,
        refusals=needs.refused,
        checks_of_others=_checks(log, evaluation, needs),
        progress=evaluation.progress,
    )


def _checks(log: Log, evaluation: Evaluation, needs: Needs) -> list[Check]:
    """Return the checks of the columns that metrics read."""
    columns = log.columns
    checks: list[Check] = []
    for column in needs.columns:
        checks += checks_of("row", invalid_values(column))
    if evaluation.weight is not None:
        weight = pl.col(evaluation.weight).cast(pl.Float64)
        checks.append(weight_check(f"{evaluation.weight!r} (`weight`)", weight))
    for own, name in evaluation.kept.items():
        problem = "has several values in a ranking; add it to `by`, or leave it out"
        checks.append(Check("ranking", pl.col(own).n_unique() > 1, f"column {name!r} {problem}"))
    if log.canonical.schema["label"].is_float() and any(
        column.conventions.rel == 1 and has_threshold(tree_of(column.metric))
        for column in evaluation.metrics
    ):
        checks.append(fraction_check(columns.label_parameter, columns.label))
    return checks + [
        unscored_check(
            str(leaf),
            column.conventions.rel if rel is None else rel,
            columns.score_parameter,
            columns.score,
        )
        for column in evaluation.metrics
        if isinstance(column.metric, Metric)
        for leaf in column.metric.leaves
        for rel in of_scored_documents(leaf.tree)
    ]


def _missing(name: str, log: Log, evaluation: Evaluation) -> SchemaError:
    """Return the error for a column that a metric reads and the log lacks."""
    available = [column for column in log.columns.schema if not column.startswith(OWN)]
    metrics = [each.metric for each in evaluation.metrics]
    leaves = [leaf for each in metrics if isinstance(each, Metric) for leaf in each.leaves]
    for leaf in leaves:
        for parameter, value in {**parameters_of(leaf), **leaf.arguments}.items():
            if value == name and isinstance(value, str):
                similar = next((each for each in available if parameter in each.lower()), "...")
                metric = leaf.but(**{parameter: similar})
                advice = f' Name the column in the metric: "{metric}"'
                if parameter in _JOINS:
                    columns = log.columns
                    doc = repr(columns.doc or "doc")
                    query = ", ".join(map(repr, columns.query))
                    joined = _JOINS[parameter].format(
                        doc=doc, query=query, keys=f"{query}, {doc}", name=name,
                        category=repr(leaf.arguments.get("category", "category")),
                    )  # fmt: skip
                    advice += f"; or join it: {joined}"
                return missing_column(f"`{parameter}` of {leaf}", name, available, advice=advice)
    there = [*RANKED, *available]
    return SchemaError(
        f"a metric (`metrics`) reads the column {name!r}, but the ranked table has "
        f"{', '.join(map(repr, there))}.{hint(name, there)}"
    )
