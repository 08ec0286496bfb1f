"""Per-query values of one metric for charts, by run or paired with a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.columns import RUN, Columns
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.checks import with_run_warning
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.metrics.names import direction_note
from polars_rank.plot.drawing import counted, non_empty, undefined_note
from polars_rank.plot.runs import HIGHER, LOWER, groups, harmless_text
from polars_rank.stats import value_columns
from polars_rank.stats import values as of_queries
from polars_rank.stats.groups import UNDEFINED, Group
from polars_rank.stats.run_pairs import is_run

if TYPE_CHECKING:
    from polars_rank._params import Names

#: The value of a ranking, the value of the baseline, and their difference.
VALUE, BASELINE, DIFFERENCE = OWN + "value", OWN + "baseline", OWN + "difference"
#: Rounding error of a value on the edge of two cells.
TINY = 1e-9
_UNDEFINED, _EITHER = OWN + "undefined", OWN + "either"


class Values(NamedTuple):
    """The values of one metric, and the keys of rankings."""

    group: Group
    metric: value_columns.Variable
    run: list[str]
    #: What titles say of the direction of the metric.
    direction: str

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
        source = of_queries.Values(requested, (), columns.run, columns.query, table=table)
        _, (group,) = source.facts_and_groups()
        if query is not None:
            group.check_unique()
        given = metric if isinstance(metric, pl.Expr) else requested[0].name
        return cls(group, requested[0], [*columns.roles[RUN]], direction_note(given))

    @property
    def rows(self) -> pl.DataFrame:
        """The values of all rankings."""
        name = self.metric.name
        undefined = pl.col(UNDEFINED + name).alias(_UNDEFINED)
        keys = self.group.source.keys
        return self.group.frame.select(*keys, pl.col(name).alias(VALUE), undefined)

    @property
    def colors_of_change(self) -> tuple[str, str]:
        """The colors of higher and lower values: green for better ones."""
        return (LOWER, HIGHER) if self.metric.lower_is_better else (HIGHER, LOWER)

    @property
    def query_name(self) -> pl.Expr:
        """The query id as text."""
        parts = [pl.col(name).cast(pl.String).fill_null("null") for name in self.group.source.query]
        return harmless_text(pl.concat_str(parts, separator=" · "))

    def spread(self) -> pl.DataFrame:
        """Return the number and range of values by run; raise `DataError` if there are none."""
        value = pl.col(VALUE)
        return self._statistics(self.rows, value)

    def description(self, spread: pl.DataFrame) -> str:
        """Return the numbers of queries and of undefined values."""
        undefined = max(spread.get_column("undefined"), default=0)
        return counted(spread.get_column("queries")) + undefined_note(undefined)

    def check_baseline(self, baseline: Any) -> None:
        """Raise an error unless the baseline has rows."""
        (run,) = self.run
        names = [*self.group.rows]
        value_columns.check_run("baseline", baseline, run, self.group.frame.schema[run])
        if names and baseline not in names:
            raise value_columns.unknown_run(run, names, "baseline", baseline)

    def pairs(self, baseline: Any) -> pl.DataFrame:
        """Return the values of all other runs, paired with those of the baseline."""
        (run,), rows, query = self.run, self.rows, self.group.source.query
        is_baseline = is_run(run, rows.schema[run], baseline)
        names = {VALUE: BASELINE, _UNDEFINED: _EITHER}
        base = rows.filter(is_baseline).drop(run).rename(names)
        paired = rows.filter(~is_baseline).join(
            base, on=query, how="inner", nulls_equal=True, maintain_order="left"
        )
        return paired.with_columns(
            (pl.col(VALUE) - pl.col(BASELINE)).alias(DIFFERENCE),
            pl.any_horizontal(_UNDEFINED, _EITHER).alias(_UNDEFINED),
        )

    def statistics_of(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return statistics of the differences by run; raise `DataError` if there are none."""
        if not pairs.height:
            raise DataError("nothing to draw: no query has a ranking in both runs")
        difference = pl.col(DIFFERENCE)
        return self._statistics(
            pairs,
            difference,
            higher=(difference > 0).sum(),
            equal=(difference == 0).sum(),
            lower=(difference < 0).sum(),
        )

    def _statistics(self, rows: pl.DataFrame, value: pl.Expr, **more: pl.Expr) -> pl.DataFrame:
        """Return statistics of values by run, with runs under internal names."""
        facts = {
            "queries": pl.len(), "counted": value.count(), "undefined": pl.col(_UNDEFINED).sum(),
            "low": value.min(), "high": value.max(), "mean": value.mean(), **more,
        }  # fmt: skip
        by = groups(self.run)
        table = rows.group_by(by).agg(**facts).sort(pl.first()) if by else rows.select(**facts)
        return non_empty(table, "low", f"value of {self.metric.name!r}")


def extent(low: float, high: float) -> tuple[float, float]:
    """Return the range of an axis: from 0 to 1 if it contains all values."""
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if low < high else (low - 0.5, high + 0.5)
