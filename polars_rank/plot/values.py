"""Values of single queries as charts need them: of one metric, by run, or beside the baseline's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import ArgumentError, DataError, number_of
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot.drawing import counted, something, told_undefined
from polars_rank.plot.runs import groups, harmless_text, run_columns
from polars_rank.stats.pairs import is_run
from polars_rank.stats.tables import agreed_on, key_columns, variables

if TYPE_CHECKING:
    from polars_rank._params import Names
    from polars_rank.conventions import Conventions

#: The value of a list, that of the baseline's, and their difference.
VALUE, BASELINE, DIFFERENCE = OWN + "value", OWN + "baseline", OWN + "difference"
#: What rounding may take from a value that is on the edge of two cells.
TINY = 1e-9
_UNDEFINED, _TIMES, _OTHER = OWN + "undefined", OWN + "times", " of baseline"


class Values(NamedTuple):
    """The values of one metric: as what they count, with the columns that tell lists apart."""

    rows: pl.LazyFrame
    name: str
    run: list[str]
    query: list[str]
    rule: str

    @classmethod
    def of(
        cls,
        lists: Any,
        metric: Any,
        run: str | None,
        query: Names,
        undefined: Any,
        conventions: Conventions | str,
    ) -> Values:
        """Return the values of a table of lists, its columns checked."""
        rows = lazy(lists)
        schema = schema_of(rows)
        agreed = agreed_on(conventions, undefined)
        columns = run_columns(schema, run)
        keys = key_columns(schema, run=columns, query=query)
        taken = [*keys["run"], *keys["query"]]
        metrics = None if metric is None else [metric]
        asked = variables(schema, metrics, agreed, taken, "metric", undefined)
        if len(asked) > 1:
            there = ", ".join(repr(each.name) for each in asked)
            message = f"a chart is of one metric; name it with `metric`; there are {there}"
            raise ArgumentError(message, "metric")
        (variable,) = asked
        undefined_there = pl.col(variable.name).is_null().alias(_UNDEFINED)
        picked = rows.select(*taken, variable.value.alias(VALUE), undefined_there)
        return cls(picked, variable.name, columns, [*keys["query"]], variable.counts_as)

    @property
    def known(self) -> pl.LazyFrame:
        """The rows with a value, runs under names of our own."""
        return self.rows.filter(pl.col(VALUE).is_not_null()).select(*groups(self.run), VALUE)

    @property
    def query_name(self) -> pl.Expr:
        """The id of a query as text."""
        parts = [pl.col(name).cast(pl.String).fill_null("null") for name in self.query]
        return harmless_text(pl.concat_str(parts, separator=" · "))

    def spread(self) -> pl.DataFrame:
        """Return how many values each run has, and from where to where; raise for none."""
        value = pl.col(VALUE)
        facts = {**_facts(value), "low": value.min(), "high": value.max(), "mean": value.mean()}
        found = collected(_by(self.rows, self.run, facts))
        self._check(found)
        return found

    def said(self, spread: pl.DataFrame) -> str:
        """Say over how many queries, and as what undefined values count."""
        undefined = max(spread.get_column("undefined"), default=0)
        return counted(spread.get_column("queries")) + told_undefined(undefined, self.rule)

    def two(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the two runs to be drawn against each other."""
        if (x is not None and y is not None) or not self.run:
            return x, y
        found = collected(self.rows.select(pl.col(self.run[0]).unique().sort()))
        there = found.to_series().to_list()
        given = [each for each in (x, y) if each is not None]
        others = [each for each in there if each not in given]
        if len(given) + len(others) != 2:
            message = f"name the runs with `x` and `y`; there are {there[:10]}"
            raise ArgumentError(message, "x", "y")
        if y is None:
            return (x, others[0]) if x is not None else (others[0], others[1])
        return others[0], y

    def beside(self, baseline: Any, other: Any = None) -> pl.LazyFrame:
        """Return the value of each query beside the baseline's, of all other runs or of one."""
        if not self.run:
            message = "`run` must name the column that tells the two runs apart; found None"
            raise ArgumentError(message, "run")
        (run,) = self.run
        dtype = schema_of(self.rows)[run]
        lists = self.rows.group_by([run, *self.query]).agg(
            pl.col(VALUE, _UNDEFINED).first(), pl.len().alias(_TIMES)
        )
        is_baseline = is_run(run, dtype, baseline)
        parts = {VALUE: BASELINE, _UNDEFINED: _UNDEFINED + _OTHER, _TIMES: _TIMES + _OTHER}
        base = lists.filter(is_baseline).drop(run).rename(parts)
        others = lists.filter(~is_baseline if other is None else is_run(run, dtype, other))
        pairs = others.join(base, on=self.query, how="inner", nulls_equal=True)
        return pairs.select(
            run,
            *self.query,
            VALUE,
            BASELINE,
            (pl.col(VALUE) - pl.col(BASELINE)).alias(DIFFERENCE),
            pl.max_horizontal(_TIMES, _TIMES + _OTHER).alias(_TIMES),
            pl.any_horizontal(_UNDEFINED, _UNDEFINED + _OTHER).alias(_UNDEFINED),
        )

    def paired(self, pairs: pl.LazyFrame, runs: str) -> pl.DataFrame:
        """Return what is to be known of the differences of each run; raise for none."""
        difference, both = pl.col(DIFFERENCE), pl.col(VALUE, BASELINE)
        facts = {
            **_facts(difference),
            "times": pl.col(_TIMES).max(),
            "low": difference.min(),
            "high": difference.max(),
            "mean": difference.mean(),
            "wins": (difference > 0).sum(),
            "ties": (difference == 0).sum(),
            "losses": (difference < 0).sum(),
            "least": pl.min_horizontal(both.min()),
            "most": pl.max_horizontal(both.max()),
        }
        found = collected(_by(pairs, self.run, facts))
        if not found.height:
            there = collected(self.rows.select(pl.col(self.run[0]).unique().sort().head(10)))
            message = (
                f"there is nothing to draw: no query has a list in both {runs}; the column "
                f"{self.run[0]!r} has the runs {there.to_series().to_list()}"
            )
            raise DataError(message)
        if (found.get_column("times") > 1).any():
            message = (
                "a query has several lists in one run; name all columns of its id with "
                f"`query`, which is {self.query} now"
            )
            raise DataError(message, "query")
        self._check(found)
        return found

    def _check(self, spread: pl.DataFrame) -> None:
        bad = int(spread.get_column("bad").sum())
        if bad:
            message = (
                f"{number_of(bad, 'row')}: NaN or infinite values in the column {self.name!r}; use "
                "null for 'undefined'"
            )
            raise DataError(message)
        something(spread, "low", f"value of {self.name!r}")


def extent(low: float, high: float) -> tuple[float, float]:
    """Return the range of an axis: from 0 to 1 for values within."""
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


def _by(rows: pl.LazyFrame, columns: list[str], facts: dict[str, pl.Expr]) -> pl.LazyFrame:
    if not columns:
        return rows.select(**facts)
    return rows.group_by(groups(columns)).agg(**facts)
