"""Per-query values of one metric for charts, by run or paired with a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.columns import RUN, Columns
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.log_checks import with_run_warning
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.plot.drawing import non_empty
from polars_rank.plot.runs import groups
from polars_rank.stats import value_columns
from polars_rank.stats import values as of_queries
from polars_rank.stats.values import UNDEFINED, Group

if TYPE_CHECKING:
    from polars_rank._params import Names

#: The value of a ranking, and whether it is undefined.
VALUE, IS_UNDEFINED = OWN + "value", OWN + "undefined"
#: Rounding error of a value on the edge of two cells.
TINY = 1e-9


class Values(NamedTuple):
    """The values of one metric, and the keys of rankings."""

    group: Group
    metric: value_columns.Variable
    run: list[str]

    @classmethod
    def of(cls, values: Any, metric: Any, run: str | None, query: Names | None = None) -> Values:
        """Return the values of a per-query table, after checks of its columns.

        `query` is None if the queries do not matter; otherwise runs are compared.
        """
        table = lazy(values, "values")
        schema = schema_of(table)
        optional = (RUN, "query") if query is None else ()
        roles = {"run": run, "by": None, "query": query}
        columns = Columns.find(schema, roles, optional=optional)
        metrics = None if metric is None else [metric]
        requested = value_columns.variables(schema, metrics, "metric", columns.parameters)
        if len(requested) > 1:
            names = ", ".join(repr(each.name) for each in requested)
            raise ArgumentError(f"a chart shows one metric; set `metric` to one of {names}")
        table = with_run_warning(table, table, run, columns)
        source = of_queries.Values(table, requested, (), columns.run, columns.query)
        _, (group,) = source.facts_and_groups()
        if query is not None:
            group.check_unique()
        return cls(group, requested[0], [*columns.roles[RUN]])

    @property
    def rows(self) -> pl.DataFrame:
        """The values of all rankings."""
        name = self.metric.name
        undefined = pl.col(UNDEFINED + name).alias(IS_UNDEFINED)
        keys = self.group.source.keys
        return self.group.frame.select(*keys, pl.col(name).alias(VALUE), undefined)

    def statistics(self, rows: pl.DataFrame, value: pl.Expr, **more: pl.Expr) -> pl.DataFrame:
        """Return statistics of values by run, with runs under internal names.

        Raises
        ------
        DataError
            If there are no values.
        """
        facts = {
            "queries": pl.len(), "counted": value.count(), "undefined": pl.col(IS_UNDEFINED).sum(),
            "low": value.min(), "high": value.max(), "mean": value.mean(), **more,
        }  # fmt: skip
        by = groups(self.run)
        table = rows.group_by(by).agg(**facts).sort(pl.first()) if by else rows.select(**facts)
        return non_empty(table, "low", f"value of {self.metric.name!r}")
