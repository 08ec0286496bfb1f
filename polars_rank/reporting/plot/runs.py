"""Runs in pictures: their names, and the colour, dash and shape that each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank.columns import check_there
from polars_rank.errors import ArgumentError, DataError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Colors: TypeAlias = Mapping[Any, str]


class _Unsaid(str):
    """A default that can be told from the same text given by the caller."""

    __slots__ = ()


#: The column of runs, if there is one.
RUN: str = _Unsaid("run")

#: Of Okabe & Ito, Color universal design, 2008, without black and yellow, of which each is not to
#: be seen on one kind of page; those that stand out most from both first.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
#: Of the baseline, of a chart without runs' names, and of lines that are no run's.
NEUTRAL = "#808080"
#: As many dashes as have no divisor in common with the colours: a pair of both is one run's alone.
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
#: How many runs a chart can tell apart, beside a baseline.
MOST = len(PALETTE) * len(DASHES)

_NULL = "null"


@dataclass(frozen=True)
class Runs:
    """The runs of a chart in order, the baseline first: names, colours, dashes and shapes."""

    labels: tuple[str, ...]
    colors: tuple[str, ...]
    dashes: tuple[Sequence[int], ...]
    shapes: tuple[str, ...]

    @classmethod
    def of(cls, labels: Iterable[str], baseline: Any = None, colors: Colors | None = None) -> Runs:
        """Return the runs of these names, in their order but for the baseline."""
        names = [*dict.fromkeys(labels)]
        others = [name for name in names if baseline is None or name != label_of(baseline)]
        first = [name for name in names if name not in others]
        if len(others) > MOST:
            message = (
                f"there are {len(others):,} runs, of which a chart can tell at most {MOST} apart; "
                "leave some out, as with .filter(pl.col('run').is_in([...]))"
            )
            raise ArgumentError(message)
        chosen = _checked(colors)
        places = range(len(others))
        automatic = [NEUTRAL] * len(first) + [PALETTE[i % len(PALETTE)] for i in places]
        return cls(
            (*first, *others),
            tuple(chosen.get(n, c) for n, c in zip([*first, *others], automatic, strict=True)),
            (*([DASHES[0]] * len(first)), *(DASHES[i % len(DASHES)] for i in places)),
            (*([SHAPES[0]] * len(first)), *(SHAPES[i % len(SHAPES)] for i in places)),
        )

    @property
    def several(self) -> bool:
        """Whether there is something to tell apart."""
        return len(self.labels) > 1

    def color_of(self, label: str) -> str:
        """Return the colour of a run."""
        return self.colors[self.labels.index(label)]

    def called(self, rename: Callable[[str], str]) -> Runs:
        """Return the same runs under other names."""
        return Runs(tuple(map(rename, self.labels)), self.colors, self.dashes, self.shapes)


def run_colors(
    runs: Iterable[Any], *, baseline: Any = None, colors: Colors | None = None
) -> dict[Any, str]:
    """Colour of each run: that which all charts of the same runs give it.

    Parameters
    ----------
    runs
        Names of runs, in any order.
    baseline
        The run that the others are compared with, which is grey.
    colors
        Colours of some of them, which are kept.

    Returns
    -------
    dict
        From run to colour, to be given to charts of some of the runs as `colors`.

    Raises
    ------
    ArgumentError
        For more runs than a chart can tell apart, or a colour that is no text.

    References
    ----------
    Okabe & Ito, Color universal design, 2008.

    Examples
    --------
    >>> pr.plot.run_colors(["neural", "bm25"], baseline="bm25")
    {'bm25': '#808080', 'neural': '#0072B2'}
    """
    given = {label_of(run): run for run in runs}
    found = Runs.of(sorted(given), baseline, colors)
    return {given[label]: color for label, color in zip(found.labels, found.colors, strict=True)}


def label_of(run: Any) -> str:
    """Return the name of a run, as charts write it."""
    if run is None:
        return _NULL
    if isinstance(run, bool):
        return str(run).lower()
    return run if isinstance(run, str) else str(run)


def run_column(schema: pl.Schema, run: str | None, *others: str) -> str | None:
    """Return the column of runs: None where nobody named one and there is none."""
    if run is None or (run is RUN and run not in schema):
        return None
    if not isinstance(run, str):
        message = f"`run` must be the name of a column; found {run!r}"
        raise ArgumentError(message)
    check_there("run", run, schema)
    if schema[run].is_nested():
        message = f"column {run!r} (`run`) must hold one name per row; found {schema[run]}"
        raise SchemaError(message)
    if run in others:
        message = f"the column {run!r} is named by `run` and by another parameter; leave one"
        raise ArgumentError(message)
    return run


def labelled(
    table: pl.DataFrame,
    columns: Sequence[str],
    *,
    baseline: Any = None,
    colors: Colors | None = None,
    needed: bool = False,
) -> tuple[pl.DataFrame, Runs]:
    """Return a table with the names of its runs in the column "run", and the runs.

    Runs are told by `columns`; none of them means one run without a name. With `needed`, a baseline
    that is not there is an error.
    """
    if not columns:
        named = table.with_columns(pl.lit("").alias("run"))
        return named, Runs.of([""], None, {"": (colors or {}).get("", PALETTE[0])})
    parts = [_text(table.get_column(name)) for name in columns]
    label = pl.concat_str(parts, separator=" · ")  # noqa: RUF001
    order = table.select(columns).with_columns(label.alias("run")).unique()
    order = order.sort(columns if len(columns) > 1 else columns[0], nulls_last=True)
    runs = Runs.of(order.get_column("run"), baseline, colors)
    if needed and baseline is not None and label_of(baseline) not in runs.labels:
        there = ", ".join(map(repr, runs.labels[:10])) or "no rows at all"
        message = f"there is no run {baseline!r} in the column {columns[0]!r}; there are {there}"
        raise DataError(message)
    return table.with_columns(label.alias("run")), runs


def _text(names: pl.Series) -> pl.Series:
    """Return names as text, a null as one that no other name is."""
    text = names.cast(pl.String)
    if not text.null_count():
        return text
    return text.fill_null(f"({_NULL})" if _NULL in text else _NULL)


def _checked(colors: Colors | None) -> dict[str, str]:
    if colors is None:
        return {}
    if not isinstance(colors, Mapping):
        message = f"`colors` must be a mapping from runs to colours; found {colors!r}"
        raise ArgumentError(message)
    for run, color in colors.items():
        if not isinstance(color, str) or not color.strip():
            message = f"`colors` must name a colour, as '#0072B2', for {run!r}; found {color!r}"
            raise ArgumentError(message)
    return {label_of(run): color for run, color in colors.items()}
