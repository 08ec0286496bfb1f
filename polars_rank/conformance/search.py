"""The values of definitions on a log, and their differences from given numbers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from numbers import Real
from operator import sub
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, free
from polars_rank.conformance.batch import KEPT, computes, documents, is_retrieved, values
from polars_rank.conformance.reference import METRICS
from polars_rank.conventions import Conventions
from polars_rank.definitions import ALTERNATIVES, Definition, change_text, one_metric
from polars_rank.errors import ArgumentError, DataError, number_of, short
from polars_rank.evaluation.evaluate import VALUE, values_under
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.means import COUNTED, grouped
from polars_rank.evaluation.stages import JUDGED, RETRIEVED
from polars_rank.frames.tables import lazy
from polars_rank.gains import GAINS, LARGEST_EXP2_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Columns of a given number, and of its row in the table of numbers.
OTHER, GROUP = OWN + "other", OWN + "group"

#: The lowest tolerance, for values that were computed with 32 bits.
LOWEST_TOLERANCE = 5e-7
#: Choices about means, which have no effect on the metric of a query.
_OF_MEANS = {"undefined": "null", "query_set": "all", "decimals": None}
#: What undefined values count as.
_NUMBERS = {"zero": 0.0, "one": 1.0}
#: The number of queries of a definition that are shown.
_QUERIES = 3
#: The treatments of copies of a document.
TREATMENTS = tuple(each for each in ALTERNATIVES["duplicates"] if each != "error")
#: Documents are computed for this number of rows at a time, to limit memory. They are kept if the
#: log has at most the second number of rows.
_ROWS_OF_PART, _ROWS_KEPT = 200_000, 1_000_000
#: More distinct labels than this are not grades, each of which could be the lowest relevant label.
_GRADES = 10


class Effects(NamedTuple):
    """Facts of a log that decide which choices have an effect."""

    #: Whether documents are tied, by whether scores are compared with 32 bits.
    tied: Mapping[bool, bool]
    #: Whether more documents are tied with 32 bits.
    narrowed: bool
    #: Whether there are unjudged documents, and copies.
    unjudged: bool
    copies: bool
    #: The distinct labels in ascending order.
    labels: Sequence[float]

    @classmethod
    def of(cls, parts: Iterable[pl.DataFrame]) -> Effects:
        """Return the effects on a log with these rows of `batch.documents`."""
        tied, labels = {False: False, True: False}, set[float]()
        narrowed = unjudged = copies = False
        for rows in parts:
            retrieved, pairs = rows.filter("retrieved"), rows.get_column("pair").drop_nulls()
            scores = [retrieved.get_column(name).n_unique() for name in ("score", "score32")]
            tied = {each: tied[each] or scores[each] < retrieved.height for each in tied}
            narrowed |= scores[0] > scores[1]
            unjudged |= not retrieved.get_column("judged").all()
            copies |= pairs.n_unique() < len(pairs)
            labels |= {*rows.get_column("label").drop_nulls().unique()}
        whole = [int(each) if each.is_integer() else each for each in sorted(labels)]
        return cls(tied, narrowed, unjudged, copies, labels=whole)

    @property
    def grades(self) -> Sequence[float]:
        """The labels that may be the lowest relevant one."""
        return self.labels[1:] if len(self.labels) <= _GRADES else ALTERNATIVES["rel"]

    def allow(self, choices: Mapping[str, Any]) -> bool:
        """Return whether the gains of choices accept the labels of the log."""
        highest = self.labels[-1] if self.labels else 0
        exponential = choices.get("gain") == "exp2" and highest > LARGEST_EXP2_LABEL
        full = choices.get("ideal") == "full" and choices["gain"] != "binary" and highest > 1
        return not exponential and not full

    def plain(self, choices: Mapping[str, Any]) -> dict[str, Any]:
        """Return choices without those that have no effect."""
        plain = {**choices}
        plain["float32_scores"] &= self.narrowed
        if not self.tied[plain["float32_scores"]]:
            plain["ties"] = "input"
        if plain["ties"] not in ("doc", "doc_ascending"):
            plain["text_ids"] = False
        if not self.unjudged:
            plain["unjudged"] = "nonrelevant"
        if not self.copies:
            plain["duplicates"] = "error"
        if plain.get("gain") in GAINS and {*self.labels} <= {0, 1}:
            plain["gain"] = "linear"
        lowest = plain.get("gain_from")
        if lowest is not None and not any(0 != each < lowest for each in self.labels):
            plain["gain_from"] = None
        if plain.get("rel") is not None:
            plain["rel"] = next((each for each in self.labels if each >= plain["rel"]), None)
        return plain


class Given(NamedTuple):
    """The numbers of another tool, by query, by run, or one number."""

    #: The keys of numbers, and the column `OTHER`.
    numbers: pl.DataFrame
    keys: list[str]
    log: Log
    tolerance: float

    @classmethod
    def of(cls, value: Any, log: Log, metric: str) -> Given:
        """Return the numbers of the parameter `value`, in the column of the metric or another."""
        if isinstance(value, Mapping):
            if not log.runs:
                raise ArgumentError(
                    "has numbers of runs, but there is no column of runs; name it with "
                    "`run`, such as run='model'",
                    "value",
                )
            texts = [str(each) for each in value.values()]
            table = pl.DataFrame({log.runs[0]: [*value], OTHER: texts})
        elif isinstance(value, (str, Real)):
            table = pl.DataFrame({OTHER: [str(value)]})
        else:
            table = lazy(value, "value").collect()
        keys = [each for each in log.columns.keys if each in table.columns]
        names = [each for each in table.columns if each not in keys]
        names = [metric] if metric in names else names
        if len(names) != 1:
            raise ArgumentError(
                f"must have a column {metric!r}, or one column besides runs and queries; "
                f"found {', '.join(map(repr, names)) or 'none'}",
                "value",
            )
        column = table.get_column(names[0]).cast(pl.String).str.strip_chars()
        try:
            digits = [-int(Decimal(text).as_tuple().exponent) for text in {*column.drop_nulls()}]
            tolerance = max(10.0 ** -max(digits, default=0) / 2, LOWEST_TOLERANCE) * (1 + 1e-9)
            found = column.cast(pl.Float64)  # Decimal also reads "1_0" and digits of other scripts
        except (InvalidOperation, ValueError, OverflowError, pl.exceptions.PolarsError):
            raise ArgumentError(
                f"must be a finite number, or have finite numbers; found {short(value)}", "value"
            ) from None
        return cls(table.select(*keys, found.alias(OTHER)), keys, log, tolerance)

    @property
    def has_queries(self) -> bool:
        """Whether the numbers are values of queries."""
        return {*self.log.columns.query} <= {*self.keys}

    def joined(self, rankings: pl.DataFrame) -> pl.DataFrame:
        """Return rankings with their numbers, and with the row of the number."""
        by, query = self.log.columns.by, self.log.columns.query
        needed = [name for name in by if rankings.get_column(name).n_unique() > 1]
        needed += query if {*query} & {*self.keys} else ()
        for name in needed:
            if name not in self.keys:
                raise ArgumentError(
                    f"has no column {name!r}, in which the rankings differ; pass a mapping "
                    "from runs to numbers, a table with this column, or the log of one run",
                    "value",
                )
        types = [pl.col(key).cast(rankings.schema[key], strict=False) for key in self.keys]
        numbers = self.numbers.with_columns(types).with_row_index(GROUP)
        if not self.keys and numbers.height != 1:
            names = " and ".join(map(repr, self.log.columns.keys))
            raise ArgumentError(
                f"has {numbers.height:,} rows, but no column {names}; rename its columns", "value"
            )
        if not self.keys:
            return rankings.join(numbers, how="cross")
        unknown = numbers.join(rankings, on=self.keys, how="anti", nulls_equal=True)
        if unknown.height:
            row = self.numbers.row(unknown.item(0, GROUP), named=True)
            raise DataError(
                f"{number_of(unknown.height, 'number')} of `value` not found in the log, such as "
                f"{short({key: row[key] for key in self.keys})}; add their judged documents to the "
                "log, or drop them"
            )
        if numbers.select(self.keys).is_duplicated().any():
            raise DataError("`value` has several numbers for a query or a run; keep one of them")
        return rankings.join(
            numbers, on=self.keys, how="left", nulls_equal=True, maintain_order="left"
        )


class Candidate(NamedTuple):
    """A definition with changes, which may be choices that only other tools have."""

    definition: Definition
    choices: Mapping[str, Any]
    #: The choices that differ from the presets.
    changes: Mapping[str, Any]
    presets: tuple[str, ...]
    #: The conventions and choices of the caller, or a preset.
    given: Mapping[str, Any]

    def but(self, changes: Mapping[str, Any]) -> Candidate:
        """Return the candidate with other choices."""
        return self._replace(
            choices={**self.choices, **changes}, changes={**self.changes, **changes}
        )

    @property
    def is_preset(self) -> bool:
        """Whether nothing is changed but the treatment of copies."""
        return {*self.changes} <= {"duplicates"}

    @property
    def text(self) -> str:
        """The presets, or what differs from them, in words."""
        changed = [change_text(*change) for change in self.changes.items()]
        named = self.is_preset or bool(self.given)
        return "; ".join([f"as {', '.join(self.presets)}"] * named + changed)


class _Found(NamedTuple):
    """A definition with its largest difference from a given number."""

    definition: Candidate
    column: str
    deviation: float | None
    fits: bool


class Search:
    """A log, the numbers of another tool, and the definitions whose values were compared."""

    def __init__(self, frame: Any, value: Any, metric: str, options: Mapping[str, Any]) -> None:
        log = Log.of(lazy(frame, collects=True), **options)
        free(log.columns.keys, ("value", "other"))
        self._log, self._given = log, Given.of(value, log, metric)
        doc = log.columns.doc
        self.ids: pl.DataType | None = None if doc is None else log.columns.schema[doc]
        read = replace(log, repeated=pl.lit(value=False))
        roles = ["score", "label", *([] if doc is None else ["doc"])]
        table = read.checked(read.rankings(read.rows(), [pl.col(roles)])).collect()
        self._keys, rows = log.columns.keys, pl.col("score").list.len().cum_sum()
        number, lists = table.select(rows.last()).item() or 0, table.select(roles)
        parts = lists.with_columns((rows // _ROWS_OF_PART).alias(GROUP)).partition_by(
            GROUP, maintain_order=True, include_key=False
        ) or [lists]
        self._parts = [*map(documents, parts)] if number <= _ROWS_KEPT else parts
        self.effects: Effects = Effects.of(self._documents())
        if self.effects.copies:  # scores and labels in different copies are an error
            kept = Conventions(duplicates="max")
            values_under(log, [Definition.of(one_metric("num_retrieved"), kept)])
        sets = pl.concat(_query_sets(each, self.effects) for each in self._documents())
        self._rankings = self._given.joined(table.select(log.keys.named)).hstack(sets)
        #: The first of the query sets with the same queries.
        self._same_sets = {
            name: next(each for each in sets.columns if sets[each].equals(sets[name]))
            for name in sets.columns
        }
        #: The columns of values, by metric and choices.
        self._columns: dict[Any, str | None] = {}
        self._seen: set[Any] = set()
        self._found: list[_Found] = []

    def _documents(self) -> Iterator[pl.DataFrame]:
        """Yield the documents of rankings, part by part."""
        for each in self._parts:
            yield each if "pair" in each.columns else documents(each)

    @property
    def decimals(self) -> Sequence[int | None]:
        """The numbers of decimals to which values of queries may be rounded before the mean.

        More decimals than those of the given numbers have no effect above the tolerance.
        """
        known = [each for each in ALTERNATIVES["decimals"] if each is not None]
        return [each for each in known if 10.0**-each / 2 > self._given.tolerance]

    @property
    def highest(self) -> float | None:
        """The highest given number; None if values may exceed the range of a metric."""
        if self.effects.copies or min(self.effects.labels, default=0) < 0:
            return None
        highest: Any = self._rankings.get_column(OTHER).max()
        return None if highest is None else highest - self._given.tolerance

    def treated(self, definition: Candidate) -> Iterator[Candidate]:
        """Yield a definition; if it refuses the copies of the log, with each treatment of them."""
        if not self.effects.copies or definition.choices["duplicates"] != "error":
            yield definition
            return
        yield from (definition.but({"duplicates": each}) for each in TREATMENTS)

    def add(self, definitions: Iterable[Candidate]) -> bool:
        """Compare the values of definitions with the given numbers; return whether one fits."""
        new = []
        columns = self._evaluate([each for each in definitions if self.effects.allow(each.choices)])
        for each, column in columns:
            key = (column, *self._of_means(each.choices, column))
            if each.is_preset or key not in self._seen:
                self._seen.add(key)
                new.append((each, column))
        deviations = self._deviations(new) if new else ((), ())
        for (each, column), deviation, same in zip(new, *deviations, strict=True):
            fits = same and deviation is not None and deviation <= self._given.tolerance
            self._found.append(_Found(each, column, deviation, fits))
        return any(each.fits for each in self._found)

    def _deviations(
        self, definitions: Sequence[tuple[Candidate, str]]
    ) -> tuple[Sequence[float | None], Sequence[bool]]:
        """Return the largest differences from the given numbers, and whether the same values count.

        A difference is None if a mean is null, or if no value counts.
        """
        counted = [self._counted(pl.col(column), each) for each, column in definitions]
        if self._given.has_queries:
            given = pl.col(OTHER)
            same = [(value.is_null() == given.is_null()).all() for value in counted]
            # Without values, nothing differs if the same queries do not count.
            largest = [
                (value - given).abs().max().fill_null(pl.when(each).then(0.0))
                for value, each in zip(counted, same, strict=True)
            ]
            named = [each.alias(str(index)) for index, each in enumerate((*largest, *same))]
            row = self._rankings.select(named).row(0)
            return row[: len(largest)], row[len(largest) :]
        means = [
            self._mean(value, each).alias(str(index))
            for index, (value, (each, _)) in enumerate(zip(counted, definitions, strict=True))
        ]
        is_whole = not self._rankings.get_column(GROUP).null_count()
        rankings = self._rankings if is_whole else self._rankings.drop_nulls(GROUP)  # a copy
        groups = rankings.group_by(GROUP).agg(pl.col(OTHER).first(), *means)
        other, *columns = (each.to_list() for each in groups.drop(GROUP))
        differences = [
            None if None in column else max(map(abs, map(sub, column, other)), default=None)
            for column in columns
        ]
        return differences, [True] * len(differences)

    def _evaluate(self, definitions: Sequence[Candidate]) -> list[tuple[Candidate, str]]:
        """Return definitions with the columns of their values, undefined ones as null.

        Candidates that neither the library nor the reference has are left out.
        """
        pairs: list[tuple[Any, Candidate]] = []
        for each in definitions:  # those with equal values have equal keys
            own = {**self.effects.plain(each.choices), **_OF_MEANS}
            texts = sorted((choice, repr(value)) for choice, value in own.items())
            pairs.append(((each.definition.function, *texts), each))
        new = {key: each for key, each in pairs if key not in self._columns}
        names = {key: f"{OWN}{index}" for index, key in enumerate(new, len(self._columns))}
        batch, in_library = {}, {}
        for key, each in new.items():
            self._columns[key] = None
            if computes(each.definition.function, each.choices):
                batch[key] = each.definition.function, each.choices
            # No tool is known to have the mean over all orders of ties with other changes.
            elif each.definition.function not in METRICS or len(each.changes) < 2:
                changes = {**each.changes, **_OF_MEANS}
                del changes["decimals"]
                with suppress(ArgumentError):  # only other tools have the choice
                    in_library[key] = each.definition.but(**changes)
        self._columns |= {key: names[key] for key in (*batch, *in_library)}
        columns = pl.concat(values(each, [*batch.values()]) for each in self._documents())
        columns.columns = [names[key] for key in batch]
        keys = self._rankings.select(self._keys)
        of_library = [
            keys.join(table, on=self._keys, how="left", nulls_equal=True, maintain_order="left")
            .get_column(VALUE)
            .alias(names[key])
            for key, table in zip(
                in_library, values_under(self._log, [*in_library.values()]), strict=True
            )
        ]
        self._rankings = self._rankings.hstack(columns).hstack(of_library)
        found = [(each, self._columns[key]) for key, each in pairs]
        return [(each, column) for each, column in found if column is not None]

    def _of_means(self, choices: Mapping[str, Any], column: str) -> tuple[Any, ...]:
        """Return the choices about means that have an effect on a column."""
        query_set = self._same_sets[self._query_set(choices)]
        defined = not self._rankings.get_column(column).null_count()
        return "null" if defined else choices["undefined"], query_set, choices["decimals"]

    def _query_set(self, choices: Mapping[str, Any]) -> str:
        """Return the column that says which queries count."""
        return _name_of_set(self.effects.plain(choices))

    def _counted(self, value: pl.Expr, definition: Candidate) -> pl.Expr:
        """Return the values of queries as they enter a mean; null does not count."""
        choices = definition.choices
        if (number := _NUMBERS.get(choices["undefined"])) is not None:
            value = value.fill_null(number)
        if choices["decimals"] is not None:
            value = value.round(choices["decimals"])
        return pl.when(self._query_set(choices)).then(value)

    def _mean(self, counted: pl.Expr, definition: Candidate) -> pl.Expr:
        """Return the mean of values; null if undefined values make it null."""
        if definition.choices["undefined"] != "null":
            return counted.mean()
        included = pl.col(self._query_set(definition.choices))
        return pl.when(~(counted.is_null() & included).any()).then(counted.mean())

    def table(self, n: int, code: Callable[[Candidate], str | None]) -> pl.DataFrame:
        """Return the definitions that fit, or else the nearest ones."""
        distinct = self._distinct(n)
        given = self._rankings.get_column(OTHER)
        rows = [
            {
                "changes": each.definition.text,
                "value": self._shown(column),
                "deviation": each.deviation,
                "tolerance": round(self._given.tolerance, 9),
                "fits": each.fits,
                "others": len(distinct) - 1 if each.fits else 0,
                "code": code(each.definition),
                "queries": self._differences(
                    column, given if self._given.has_queries else distinct[0][1]
                ),
            }
            for each, column in distinct[:n]
        ]
        keys = {name: self._rankings.schema[name] for name in self._keys}
        queries = pl.Struct({**keys, "value": pl.Float64, "other": pl.Float64})
        return pl.DataFrame(rows, {**_COLUMNS, "queries": pl.List(queries)}, orient="row")

    def _shown(self, values: pl.Series) -> float | None:
        """Return the mean of values; with several runs, of the one with the largest difference."""
        value, other, size = pl.col("value"), pl.col(OTHER), OTHER + " size"
        by = self._log.columns.by
        rows = self._rankings.lazy().select(*by, GROUP, OTHER, values.alias("value"))
        apart = (value - other).abs().max()
        if not self._given.has_queries:
            rows, apart = rows.drop_nulls(GROUP), (value.mean() - other.first()).abs()
        means = grouped(rows, by, [value.mean(), apart.alias(size)]).collect()
        first = means.sort(size, descending=True, nulls_last=True, maintain_order=True)
        mean: float | None = first.item(0, "value")
        return mean

    def _distinct(self, n: int) -> list[tuple[_Found, pl.Series]]:
        """Return the definitions of the result with their values, one for equal values."""
        found = sorted(
            (each for each in self._found if each.fits),
            key=lambda each: (each.deviation or 0) > LOWEST_TOLERANCE,
        )
        if not found:
            # Rounded values are near to those that are not rounded.
            near = [
                (each.deviation, index, each)
                for index, each in enumerate(self._found)
                if each.deviation is not None and each.definition.choices["decimals"] is None
            ]
            found = [each for *_, each in sorted(near)[: 4 * n]]
        columns = self._rankings.select(
            self._counted(pl.col(each.column), each.definition).alias(str(index))
            for index, each in enumerate(found)
        )
        distinct: dict[Any, tuple[_Found, pl.Series]] = {}
        for each, column in zip(found, columns, strict=True):
            key = (*column.round(10).to_list(),)
            same, _ = distinct.setdefault(key, (each, column))
            if each.definition.is_preset and same is not each:
                names = (*dict.fromkeys(same.definition.presets + each.definition.presets),)
                agreeing = same.definition._replace(presets=names)
                distinct[key] = same._replace(definition=agreeing), column
        return [*distinct.values()]

    def _differences(self, column: pl.Series, other: pl.Series) -> list[dict[str, Any]]:
        """Return the queries with the largest differences between two columns of values."""
        size = (pl.col("value") - pl.col("other")).abs()
        apart = pl.col("value").is_null() != pl.col("other").is_null()
        differences = self._rankings.select(
            *self._keys, column.alias("value"), other.alias("other")
        ).with_columns(pl.when(apart).then(float("inf")).otherwise(size).alias(OTHER))
        return (
            differences.filter(pl.col(OTHER) > self._given.tolerance * self._given.has_queries)
            .sort(OTHER, *self._keys, descending=[True, *[False] * len(self._keys)])
            .head(_QUERIES)
            .drop(OTHER)
            .to_dicts()
        )


_COLUMNS = {
    "changes": pl.String, "value": pl.Float64, "deviation": pl.Float64, "tolerance": pl.Float64,
    "fits": pl.Boolean, "others": pl.UInt32, "code": pl.String,
}  # fmt: skip


def _query_sets(rows: pl.DataFrame, effects: Effects) -> pl.DataFrame:
    """Return which rankings are in each query set, by what is done with copies and the unjudged."""
    sets = []
    for copies in ("error", *(KEPT if effects.copies else ())):
        kept = pl.col(copies) if copies in KEPT else pl.lit(value=True)
        for unjudged in ("nonrelevant", *(["removed"] if effects.unjudged else [])):
            treatment = {"duplicates": copies, "unjudged": unjudged}
            facts = rows.group_by("ranking", maintain_order=True).agg(
                (kept & pl.col("judged")).any().alias(JUDGED),
                is_retrieved(treatment).sum().alias(RETRIEVED),
            )
            conditions = {"all": pl.col(JUDGED).is_not_null(), **COUNTED}
            sets += facts.select(
                condition.alias(_name_of_set({**treatment, "query_set": name}))
                for name, condition in conditions.items()
            ).get_columns()
    return pl.DataFrame(sets)


def _name_of_set(choices: Mapping[str, Any]) -> str:
    copies = choices["duplicates"] if choices["duplicates"] in KEPT else "error"
    return f"{OWN}{copies} {choices['unjudged']} {choices['query_set']}"
