"""Per-query values of one metric for charts, by run or paired with a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, check_column
from polars_rank.errors import ArgumentError, DataError, number_of
from polars_rank.evaluation.checks import with_run_warning
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.metrics.names import direction_note
from polars_rank.plot.drawing import counted, non_empty, undefined_note
from polars_rank.plot.runs import HIGHER, LOWER, groups, harmless_text, run_columns
from polars_rank.stats.per_query_tables import (
    key_columns,
    known_query,
    query_columns,
    variables,
    with_definitions,
)
from polars_rank.stats.run_pairs import PAIRED, Pairs, baseline_of, check_run, is_run, unknown_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank._params import Names
    from polars_rank.conventions import Conventions

#: The value of a ranking, the value of the baseline, and their difference.
VALUE, BASELINE, DIFFERENCE = OWN + "value", OWN + "baseline", OWN + "difference"
#: Rounding error of a value on the edge of two cells.
TINY = 1e-9
_UNDEFINED = OWN + "undefined"


class Values(NamedTuple):
    """The values of one metric, with undefined ones replaced, and the keys of rankings."""

    rows: pl.LazyFrame
    name: str
    run: list[str]
    query: list[str]
    rule: str
    #: Whether a lower value is better, and what titles say of it.
    lower_is_better: bool
    direction: str
    #: The column that replaces a missing column "query", if there is one.
    default_query: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        values: Any,
        metric: Any,
        run: str | None,
        query: Names | None,
        undefined: Any,
        conventions: Conventions | str | None,
    ) -> Values:
        """Return the values of a per-query table, after checks of its columns.

        `query` is None if the queries do not matter; otherwise runs are compared.
        """
        rows, definitions = with_definitions(lazy(values, "values"), conventions, undefined)
        schema = schema_of(rows)
        metrics = None if metric is None else [metric]
        if query is not None:
            if run is None:
                raise ArgumentError("`run` must name the column of runs; found None")
            check_column("run", run, schema)
        columns = run_columns(schema, run)
        keys = key_columns(schema, run=columns)
        queries: tuple[str, ...] = ()
        default_query: tuple[str, ...] = ()
        if query is not None:
            queries = query_columns(rows, query, metrics, keys)
            default_query = () if known_query(schema, query) else queries
        keys = key_columns(schema, run=columns, query=queries)
        taken = [*columns, *queries]
        requested = variables(schema, metrics, definitions, keys, "metric", undefined)
        if len(requested) > 1:
            names = ", ".join(repr(each.name) for each in requested)
            raise ArgumentError(f"a chart shows one metric; set `metric` to one of {names}")
        (variable,) = requested
        undefined_there = pl.col(variable.name).is_null().alias(_UNDEFINED)
        selected = rows.select(*taken, variable.value.alias(VALUE), undefined_there)
        selected = with_run_warning(selected, rows, run, keys)
        given = metric if isinstance(metric, pl.Expr) else variable.name
        return cls(
            selected, variable.name, columns, [*queries], variable.counts_as,
            variable.lower_is_better, direction_note(given, definitions.name), default_query,
        )  # fmt: skip

    @property
    def known(self) -> pl.LazyFrame:
        """The rows with a value, with runs under internal names."""
        return self.rows.filter(pl.col(VALUE).is_not_null()).select(*groups(self.run), VALUE)

    @property
    def colors_of_change(self) -> tuple[str, str]:
        """The colors of higher and lower values: green for better ones."""
        return (LOWER, HIGHER) if self.lower_is_better else (HIGHER, LOWER)

    @property
    def query_name(self) -> pl.Expr:
        """The query id as text."""
        parts = [pl.col(name).cast(pl.String).fill_null("null") for name in self.query]
        return harmless_text(pl.concat_str(parts, separator=" · "))

    def spread(self) -> pl.DataFrame:
        """Return the number and range of values by run; raise `DataError` if there are none."""
        value = pl.col(VALUE)
        facts = {**_facts(value), "low": value.min(), "high": value.max(), "mean": value.mean()}
        statistics = collected(by_run(self.rows, self.run, facts))
        self._check(statistics)
        return statistics

    def description(self, spread: pl.DataFrame) -> str:
        """Return the number of queries and the treatment of undefined values."""
        undefined = max(spread.get_column("undefined"), default=0)
        return counted(spread.get_column("queries")) + undefined_note(undefined, self.rule)

    def two_runs(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the two runs to draw, completing those that are not given."""
        self.check_runs({"x": x, "y": y})
        if x is not None and y is not None:
            return x, y
        names = self.names_of_runs()
        requested_runs = [each for each in (x, y) if each is not None]
        others = [each for each in names if each not in requested_runs]
        if len(requested_runs) + len(others) != 2:
            raise ArgumentError(f"set `x` and `y` to two of the runs; available: {names[:10]}")
        if y is None:
            return (x, others[0]) if x is not None else (others[0], others[1])
        return others[0], y

    def check_runs(self, compared: Mapping[str, Any]) -> None:
        """Raise `ArgumentError` unless the values of parameters can be in the column of runs."""
        for parameter, run in compared.items():
            if run is not None:
                check_run(parameter, run, self.run[0], schema_of(self.rows)[self.run[0]])

    def names_of_runs(self) -> list[Any]:
        """Return the sorted names of the runs."""
        (run,) = self.run
        return collected(self.rows.select(pl.col(run).unique().sort())).to_series().to_list()

    def pairs(self, baseline: Any, other: Any = None) -> pl.LazyFrame:
        """Return the values of all other runs, or of `other`, paired with those of the baseline."""
        (run,) = self.run
        schema = schema_of(self.rows)
        pairs = Pairs(
            run=run, query=(*self.query,), baseline=baseline, schema=schema,
            default_query=self.default_query,
        )  # fmt: skip
        drawn = ~pairs.is_baseline if other is None else is_run(run, schema[run], other)
        base, undefined = baseline_of(VALUE), baseline_of(_UNDEFINED)
        rows = pairs.joined(self.rows, [VALUE, _UNDEFINED]).filter(PAIRED & drawn)
        rows = rows.select(
            run,
            *self.query,
            VALUE,
            base.alias(BASELINE),
            (pl.col(VALUE) - base).alias(DIFFERENCE),
            pl.any_horizontal(_UNDEFINED, undefined).alias(_UNDEFINED),
        )
        return pairs.checked(rows, self.rows)

    def statistics_of(self, pairs: pl.LazyFrame, compared: Mapping[str, Any]) -> pl.DataFrame:
        """Return statistics of the differences by run; raise `DataError` if there are none.

        `compared` are the runs that parameters name.
        """
        difference, both = pl.col(DIFFERENCE), pl.col(VALUE, BASELINE)
        facts = {
            **_facts(difference),
            "low": difference.min(),
            "high": difference.max(),
            "mean": difference.mean(),
            "higher": (difference > 0).sum(),
            "equal": (difference == 0).sum(),
            "lower": (difference < 0).sum(),
            "least": pl.min_horizontal(both.min()),
            "most": pl.max_horizontal(both.max()),
        }
        statistics = collected(by_run(pairs, self.run, facts))
        if not statistics.height:
            names = self.names_of_runs()
            for parameter, run in compared.items():
                if run not in names:
                    raise unknown_run(self.run[0], names, parameter, run)
            both_runs = " and ".join(f"the run {run!r}" for run in compared.values())
            other = " and another" * (len(compared) == 1)
            raise DataError(f"nothing to draw: no query has a ranking in both {both_runs}{other}")
        self._check(statistics)
        return statistics

    def _check(self, spread: pl.DataFrame) -> None:
        bad = int(spread.get_column("bad").sum())
        if bad:
            raise DataError(
                f"{number_of(bad, 'row')}: NaN or infinite values in the column {self.name!r}; use "
                "null for undefined values"
            )
        non_empty(spread, "low", f"value of {self.name!r}")


def extent(low: float, high: float) -> tuple[float, float]:
    """Return the range of an axis: from 0 to 1 if it contains all values."""
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _facts(value: pl.Expr) -> dict[str, pl.Expr]:
    return {
        "queries": pl.len(),
        "counted": value.count(),
        "undefined": pl.col(_UNDEFINED).sum(),
        "bad": (~value.is_finite()).sum(),
    }


def by_run(rows: pl.LazyFrame, columns: list[str], facts: dict[str, pl.Expr]) -> pl.LazyFrame:
    """Return aggregates by run, with runs under internal names."""
    if not columns:
        return rows.select(**facts)
    return rows.group_by(groups(columns)).agg(**facts)
