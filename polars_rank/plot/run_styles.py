"""The runs of a chart: names, colors, dash patterns and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank._params import OWN
from polars_rank._texts import visible
from polars_rank.columns import RUN, Columns
from polars_rank.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

Colors: TypeAlias = Mapping[Any, str]


#: The colors of higher and of lower values, which color-blind readers can distinguish.
HIGHER, LOWER = "#009E73", "#CC3311"
#: Colors of runs: neither green nor red, which stand for better and worse. Color-blind readers can
#: distinguish them, and those with the best contrast on light and dark backgrounds come first.
PALETTE = ("#0072B2", "#C48200", "#8A4FE0", "#D173A6", "#3FA9C9", "#8A5E3B")
#: The color of the baseline and of lines that belong to no run.
NEUTRAL = "#808080"
#: The same hues, brighter, for dark backgrounds.
BRIGHTER = {
    "#0072B2": "#8CC8FC", "#C48200": "#FFC24D", "#8A4FE0": "#BF85EE", "#D173A6": "#FF8CBD",
    "#3FA9C9": "#D0F6FC", "#8A5E3B": "#C69771", HIGHER: "#2FD6A4", LOWER: "#FF7A66",
    NEUTRAL: "#B4BAC2",
}  # fmt: skip
#: The numbers of dash patterns and colors are coprime, so that their pairs are unique.
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
#: Maximum number of distinguishable runs in addition to a baseline.
MAX_RUNS = len(PALETTE) * len(DASHES)

_NULL, _GROUP = "null", OWN + "run "
#: Unicode's word joiner, which has no width.
_JOINER = "\u2060"


@dataclass(frozen=True)
class Runs:
    """The runs of a chart, the baseline first: names, and colors, dash patterns and shapes."""

    labels: tuple[str, ...]
    #: The values of the channels "color", "strokeDash" and "shape".
    styles: Mapping[str, Sequence[Any]]

    @classmethod
    def of(cls, labels: Iterable[str], baseline: Any = None, colors: Colors | None = None) -> Runs:
        """Return the runs in the given order, with the baseline first."""
        names = [*dict.fromkeys(labels)]
        others = [name for name in names if baseline is None or name != label_of(baseline)]
        first = [name for name in names if name not in others]
        if len(others) > MAX_RUNS:
            raise ArgumentError(
                f"a chart can have at most {MAX_RUNS} runs; found {len(others):,}; filter the table"
            )
        colors = {} if colors is None else colors
        for run, color in colors.items():
            if not isinstance(color, str) or not color.strip():
                raise ArgumentError(
                    f"must have a color such as '#0072B2' for {run!r}; found {color!r}", "colors"
                )

        def styles(of_baseline: Any, of_others: Sequence[Any]) -> list[Any]:
            cycled = [of_others[place % len(of_others)] for place in range(len(others))]
            return [of_baseline] * len(first) + cycled

        given = {label_of(run): color for run, color in colors.items()}
        defaults = zip([*first, *others], styles(NEUTRAL, PALETTE), strict=True)
        return cls((*first, *others), {
            "color": [given.get(name, color) for name, color in defaults],
            "strokeDash": styles(DASHES[0], DASHES),
            "shape": styles(SHAPES[0], SHAPES),
        })  # fmt: skip

    @property
    def named(self) -> bool:
        """Whether the runs have names; false for one series without a column of runs."""
        return self.labels != ("",)

    @property
    def several(self) -> bool:
        """Whether there is more than one run."""
        return len(self.labels) > 1


def run_colors(runs: Iterable[Any], baseline: Any = None) -> dict[Any, str]:
    """Return the color of each run, for charts of some of the runs."""
    names = {label_of(name): name for name in runs}
    drawn = Runs.of(sorted(names), baseline)
    colors = zip(drawn.labels, drawn.styles["color"], strict=True)
    return {names[label]: color for label, color in colors}


def label_of(run: Any) -> str:
    """Return the name of a run as shown in charts."""
    if run is None:
        return _NULL
    return str(run).lower() if isinstance(run, bool) else harmless(str(run))


def harmless(text: str) -> str:
    """Return visible text that cannot end a script element, by inserting invisible characters.

    Altair writes data unescaped into the script of a page, including text typed by users. Vega
    fails at line separators, and ends the process at null characters.
    """
    return visible(text).replace("</", f"<{_JOINER}/").replace("<!", f"<{_JOINER}!")


def harmless_text(text: pl.Expr) -> pl.Expr:
    """Return an expression that applies `harmless` to columns."""
    return text.map_elements(harmless, pl.String)


def run_columns(schema: pl.Schema, run: str | None, **others: str) -> list[str]:
    """Return the column of runs as a list; empty for None, or if the default column is missing."""
    return [*Columns.find(schema, {"run": run, **others}).roles[RUN]]


def groups(columns: Sequence[str]) -> list[pl.Expr]:
    """Return the columns of runs under internal names, for `labeled`."""
    return [pl.col(name).alias(f"{_GROUP}{place}") for place, name in enumerate(columns)]


def grouped(names: Iterable[str]) -> list[str]:
    """Return the columns that `groups` created."""
    return [name for name in names if name.startswith(_GROUP)]


def labeled(
    table: pl.DataFrame, baseline: Any = None, colors: Colors | None = None, separator: str = " · "
) -> tuple[pl.DataFrame, Runs]:
    """Return the table with the names of its runs in the column "run", and the runs.

    Runs are identified by the columns from `groups`, whose values are joined with a separator;
    without them, there is one run without a name. All texts of the table become `harmless`.
    """
    table = table.with_columns(harmless_text(pl.col(pl.String)))
    columns = grouped(table.columns)
    if not columns:
        if baseline is not None:
            raise ArgumentError(
                f"is {baseline!r}, but the table has no column of runs; set `run`", "baseline"
            )
        named = table.with_columns(pl.lit("").alias("run"))
        return named, Runs.of([""], None, {"": PALETTE[0]})
    parts = [run_labels(table.get_column(name)) for name in columns]
    label = pl.concat_str(parts, separator=separator)
    order = table.select(*columns, label.alias("run")).unique()
    order = order.sort(columns, nulls_last=True)
    runs = Runs.of(order.get_column("run"), baseline, colors)
    check_baseline(baseline, runs.labels)
    return table.with_columns(label.alias("run")).drop(columns), runs


def check_baseline(baseline: Any, labels: Sequence[str]) -> None:
    """Raise `DataError` if no run has the label of the baseline."""
    if baseline is not None and label_of(baseline) not in labels:
        available = ", ".join(map(repr, labels[:10])) or "none"
        raise DataError(f"run {baseline!r} (`baseline`) not found; available: {available}")


def run_labels(names: pl.Series) -> pl.Series:
    """Return names as text; null becomes a name that no run has."""
    text = names.cast(pl.String).to_frame().select(harmless_text(pl.first())).to_series()
    if not text.null_count():
        return text
    return text.fill_null(f"({_NULL})" if _NULL in text else _NULL)
