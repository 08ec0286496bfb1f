"""Per-query values with the columns of each role.

The table is collected once, when a result is collected. Then everything is arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, Names, free
from polars_rank._polars import FewRows, ManyRows
from polars_rank.columns import RUN, Columns
from polars_rank.errors import DataError, Finding, warn
from polars_rank.frames.tables import collected, own_name, schema_of
from polars_rank.stats._arrays import numpy, special
from polars_rank.stats.estimate import LARGE, Facts
from polars_rank.stats.groups import HIGH, LOW, PLACE, UNDEFINED, Group
from polars_rank.stats.results import ResultColumn, series_of
from polars_rank.stats.value_columns import Variable, unknown_run, variables

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics


#: Names of columns of days.
_DAYS = ("day", "date")
#: Number of groups and runs that a message names.
_EXAMPLES = 5


class Key(NamedTuple):
    """What a row of a result is about."""

    group: tuple[Any, ...]
    metric: str
    run: Any
    baseline: Any = None
    slice: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Values:
    """A table of per-query values, and the columns of each role."""

    table: pl.LazyFrame
    metrics: Sequence[Variable]
    by: tuple[str, ...]
    run: str | None
    query: tuple[str, ...]
    weight: str | None = None
    cluster: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        table: pl.LazyFrame,
        metrics: Metrics | None,
        *,
        run: str | None,
        query: Names,
        by: Names | None,
        weight: str | None = None,
        cluster: Names | None = None,
        slices: Names | None = None,
        needs_query: bool = True,
        needs_run: bool = True,
    ) -> Values:
        """Return the values of a table; raise if a column is missing or used twice."""
        special()
        schema = schema_of(table)
        roles = {
            "run": run, "by": by, "query": query, "weight": weight, "cluster": cluster,
            "slices": slices,
        }  # fmt: skip
        optional = [*([] if needs_run else [RUN]), *([] if needs_query else ["query"])]
        columns = Columns.find(schema, roles, optional=optional)
        for column in schema:
            if column.startswith(OWN):
                raise own_name(column)
        if not columns.query:
            warn(
                "column 'query' (`query`) not found, so each row counts as a query; name the "
                "columns that identify a query with `query`"
            )
        selected = variables(schema, metrics, taken=columns.parameters)
        return cls(
            table,
            selected,
            columns.groups,
            columns.run,
            columns.query,
            weight,
            columns.roles["cluster"],
            columns.roles["slices"],
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row: those of groups, runs and queries."""
        runs = () if self.run is None else (self.run,)
        return tuple(dict.fromkeys((*self.by, *runs, *self.query)))

    @property
    def lower_is_better(self) -> dict[str, bool]:
        """Whether a lower mean is better, by metric."""
        return {each.name: each.lower_is_better for each in self.metrics}

    @property
    def schema(self) -> pl.Schema:
        """The types of all columns of the table."""
        return schema_of(self.table)

    def facts_and_groups(self) -> tuple[dict[str, Facts], list[Group]]:
        """Collect and check the table; return the facts of each metric, and the groups in order."""
        frame = self.collected(self.table)
        facts, groups = self.checked(frame), self.groups(frame)
        if len(self.query) > 1 and not self.cluster:
            self._warn_of_recurring(groups)
        return facts, groups

    def collected(self, table: pl.LazyFrame) -> pl.DataFrame:
        """Return the columns of all roles, and of the metrics."""
        kept = dict.fromkeys((*self.keys, *self.cluster, *self.slices))
        columns = [*map(pl.col, kept), *(each.value for each in self.metrics)]
        columns += [
            pl.col(each.name).is_null().alias(UNDEFINED + each.name) for each in self.metrics
        ]
        if self.weight is not None and self.weight not in kept:
            columns.append(pl.col(self.weight).cast(pl.Float64))
        return collected(table.select(columns), few=isinstance(table, (FewRows, ManyRows)))

    def _warn_of_recurring(self, groups: Sequence[Group]) -> None:
        """Warn if each part of a query of several columns occurs in several queries."""
        for group in groups:
            for rows in group.rows.values():
                queries = group.frame.select(self.query)[rows]
                numbers = {name: queries.get_column(name).n_unique() for name in self.query}
                if max(numbers.values()) < queries.height:
                    name = max(numbers, key=lambda each: numbers[each])
                    warn(
                        f"the same values of {name!r} recur in several queries "
                        f"({queries.height:,} queries, {numbers[name]:,} different values): if "
                        "they are the same query, such as on several days, intervals are too "
                        f'narrow; pass cluster="{name}", or cluster={[*self.query]} if they are '
                        "different"
                    )
                    return

    def warn_of_days(self) -> None:
        """Warn of values of several days that are not clusters."""
        days = [
            name for name, dtype in self.schema.items()
            if (name in _DAYS or dtype in (pl.Date, pl.Datetime)) and name not in self.cluster
        ]  # fmt: skip
        for name in days:
            if (number := collected(self.table.select(pl.col(name).n_unique())).item()) > 1:
                warn(
                    f"the values are of {number:,} different times (column {name!r}), and days "
                    "differ: with `repeated=True`, intervals are too narrow for what the next days "
                    f'bring; pass cluster="{name}", with a column of days'
                )

    def groups(self, frame: pl.DataFrame) -> list[Group]:
        """Return the groups of a table in order."""
        if not self.by:
            return [Group(self, (), frame)]
        parts = frame.partition_by(self.by, maintain_order=True, as_dict=True)
        types = {name: frame.schema[name] for name in self.by}
        keys = pl.DataFrame([*parts], schema=types, orient="row").with_row_index(PLACE)
        order = keys.sort(self.by).get_column(PLACE)
        keyed = [*parts.items()]
        return [Group(self, *keyed[place]) for place in order]

    def compared(self, groups: Sequence[Group], baseline: Any) -> list[tuple[Any, Any]]:
        """Return the pairs of runs to compare; raise if there are none."""
        names = list(dict.fromkeys(name for group in groups for name in group.rows))
        runs = pl.Series(names, dtype=self.schema[str(self.run)]).sort().to_list()
        if baseline is None:
            pairs = [(run, other) for place, other in enumerate(runs) for run in runs[place + 1 :]]
        elif runs and baseline not in runs:
            raise unknown_run(str(self.run), runs, "baseline", baseline)
        else:
            pairs = [(run, baseline) for run in runs if run != baseline]
        if runs and not pairs:
            raise DataError(
                f"the column {self.run!r} has only the run {runs[0]!r}; put the per-query values "
                "of all runs in one table"
            )
        return pairs

    def checked(self, frame: pl.DataFrame) -> dict[str, Facts]:
        """Return the facts of each metric; raise `DataError` for invalid values and weights."""
        names = [each.name for each in self.metrics]
        sums = frame.select(
            each
            for name in names
            for value in [pl.col(name)]
            for each in (
                value.min().alias(LOW + name), value.max().alias(HIGH + name),
                value.is_nan().any().alias(PLACE + name),
                ((value != 0) & (value != 1)).sum().alias(name),
            )
        ).row(0, named=True)  # fmt: skip
        problems: dict[str, pl.Expr] = {}
        for name in names:
            low, high, value = sums[LOW + name], sums[HIGH + name], pl.col(name)
            if sums[PLACE + name] or (low is not None and not (isfinite(low) and isfinite(high))):
                problem = f"NaN or infinite values in the column {name!r}; use null for undefined"
                problems[problem] = ~value.is_finite()
            elif low is not None and max(-low, high) > LARGE:
                problem = (
                    f"values above {LARGE:g} in the column {name!r}, whose squares overflow; "
                    "divide all values by a number"
                )
                problems[problem] = value.abs() > LARGE
        if self.weight is not None:
            value = pl.col(self.weight).cast(pl.Float64)
            valid = ((value >= 0) & value.is_finite()).fill_null(value=False)
            fits = (value == 0) | value.is_between(1 / LARGE, LARGE)
            column = f"in the column {self.weight!r}"
            of_weights = {
                f"null, negative, NaN or infinite weights {column}": ~valid,
                f"weights {column} whose squares overflow or underflow; multiply all weights by a "
                "number": valid & ~fits,
            }
            problems |= {
                problem: condition
                for problem, condition in of_weights.items()
                if frame.select(condition.any()).item()
            }
        findings = []
        for problem, condition in problems.items():
            rows = frame.filter(condition.fill_null(value=False))
            example = {
                name: value
                for name, value in rows.row(0, named=True).items()
                if not name.startswith(OWN)
            }
            findings.append(Finding(problem, rows.height, example))
        if findings:
            raise DataError.of(findings)
        return {
            n: Facts.of(sums[LOW + n], sums[HIGH + n], sums[n], each.bounds)
            for each in self.metrics
            for n in [each.name]
        }

    def result(
        self,
        columns: Iterable[ResultColumn],
        estimates: Callable[[], tuple[Sequence[Key], Any]],
        *,
        pairs: bool = False,
        details: bool = False,
        features: Collection[str] = (),
    ) -> pl.LazyFrame:
        """Return the table of estimates, with the columns of groups, the metric and runs.

        `estimates` returns the keys of the rows, and what the result columns are computed from;
        `features` are those of the call that have columns.
        """
        known = {None, *features, *(["slices"] if self.slices else [])}
        columns = [c for c in columns if c.only in known and (details or not c.is_detail)]
        types = {each.name: each.dtype for each in columns}
        schema, runs = self.schema, () if self.run is None else (self.run,)
        free([*self.by, *runs], ["metric", *(["baseline"] * pairs), *types])
        of_run = pl.String() if self.run is None else schema[self.run]
        keys = {name: schema[name] for name in self.by} | {"metric": pl.String()}
        keys |= dict.fromkeys((*runs, *(["baseline"] * pairs)), of_run)

        def result() -> pl.DataFrame:
            found, values = estimates()
            parts = [
                (*key.group, key.metric, *([key.run] if runs else ()), key.baseline)
                for key in found
            ]
            head = [
                pl.Series(name, [part[place] for part in parts], dtype)
                for place, (name, dtype) in enumerate(keys.items())
            ]
            series = [*head, *(series_of(each, values) for each in columns)]
            # Columns may have empty names.
            return pl.DataFrame({each.name: each for each in series})

        return deferred(result, {**keys, **types})


def deferred(function: Callable[[], pl.DataFrame], schema: Mapping[str, Any]) -> pl.LazyFrame:
    """Return a table that a function computes when it is collected; NumPy's NaN is unknown."""

    def result() -> pl.DataFrame:
        with numpy().errstate(all="ignore"):
            return function()

    return pl.defer(result, schema=pl.Schema(schema))


def first_few(labels: Iterable[str]) -> str:
    """Return the first few different labels as text, with the number of others."""
    different = list(dict.fromkeys(labels))
    more = len(different) - _EXAMPLES
    return "; ".join(different[:_EXAMPLES]) + (f"; and {more:,} more" if more > 0 else "")
