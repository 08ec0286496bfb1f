"""Measure false alarms of a gate that looks every night for a year.

    python -m tests.benchmarks.nightly [--years 400] [--output FILE]

Every night has new queries, and the gate compares all queries so far with the release. Each year is
a group of a table of moments with a row per night, so that all looks of all years are one call of
`compare`. The tables are in nightly.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import polars_rank as pr
from polars_rank.stats.moment_tables import DIFFERENCE
from polars_rank.stats.sequences import ConfidenceSequence, is_early
from tests.benchmarks.pages import publish

if TYPE_CHECKING:
    from collections.abc import Callable

NIGHTS = 365
QUERIES = (50, 500)
#: Nights between looks of sequences with bounds, which read all values at each look.
WEEK = 7
BASE, NEW = "release", "new"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.nightly", description=__doc__)
    parser.add_argument("--years", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


def exchangeable(
    draw: Callable[[Any, tuple[int, ...]], Any],
) -> Callable[[Any, tuple[int, ...]], Any]:
    """Return draws of differences between two runs, which agree on half of the queries."""
    return lambda random, size: (
        (draw(random, size) - draw(random, size)) * (random.random(size) < 0.5)
    )


def beta(random: Any, size: tuple[int, ...]) -> Any:
    return random.beta(0.7, 0.7, size)


def hit(random: Any, size: tuple[int, ...]) -> Any:
    return (random.random(size) < 0.02) * 1.0


#: Draws of differences within [-1, 1] or not, and their mean.
DIFFERENCES: dict[str, tuple[Callable[..., Any], float, bool]] = {
    "NDCG: beta(0.7, 0.7)": (exchangeable(beta), 0.0, True),
    "0 or 1, at 2% in both runs": (exchangeable(hit), 0.0, True),
    "0 or 1, 2% lost and none gained": (lambda *given: -hit(*given), -0.02, True),
    "skewed: exponential": (lambda *given: given[0].exponential(size=given[1]) - 1, 0.0, False),
    "skewed: 5% lose 1 and 95% gain 1/19": (
        lambda *given: np.where(given[0].random(given[1]) < 0.05, -1.0, 1 / 19), 0.0, True,
    ),
}  # fmt: skip


def moments_of_nights(
    draw: Callable[..., Any], years: int, queries: int, random: Any
) -> pl.DataFrame:
    """Return moments of all queries so far, for each year and night."""
    counts = queries * np.arange(1.0, NIGHTS + 1)
    sums: dict[str, list[Any]] = {}
    for _ in range(years):
        drawn = draw(random, (NIGHTS, queries))
        powers = [np.cumsum((drawn**power).sum(axis=1)) for power in (1, 2, 3)]
        mean, square, cube = (each / counts for each in powers)
        squares = counts * (square - mean**2)
        of_year = {
            "mean": mean,
            "squares": squares,
            "cubes": counts * (cube - 3 * mean * square + 2 * mean**3),
            "wins": np.cumsum((drawn > 0).sum(axis=1)),
            "losses": np.cumsum((drawn < 0).sum(axis=1)),
        }
        for name, values in of_year.items():
            sums.setdefault(name, []).append(values)
    sizes = np.tile(counts, years)
    parts = {name: np.concatenate(values) for name, values in sums.items()}
    return _as_moments(years, sizes, parts)


def _as_moments(years: int, counts: Any, parts: dict[str, Any]) -> pl.DataFrame:
    """Return the table that `moments` would return for these sums, with 0.5 as the release."""
    two = pl.DataFrame({"run": [BASE, NEW], "query": [1, 1], "value": [0.5, 0.5]})
    template = pr.stats.moments(two.with_columns(year=0, night=0), ["value"], baseline=BASE,
                                by=["year", "night"])  # fmt: skip
    whole = counts.astype(np.int64)
    values: dict[str, Any] = {
        "year": np.repeat(np.arange(years, dtype=np.int32), NIGHTS),
        "night": np.tile(np.arange(1, NIGHTS + 1, dtype=np.int32), years),
        **dict.fromkeys(("queries", "counted", "units", "pairs"), whole),
        **dict.fromkeys(("weight", "weight_squares", "weight_cubes"), counts),
        "wins": parts["wins"], "losses": parts["losses"],
        "ties": whole - parts["wins"] - parts["losses"],
        **dict.fromkeys((DIFFERENCE + "counted", DIFFERENCE + "units"), whole),
        **{DIFFERENCE + part: counts for part in ("weight", "weight_squares", "weight_cubes")},
        DIFFERENCE + "mean": parts["mean"],
        **dict.fromkeys(
            (DIFFERENCE + "squares", DIFFERENCE + "unit_squares", DIFFERENCE + "cube_squares"),
            parts["squares"],
        ),
        DIFFERENCE + "unit_cubes": parts["cubes"],
        "run_mean": 0.5 + parts["mean"], "run_unit_squares": parts["squares"],
        "mean": 0.5 + parts["mean"],
        **dict.fromkeys(("squares", "unit_squares", "cube_squares"), parts["squares"]),
    }  # fmt: skip
    columns = pl.DataFrame(values).cast({name: template.schema[name] for name in values})
    same = ("year", "night", "queries", "counted", "units", "weight", "weight_squares")
    return pl.concat(
        template.filter(run=run)
        .drop(of_run.columns)
        .join(of_run, how="cross")
        .select(template.columns)
        for run, of_run in ((NEW, columns), (BASE, columns.select(same)))
    )


def looks(moments: pl.DataFrame, interval: str) -> pl.DataFrame:
    """Return the intervals of all nights by the function of the library."""
    result: pl.DataFrame = pr.compare(
        moments, baseline=BASE, by=["year", "night"], interval=interval, test="t",
        correction="none",
    )  # fmt: skip
    return result


def of_years(result: pl.DataFrame, alarm: pl.Expr) -> float:
    """Return the share of years with an alarm at any of the looks."""
    years = result["year"].n_unique()
    return result.filter(alarm)["year"].n_unique() / years


def early(result: pl.DataFrame) -> pl.Series:
    """Return whether `compare` warns of a row."""
    changes = result["wins"] + result["losses"]
    numbers = zip(result["queries"], result["skewness"], changes, strict=True)
    return pl.Series("early", [is_early(*each) for each in numbers], dtype=pl.Boolean)


def bounded_alarms(
    draw: Callable[..., Any], mean: float, years: int, queries: int, random: Any
) -> float:
    """Return the share of years in which the sequence with bounds excludes the mean in some week."""
    sequence = ConfidenceSequence(0.95, bounds=(-1.0, 1.0))
    alarms = 0
    for _ in range(years):
        values = pl.Series(draw(random, (NIGHTS * queries,)))
        for size in range(WEEK * queries, len(values) + 1, WEEK * queries):
            low, high = sequence.limits(sequence.sums(values.head(size)), 0.95)
            if not low <= mean <= high:
                alarms += 1
                break
    return alarms / years


def false_alarms(options: argparse.Namespace) -> list[str]:
    lines = [
        "| differences | queries per night | t | sequence | sequence, nights without a warning "
        "| first night without a warning (median) | sequence with bounds, weekly |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    random = np.random.default_rng(options.seed)
    for name, (draw, mean, bounded) in DIFFERENCES.items():
        for queries in QUERIES:
            moments = moments_of_nights(draw, options.years, queries, random)
            alarm = ~pl.lit(mean).is_between("low", "high")
            cells = [of_years(looks(moments, "auto"), alarm)]
            result = looks(moments, "sequence")
            result = result.with_columns(early(result))
            calm = result.filter(~pl.col("early"))
            first = calm.group_by("year").agg(pl.col("night").min())["night"].median()
            quiet = calm.filter(alarm)["year"].n_unique() / options.years
            cells += [of_years(result, alarm), quiet]
            shown = " | ".join(f"{each:.3f}" for each in cells)
            weekly = ""
            if bounded and queries == QUERIES[0]:
                share = bounded_alarms(draw, mean, options.years // 4, queries, random)
                weekly = f"{share:.3f}"
            lines.append(f"| {name} | {queries} | {shown} | {first:.0f} | {weekly} |")
    return lines


def detection(options: argparse.Namespace) -> list[str]:
    lines = [
        "| loss | queries per night | detected within a year | nights until then (median) "
        "| (90% of years) |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    random = np.random.default_rng(options.seed)
    null = exchangeable(beta)
    years = options.years // 4
    for loss in (0.005, 0.01, 0.02):
        for queries in QUERIES:
            moments = moments_of_nights(
                lambda random, size, loss=loss: null(random, size) - loss, years, queries, random
            )
            alarms = looks(moments, "sequence").filter(pl.col("high") < 0)
            nights = alarms.group_by("year").agg(pl.col("night").min())["night"]
            waits = [*nights, *[NIGHTS + 1] * (years - len(nights))]
            shown = [f"{each:.0f}" if each <= NIGHTS else "more than a year"
                     for each in np.quantile(waits, [0.5, 0.9], method="higher")]  # fmt: skip
            lines.append(
                f"| {loss} | {queries} | {len(nights) / years:.2f} | {' | '.join(shown)} |"
            )
    return lines


def main() -> None:
    options = arguments()
    started = time.process_time()
    warnings.simplefilter("ignore", pr.errors.RankWarning)
    error = 2 * (0.05 * 0.95 / options.years) ** 0.5
    lines = [
        "# A gate that looks every night for a year",
        "",
        f"Generated by `python -m tests.benchmarks.nightly` with {options.years:,} simulated years of "
        f"{NIGHTS} nights, each with new queries; seed {options.seed}. Every night, the differences "
        "of all queries so far have a 95% interval.",
        "",
        "## Share of years with a false alarm",
        "",
        "A false alarm is a night whose interval does not contain the true difference. A gate that "
        "holds its level has one in at most 5% of the years. `compare` warns of nights with few "
        "queries, few that differ or too much skewness: the column without these nights is what a "
        "gate gives that waits until the warning is gone. The sequence with bounds looks once a week "
        f"in {options.years // 4:,} years. By chance, shares near 0.05 move by {error:.3f} either "
        "way (two standard errors).",
        "",
        *false_alarms(options),
        "",
        "## Nights until the sequence shows a loss",
        "",
        f"NDCG, with the same loss in all queries, in {options.years // 4:,} years. The loss is "
        "shown when the interval is below 0.",
        "",
        *detection(options),
        "",
        f"It took {time.process_time() - started:.0f} s of CPU time.",
    ]
    publish("\n".join(lines) + "\n", options.output)


if __name__ == "__main__":
    main()
