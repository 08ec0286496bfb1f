"""Rows of results: estimates of each run, or of each pair of runs, in each group and slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from polars_rank.errors import number_of, warn
from polars_rank.stats._arrays import Array, np
from polars_rank.stats.estimate import Estimate, Facts
from polars_rank.stats.families import Family, Influences
from polars_rank.stats.inference import NONE, Inference
from polars_rank.stats.values import Key, Values

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars_rank.stats.values import Group, Pair


@dataclass
class ResultRows:
    """The rows of a result, and the families whose intervals hold together."""

    source: Values
    keys: list[Key] = field(default_factory=list)
    estimates: list[Estimate] = field(default_factory=list)
    #: Numbers of undefined values, wins and so on.
    counts: list[dict[str, Any]] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=list)
    families: list[Influences] = field(default_factory=list)

    def add(self, key: Key, facts: Facts, estimate: Estimate, **counts: Any) -> None:
        """Add a row."""
        self.keys.append(key)
        self.facts.append(facts)
        self.estimates.append(estimate)
        self.counts.append(counts)

    def families_of(
        self, group: Group, pairs: Sequence[Pair]
    ) -> Callable[[Key, Array, Array], None]:
        """Return a function that adds the influence values of the next row of a group."""
        number, slices = len(self.source.metrics) * len(pairs), 0
        if pairs and self.source.slices:
            slices = sum(1 for _ in group.slices(pairs[0].rows, pairs[0].missing))
        families = [Influences(group.n_units, each) for each in (number, number * slices)]
        self.families += families

        def add(key: Key, units: Array, influence: Array) -> None:
            families[key.slice is not None].add(len(self.keys), units, influence)

        return add

    def count(self, name: str) -> Array:
        """Return a count of all rows."""
        return np.array([each[name] for each in self.counts], dtype=float)

    @cached_property
    def estimate(self) -> Estimate:
        """The estimates of all rows."""
        return Estimate.stack(self.estimates)

    def subject(self, place: int) -> str:
        """Return what a row is about, for messages."""
        key, source = self.keys[place], self.source
        values = {} if source.run is None else {source.run: key.run}
        values |= dict(zip(source.by, key.group, strict=True))
        values |= {} if key.slice is None else {key.slice: key.value}
        return ", ".join([repr(key.metric), *(f"{n} = {value!r}" for n, value in values.items())])

    def warn_of(self, mask: Array, message: str) -> None:
        """Warn of some rows; the message has a place for their number and an example."""
        if count := int(mask.sum()):
            subject = self.subject(int(mask.argmax()))
            warn(message.format(f"{number_of(count, 'row')}, e.g. of {subject}"))

    def levels(
        self, inference: Inference, alpha: float, *, is_corrected: bool, is_repeated: bool
    ) -> tuple[Inference, Array, Array, Array]:
        """Return the estimates with the methods of corrected intervals, and corrected p-values.

        Return also the α of each row's interval, and the number of comparisons. The correlations of
        confidence sequences are unknown.
        """
        families = []
        levels, comparisons = np.full(len(self.keys), alpha), np.ones(len(self.keys))
        varies = (inference.estimate.error > 0) | (inference.estimate.mean != 0)
        for influences in self.families if is_corrected else ():
            places = np.array(influences.rows, dtype=int)
            tested = (inference.method[places] != NONE) & varies[places]
            if tested.any():
                number = comparisons[places] = int(tested.sum())
                family = Family(number) if is_repeated else influences.family(tested)
                levels[places] = family.level(alpha)
                families.append((places, family))
        made = inference.at(levels)
        p_values = made.p_values(alpha)
        for places, family in families:
            p_values[places] = family.corrected(p_values[places])
        return made, p_values, levels, comparisons


def rows_of_runs(source: Values) -> ResultRows:
    """Return a row for each group, metric and run, and for each of its slices."""
    rows = ResultRows(source)
    facts, groups = source.facts_and_groups()
    for group in groups:
        if source.query:
            group.check_unique()
        for variable in source.metrics:
            name, values = variable.name, group.column(variable.name)
            for run, of_run in group.rows.items():
                for key, places, _ in parts(Key(group.key, name, run), group, of_run):
                    (counted,) = group.counted(name, of_run[places])
                    estimate = group.estimate(values[counted], counted, facts[name])[0]
                    undefined = group.undefined(name, of_run[places])
                    rows.add(key, facts[name], estimate, undefined=undefined)
            group.release(name)
    return rows


def parts(
    key: Key, group: Group, rows: Array, missing: Sequence[int] = ()
) -> Iterator[tuple[Key, Any, int]]:
    """Yield the whole and each slice of some rows, with their places and the number of others.

    `missing` are rows of queries that only one of two runs has.
    """
    yield key, slice(None), len(missing)
    for name, text, places, number in group.slices(rows, missing):
        yield key._replace(slice=name, value=text), places, number


def rows_of_pairs(source: Values, baseline: Any = None, *, is_relative: bool = False) -> ResultRows:
    """Return a row for each group, metric and pair of runs, and for each of its slices.

    Without a baseline, each run is compared with each earlier one in sorted order.
    """
    rows = ResultRows(source)
    facts, groups = source.facts_and_groups()
    pairs = source.compared(groups, baseline)
    for group in groups:
        compared = group.pairs(pairs, baseline)
        add = rows.families_of(group, compared)
        for name, is_lower in source.lower_is_better.items():
            values = group.column(name)
            for pair in compared:
                key = Key(group.key, name, pair.run, pair.baseline)
                for each, places, missing in parts(key, group, pair.rows, pair.missing):
                    run, base = pair.rows[places], pair.of_baseline[places]
                    counted, others, queries = group.counted(
                        name, run, base, places=pair.queries[places]
                    )
                    differences = values[counted] - values[others]
                    estimate, units, influence = group.estimate(
                        differences, counted, facts[name], base=values[others],
                        is_relative=is_relative,
                    )  # fmt: skip
                    add(each, queries if units is None else units, influence)
                    undefined = group.undefined(name, run, base)
                    rows.add(each, facts[name], estimate, missing=missing, undefined=undefined,
                             **outcomes(differences, is_lower=is_lower))  # fmt: skip
            group.release(name)
    return rows


def outcomes(differences: Array, *, is_lower: bool) -> dict[str, int]:
    """Return the numbers of queries in which the run is better, worse, and neither."""
    higher, lower = int((differences > 0).sum()), int((differences < 0).sum())
    wins, losses = (lower, higher) if is_lower else (higher, lower)
    return {"wins": wins, "losses": losses, "ties": len(differences) - wins - losses}
