"""Rows of results from values by people for some queries and predicted ones for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.stats._arrays import Array, np
from polars_rank.stats.estimate import ONE_UNIT, Estimate, Facts, two_sided
from polars_rank.stats.result_columns import COUNT, ResultColumn
from polars_rank.stats.rows import ResultRows, outcomes
from polars_rank.stats.values import Group, Key

#: Prefix of columns of values by people, beside predicted ones. Without a name, whether people
#: judged the query.
HUMAN = OWN + "human "
#: Below this p-value, judged queries are not a random sample.
_SELECTIVE = 0.001
PREDICTIONS = (
    ResultColumn("predicted", "number of other queries, with predicted values only",
                 lambda r: r.rows.count("others"), pl.Int64(), COUNT),
    ResultColumn("judge_weight", "weight λ of the predicted values",
                 lambda r: r.rows.count("judge_weight")),
    ResultColumn("effective_queries",
                 "number of judged queries alone that would give the same standard error",
                 lambda r: r.rows.count("effective_queries")),
)  # fmt: skip


def predicted(
    human: Array, judge: Array, is_other: Array, facts: Facts, *, weight: Array | None,
    unit: Array, is_clustered: bool, is_difference: bool = False,
) -> tuple[Estimate, Array, Array, dict[str, float]]:  # fmt: skip
    """Return an estimate from values by people for some queries and by a judge for all.

    For n queries that people judged, with the values H and J by people and by the judge, and N
    other queries with values J only, the estimate is

        mean(H - λJ over the judged queries) + λ · mean(J over the others)

    (Angelopoulos, Duchi & Zrnic, PPI++: Efficient prediction-powered inference, 2023). It is
    unbiased for any λ if the judged queries are a random sample. The best λ is
    cov(H, J) / ((1 + n/N) · var(J)). Also return the numbers of the units, which `unit` has for
    each query, their influence values, and numbers for the result. Unknown values are NaN.
    """
    known = ~np.isnan(judge)
    both, others = known & ~np.isnan(human), known & is_other

    def part(x: Array, rows: Array) -> tuple[Estimate, Array, Array]:
        found, influence, numbers = Estimate.of(
            x[rows], facts, weight=None if weight is None else weight[rows],
            unit=unit[rows] if is_clustered else None, is_difference=is_difference,
        )  # fmt: skip
        return found, influence[0], unit[rows] if numbers is None else numbers

    alone, influence, units = part(human, both)
    judged, of_judged, _ = part(judge, both)
    other, of_other, other_units = part(judge, others)
    variance = part(judge, both | others)[0].std ** 2
    w = np.ones(both.sum()) if weight is None else weight[both]
    products = w @ ((human[both] - alone.mean) * (judge[both] - judged.mean)) / w.sum()
    slope = products / ((1 + alone.n / other.n) * variance)
    best = np.clip(np.where(both.any() & others.any() & (variance > 0), slope, 0.0), 0.0, 1.0)
    apart = np.sqrt(of_judged @ of_judged + of_other @ of_other)
    p_value = two_sided(alone.effective - 1, np.abs(judged.mean - other.mean) / apart)
    counts = {
        "judge_weight": float(best[0]), "others": int(others.sum()),
        "effective_queries": float(alone.n[0]),
        "is_selective": bool((apart > 0) & (p_value < _SELECTIVE)),
    }  # fmt: skip
    if not best[0]:
        return alone, influence, units, counts
    rest, of_rest, _ = part(human - best * judge, both)
    shared = np.union1d(units, other_units)
    parts = np.zeros((2, len(shared)))
    parts[0, np.searchsorted(shared, units)] = of_rest
    parts[1, np.searchsorted(shared, other_units)] = best * of_other
    n, total = rest.effective, parts.sum(axis=0)
    factor = np.where(n > 1 + ONE_UNIT, n / (n - 2), np.nan)
    of_others = np.where(other.effective > ONE_UNIT, other.error**2, variance / other.n)
    square = (of_rest @ of_rest + 2 * parts[0] @ parts[1]) * factor + best**2 * of_others
    # Few queries on which the judge is right do not show that it always is: for proportions, half
    # a query is added on which it is wrong, in each direction.
    half = 0.5 / n**2
    of_human = (influence @ influence + half) * n / (n - 1)
    queries = n * of_human / (square + half * (1 + best**2) * factor)
    mean, degrees = rest.mean + best * other.mean, rest.degrees - 1
    combined = replace(
        alone, mean=mean, square=alone.square - alone.mean**2 + mean**2,
        error=np.sqrt(np.maximum(square, 0.0)), degrees=degrees,
        acceleration=np.array([np.sum(total**3) / np.sum(total**2) ** 1.5 / 6]),
        share_units=np.fmax(n, queries), sample=np.full(1, None),
        share_degrees=alone.share_degrees if is_difference else degrees,
    )  # fmt: skip
    counts["effective_queries"] = float((alone.n * alone.error**2 / square)[0])
    return combined, total, shared, counts


def rows_of_predictions(
    rows: ResultRows,
    group: Group,
    facts: Mapping[str, Facts],
    pairs: Sequence[Any] | None,
    baseline: Any,
) -> None:
    """Add a row for each metric and run, or with a baseline for each pair of runs, of a group."""
    is_human, weights = group.column(HUMAN) == 1, group.weights
    compared = [] if pairs is None else group.pairs(pairs, baseline)
    add = rows.families_of(group, compared)
    group.check_unique()

    def estimate(places: Array, queries: Array, human: Array, judge: Array, other: Array) -> Any:
        unit = queries if group.units is None else group.units[places]
        weight = np.ones(len(places)) if weights is None else weights[places]
        counts = weight > 0
        return predicted(
            human[counts], judge[counts], other[counts], facts[name],
            weight=None if weights is None else weight[counts], unit=unit[counts],
            is_clustered=group.units is not None, is_difference=pairs is not None,
        )  # fmt: skip

    for name, is_lower in group.source.lower_is_better.items():
        human, judge = group.column(HUMAN + name), group.column(name)
        for run, of_run in group.rows.items() if pairs is None else ():
            made, _, _, counts = estimate(
                of_run, of_run, human[of_run], judge[of_run], ~is_human[of_run]
            )
            undefined = group.undefined(name, of_run[is_human[of_run]])
            rows.add(Key(group.key, name, run), facts[name], made, undefined=undefined, **counts)
        for pair in compared:
            run, base = pair.rows, pair.of_baseline
            both, other = is_human[run] & is_human[base], ~(is_human[run] | is_human[base])
            differences = np.where(both, human[run] - human[base], np.nan)
            made, influence, units, counts = estimate(
                run, pair.queries, differences, judge[run] - judge[base], other
            )
            own = np.where(both, human[run], np.nan)
            of_run = estimate(run, pair.queries, own, judge[run], other)[0]
            key = Key(group.key, name, pair.run, pair.baseline)
            add(key, units, influence)
            rows.add(
                key, facts[name], replace(made, base=of_run.mean - made.mean), missing=0,
                undefined=group.undefined(name, run[both], base[both]), **counts,
                **outcomes(differences[~np.isnan(differences)], is_lower=is_lower),
            )  # fmt: skip
