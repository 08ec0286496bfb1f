"""Rows of results: moments of each run, or of each pair of runs, in each group and slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from polars_rank.stats._arrays import Array, numpy
from polars_rank.stats.estimates import Predicted, predicted
from polars_rank.stats.families import Bonferroni, Family, Influences
from polars_rank.stats.groups import HUMAN, Facts, Group
from polars_rank.stats.inference import NONE, ZERO, Inference
from polars_rank.stats.kernel import PAIR, PREDICTED, Moments
from polars_rank.stats.results import labels
from polars_rank.stats.values import Key, Values

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Rows:
    """The rows of a result, and the families whose intervals hold together."""

    source: Values
    keys: list[Key] = field(default_factory=list)
    sums: list[Mapping[str, float]] = field(default_factory=list)
    #: Numbers of queries, undefined values, wins and so on.
    counts: list[dict[str, int]] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=list)
    predictions: list[Predicted] = field(default_factory=list)
    #: The rows of each family, and how to get the family of some of them.
    families: list[tuple[list[int], Callable[[Array], Family]]] = field(default_factory=list)

    def count(self, name: str) -> Array:
        """Return a count of all rows."""
        return numpy().array([each[name] for each in self.counts], dtype=float)

    @property
    def moments(self) -> Moments:
        """The moments of all rows."""
        return Moments(self.sums)

    @property
    def texts(self) -> list[str]:
        """What each row is about, for messages."""
        source, texts = self.source, labels(self.source.by, (key.group for key in self.keys))
        return [
            ", ".join(
                each for each in (
                    repr(key.metric), "" if source.run is None else f"{source.run} = {key.run!r}",
                    text, "" if key.slice is None else f"{key.slice} = {key.value!r}",
                ) if each
            )
            for key, text in zip(self.keys, texts, strict=True)
        ]  # fmt: skip

    def levels(
        self, inference: Inference, alpha: float, *, bonferroni: bool
    ) -> tuple[Array, Array]:
        """Return the corrected p-values, and the α at which each row's interval is computed.

        `bonferroni` is for estimates whose correlations are unknown.
        """
        np = numpy()
        p_values, levels = inference.p_values(alpha), np.full(len(self.keys), alpha)
        for rows, family_of in self.families:
            places = np.array(rows, dtype=int)
            tested = np.isin(inference.method[places], (NONE, ZERO), invert=True)
            if tested.any():
                family = Bonferroni(int(tested.sum())) if bonferroni else family_of(tested)
                levels[places] = family.level(alpha)
                p_values[places] = family.corrected(p_values[places])
        return p_values, levels


def rows_of_runs(source: Values) -> Rows:
    """Return a row for each group, metric and run, and for each of its slices."""
    rows = Rows(source)
    facts, groups = source.facts_and_groups()
    for group in groups:
        if source.query:
            group.check_unique()
        for variable in source.metrics:
            for run, of_run in group.rows.items():
                key = Key(group.key, variable.name, run)
                for each, places, _ in _parts(key, group, of_run):
                    _add_run(rows, group, each, of_run[places], facts[variable.name])
            group.release(variable.name)
    return rows


def _parts(
    key: Key, group: Group, rows: Array, missing: Sequence[int] = ()
) -> Iterator[tuple[Key, Any, int]]:
    """Yield the whole and each slice of some rows, with their places and the number of others.

    `missing` are rows of queries that only one of two runs has.
    """
    yield key, slice(None), len(missing)
    for name, text, places, number in group.slices(rows, missing):
        yield key._replace(slice=name, value=text), places, number


def _add_run(rows: Rows, group: Group, key: Key, of_run: Array, facts: Facts) -> None:
    queries, name = len(of_run), key.metric
    values = group.column(name)
    if group.has_predictions:
        is_human = group.column(HUMAN)[of_run] == 1
        human = group.column(HUMAN + name)[of_run]
        sums, estimate = _predicted(group, of_run, human, values[of_run], ~is_human)
        queries = int(is_human.sum())
        rows.predictions.append(estimate)
        of_run = of_run[is_human]
    else:
        (counted,) = group.counted(name, of_run)
        of_values = {"d": values[counted], "x": numpy().broadcast_to(0.0, len(counted))}
        weights = {"w": of_rows(group.weights, counted)}
        sums, _ = PAIR.of(of_values, weights, of_rows(group.units, counted))
    rows.keys.append(key)
    rows.sums.append(sums)
    rows.counts.append({"queries": queries, "undefined": group.undefined(name, of_run)})
    rows.facts.append(facts)


def of_rows(array: Array | None, rows: Array) -> Array | None:
    """Return an array at some rows; None if there is no array."""
    return None if array is None else array[rows]


def rows_of_pairs(source: Values, baseline: Any = None) -> Rows:
    """Return a row for each group, metric and pair of runs, and for each of its slices.

    Without a baseline, each run is compared with each earlier one in sorted order.
    """
    rows = Rows(source)
    facts, groups = source.facts_and_groups()
    pairs = source.compared(groups, baseline)
    for group in groups:
        present = {*group.rows}
        of_group = [
            (run, other)
            for run, other in pairs
            if other in present and (run in present or baseline is not None)
        ]
        compared = [_Pair.of(group, *pair) for pair in of_group]
        number, slices = len(source.metrics) * len(compared), 0
        if compared and source.slices:
            slices = sum(1 for _ in group.slices(compared[0].rows, compared[0].missing))
        families = [Influences(group.n_units, number), Influences(group.n_units, number * slices)]
        members: list[list[int]] = [[], []]
        for variable in source.metrics:
            for pair in compared:
                key = Key(group.key, variable.name, pair.run, pair.baseline)
                for each, places, missing in _parts(key, group, pair.rows, pair.missing):
                    kind = each.slice is not None
                    members[kind].append(len(rows.keys))
                    added = _add_pair(
                        rows, group, each, pair.part(places), missing, facts[variable.name]
                    )
                    families[kind].add(*added)
            group.release(variable.name)
        rows.families += [
            (of_family, family.family)
            for of_family, family in zip(members, families, strict=True)
            if of_family
        ]
    return rows


class _Pair(NamedTuple):
    """The rows of the queries that two runs have in common."""

    run: Any
    baseline: Any
    rows: Array
    of_baseline: Array
    #: The rows of queries that only one of the runs has.
    missing: Array
    #: The query of each row.
    queries: Array

    @classmethod
    def of(cls, group: Group, run: Any, baseline: Any) -> _Pair:
        """Return the pair; raise if weights, clusters or slices of a query differ."""
        np = numpy()
        none = np.full(len(group.aligned[baseline]), -1)
        rows, base = group.aligned.get(run, none), group.aligned[baseline]
        of_run, of_base = rows >= 0, base >= 0
        both = of_run & of_base
        known = of_run, of_base
        if group.has_predictions:
            is_human = group.column(HUMAN) == 1
            known = of_run & is_human[rows], of_base & is_human[base]
        alone = known[0] ^ known[1]
        missing = np.concatenate([rows[known[0] & alone], base[known[1] & alone]])
        queries = np.flatnonzero(both)
        if len(queries) < len(both):
            rows, base = rows[queries], base[queries]
        pair = cls(run, baseline, rows, base, missing, queries)
        group.check_equal(pair.rows, pair.of_baseline, run, baseline)
        return pair

    def part(self, places: Any) -> _Pair:
        """Return the pair at some places."""
        if isinstance(places, slice):
            return self
        return self._replace(
            rows=self.rows[places], of_baseline=self.of_baseline[places],
            queries=self.queries[places],
        )  # fmt: skip


def _add_pair(
    rows: Rows, group: Group, key: Key, pair: _Pair, missing: int, facts: Facts
) -> tuple[Array, Array]:
    """Add a row, and return the numbers of units and their influence values."""
    np = numpy()
    name, run, base = key.metric, pair.rows, pair.of_baseline
    values = group.column(name)
    if group.has_predictions:
        human, queries, units = group.column(HUMAN + name), pair.queries, of_rows(group.units, run)
        judged = [group.column(HUMAN)[each] == 1 for each in (run, base)]
        is_other, both = ~(judged[0] | judged[1]), judged[0] & judged[1]
        of_people = np.where(both, human[run] - human[base], np.nan)
        sums, estimate = _predicted(group, run, of_people, values[run] - values[base], is_other)
        own = np.where(both, human[run], np.nan)
        _, of_run = _predicted(group, run, own, values[run], is_other)
        rows.predictions.append(estimate)
        sums["mx"], influence = of_run.value, estimate.influence
        differences = of_people[both & ~np.isnan(of_people)]
        run, base = run[both], base[both]
    else:
        counted, of_baseline, queries = group.counted(name, run, base, places=pair.queries)
        differences, units = values[counted] - values[of_baseline], of_rows(group.units, counted)
        weights = {"w": of_rows(group.weights, counted)}
        sums, letters = PAIR.of({"d": differences, "x": values[counted]}, weights, units)
        influence = letters["d"]
    higher, lower = int((differences > 0).sum()), int((differences < 0).sum())
    wins, losses = (lower, higher) if group.source.lower_is_better[name] else (higher, lower)
    rows.keys.append(key)
    rows.sums.append(sums)
    rows.facts.append(facts)
    rows.counts.append({
        "queries": len(run), "wins": wins, "losses": losses,
        "ties": len(differences) - wins - losses, "missing": missing,
        "undefined": group.undefined(name, run, base),
    })  # fmt: skip
    return queries if units is None else np.unique(units), influence


def _predicted(
    group: Group, rows: Array, human: Array, judge: Array, other: Array
) -> tuple[dict[str, float], Predicted]:
    """Return moments and their estimate; `human` is NaN where people did not judge the query."""
    np = numpy()
    known = ~np.isnan(judge)
    both, others = known & ~np.isnan(human), known & other
    values = {
        "d": np.where(both, human, 0.0), "j": np.where(both, judge, 0.0),
        "o": np.where(others, judge, 0.0),
    }  # fmt: skip
    weights = 1.0 if group.weights is None else group.weights[rows]
    weight = {"w": np.where(both, weights, 0.0), "v": np.where(others, weights, 0.0)}
    sums, letters = PREDICTED.of(values, weight, of_rows(group.units, rows))
    return {**sums, "mx": 0.0, "rxx": 0.0}, predicted(sums, letters)
