"""Values per ranking of a log, in flat memory if the rows of each ranking are adjacent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import Check, failed, failed_in_ranking, raise_failed
from polars_rank.evaluation.checks import row_checks
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.order import rank_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank.columns import Columns
    from polars_rank.conventions import Ties

#: Columns of the document id, of the documents of a ranking, and of their number.
DOC, DOCUMENTS, SIZE = OWN + "doc", OWN + "documents", OWN + "size"

_SCORE, _LABEL = OWN + "score of row", OWN + "label"

#: Rules for ties that do not read labels.
TIES = ("doc", "doc_ascending", "input")


def per_ranking(
    log: pl.LazyFrame,
    columns: Columns,
    inputs: Mapping[str, pl.Expr],
    values: Sequence[pl.Expr],
    checks: Sequence[Check] | None = None,
    add_columns: Callable[[pl.LazyFrame], pl.LazyFrame] | None = None,
) -> tuple[pl.LazyFrame, Keys]:
    """Return the keys of rankings, and a table of values of each ranking.

    The table is sorted by the keys, under their internal names. `values` are aggregations of the
    columns that `inputs` defines. Rows must pass `checks`; the default are the checks of every log.
    `add_columns` may add columns that `inputs` read, and must keep the order of the rows.
    """
    keys, checks = Keys.of(columns), row_checks(columns) if checks is None else checks
    columns_of_rows = [row.alias(name) for name, row in inputs.items()]
    rows = keys.rows(log, [*columns_of_rows, failed(checks, "row")], add_columns)
    rankings = rows.group_by(keys.group, maintain_order=True).agg(
        *keys.carried, *values, failed_in_ranking(checks)
    )
    checked = raise_failed(rankings, checks, log=log, keys=keys.names)
    return checked.set_sorted(keys.group), keys


def user_keys(keys: Keys) -> list[pl.Expr]:
    """Return the keys of rankings under the user's names."""
    return [pl.col(own).alias(name) for name, own in keys.names.items()]


def retrieved_documents(
    log: pl.LazyFrame,
    columns: Columns,
    *,
    ties: Ties | None,
    checks: Sequence[Check],
    k: int | None = None,
    extras: Mapping[str, pl.Expr] | None = None,
) -> tuple[pl.LazyFrame, Keys]:
    """Return the first k retrieved documents of each ranking, in rank order, and the keys.

    The column `DOCUMENTS` has lists of structs of `DOC` and `extras`, and `SIZE` their lengths. The
    rule for ties must not read labels.
    """
    extras = extras or {}
    rows = {
        DOC: pl.col(str(columns.doc)),
        _SCORE: columns.number(columns.score),
        **{OWN + name: pl.col(name) for name in columns.unnamed},
        **extras,
    }
    schema = {
        DOC: columns.schema[str(columns.doc)],
        _SCORE: columns.number_type(columns.score),
        _LABEL: pl.Int8(),
    }
    own = columns._replace(doc=DOC, score=_SCORE, label=_LABEL, schema=pl.Schema(schema))
    size = pl.col(_SCORE).count()
    size = size if k is None else size.clip(upper_bound=k)
    order = rank_order(ties, own, only_label=True)
    documents = pl.struct(DOC, *extras).sort_by(**order).head(size)
    values = [documents.alias(DOCUMENTS), size.alias(SIZE)]
    return per_ranking(log, columns, rows, values, checks)
