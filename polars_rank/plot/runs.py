"""Runs in pictures: their names, and the colour, dash and shape that each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank._params import OWN, check_there
from polars_rank.columns import RUN
from polars_rank.errors import ArgumentError, DataError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Colors: TypeAlias = Mapping[Any, str]


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

_NULL, _GROUP = "null", OWN + "run "
#: Unicode's word joiner, which has no width.
_JOINER = "\u2060"


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
                "leave some out"
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
    def named(self) -> bool:
        """Whether the runs have names: not where nothing tells them apart."""
        return self.labels != ("",)

    @property
    def several(self) -> bool:
        """Whether there is something to tell apart."""
        return len(self.labels) > 1

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
    return str(run).lower() if isinstance(run, bool) else harmless(str(run))


def harmless(text: str) -> str:
    """Return text that ends no script it may stand in, with what is not seen in between.

    Altair writes data as they are into the script of a page: a query that somebody typed, too.
    """
    return text.replace("</", f"<{_JOINER}/").replace("<!", f"<{_JOINER}!")


def harmless_text(text: pl.Expr) -> pl.Expr:
    """Return such text for a column."""
    return text.str.replace_all("<([/!])", f"<{_JOINER}$1")


def harmless_texts(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with such text only."""
    return table.with_columns(harmless_text(pl.col(pl.String)))


def run_columns(schema: pl.Schema, run: str | None, *others: str) -> list[str]:
    """Return the column of runs; none where nobody named one and there is none."""
    if run is None or (run is RUN and run not in schema):
        return []
    if not isinstance(run, str):
        message = f"`run` must be the name of a column; found {run!r}"
        raise ArgumentError(message, "run")
    if run in others:
        message = f"the column {run!r} is named by `run` and by another parameter; leave one"
        raise ArgumentError(message, "run")
    return columns_of_runs("run", [run], schema)


def columns_of_runs(parameter: str, columns: Sequence[str], schema: pl.Schema) -> list[str]:
    """Return the columns that tell runs apart; raise where they cannot."""
    for name in columns:
        check_there(parameter, name, schema)
        if schema[name].is_nested():
            message = (
                f"column {name!r} (`{parameter}`) must hold one name per row; found {schema[name]}"
            )
            raise SchemaError(message, parameter)
    return [*columns]


def groups(columns: Sequence[str]) -> list[pl.Expr]:
    """Return the columns of runs under names of our own, for `labelled`."""
    return [pl.col(name).alias(f"{_GROUP}{place}") for place, name in enumerate(columns)]


def grouped(names: Iterable[str]) -> list[str]:
    """Return those columns that `groups` has made."""
    return [name for name in names if name.startswith(_GROUP)]


def labelled(
    table: pl.DataFrame,
    *,
    baseline: Any = None,
    colors: Colors | None = None,
    needed: bool = False,
) -> tuple[pl.DataFrame, Runs]:
    """Return a table with the names of its runs in the column "run", and the runs.

    Runs are told apart by what `groups` has made; without it, there is one without a name. With
    `needed`, a baseline that is not there is an error.
    """
    columns = grouped(table.columns)
    if not columns:
        if needed and baseline is not None:
            message = (
                f"`baseline` is {baseline!r}, but there is no column of runs; name it with `run`"
            )
            raise ArgumentError(message, "baseline", "run")
        named = table.with_columns(pl.lit("").alias("run"))
        return named, Runs.of([""], None, {"": PALETTE[0]})
    label = pl.concat_str([_text(table.get_column(name)) for name in columns], separator=" · ")
    order = table.select(*columns, label.alias("run")).unique()
    order = order.sort(columns, nulls_last=True)
    runs = Runs.of(order.get_column("run"), baseline, colors)
    if needed and baseline is not None and label_of(baseline) not in runs.labels:
        there = ", ".join(map(repr, runs.labels[:10])) or "no rows at all"
        message = f"there is no run {baseline!r}, which `baseline` names; there are {there}"
        raise DataError(message, "baseline")
    return table.with_columns(label.alias("run")).drop(columns), runs


def _text(names: pl.Series) -> pl.Series:
    """Return names as text, a null as one that no other name is."""
    text = names.cast(pl.String).str.replace_all("<([/!])", f"<{_JOINER}$1")
    if not text.null_count():
        return text
    return text.fill_null(f"({_NULL})" if _NULL in text else _NULL)


def _checked(colors: Colors | None) -> dict[str, str]:
    if colors is None:
        return {}
    if not isinstance(colors, Mapping):
        message = f"`colors` must be a mapping from runs to colours; found {colors!r}"
        raise ArgumentError(message, "colors")
    for run, color in colors.items():
        if not isinstance(color, str) or not color.strip():
            message = f"`colors` must name a colour, as '#0072B2', for {run!r}; found {color!r}"
            raise ArgumentError(message, "colors")
    return {label_of(run): color for run, color in colors.items()}
