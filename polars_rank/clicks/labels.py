"""Labels from user actions on a document: expressions for `with_columns(label=...)`.

The label is null if the document was not shown, and 0 if it was shown but the user did not act on
it. These labels are not corrected for position bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from polars_rank._params import is_number, number, public
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.frames.ids import common_type
from polars_rank.metrics.user_columns import checked_numbers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["clicked", "graded", "graded_dwell", "satisfied"]

#: Labels that fit in an Int8.
_INT8 = range(-128, 128)


@public
def clicked(click: str = "click", *, position: str = "position") -> pl.Expr:
    """Label clicked documents 1 and other documents 0.

    Parameters
    ----------
    click
        Column of clicks: Boolean, or the number of clicks.
    position
        Column with the position at which the document was shown; null if it was not shown.
        Default: "position", if the table has that column.

    Returns
    -------
    Expr
        0 or 1 for each row, Int8; null if the document was not shown or `click` is null.

    Raises
    ------
    SchemaError, DataError
        If `click` is not numeric or is negative; raised when the expression is evaluated.

    Notes
    -----
    Documents near the top are clicked far more often than those below them, whatever their
    relevance. `pr.clicks.coec` and `pr.clicks.position_bias` correct for the position.

    References
    ----------
    Joachims et al., Accurately interpreting clickthrough data as implicit feedback, 2005.

    Examples
    --------
    >>> log = pl.DataFrame({"position": [1, 2, None], "click": [True, False, None]})
    >>> log.with_columns(label=pr.clicks.clicked())
    shape: (3, 3)
    ┌──────────┬───────┬───────┐
    │ position ┆ click ┆ label │
    │ ---      ┆ ---   ┆ ---   │
    │ i64      ┆ bool  ┆ i8    │
    ╞══════════╪═══════╪═══════╡
    │ 1        ┆ true  ┆ 1     │
    │ 2        ┆ false ┆ 0     │
    │ null     ┆ null  ┆ null  │
    └──────────┴───────┴───────┘
    """
    return _label(checked_numbers("click", click, whole=True) > 0, position)


@public
def satisfied(dwell: str = "dwell", seconds: float = 30, *, position: str = "position") -> pl.Expr:
    """Label documents 1 if the user stayed on them for at least some seconds, else 0.

    Parameters
    ----------
    dwell
        Numeric column with the seconds that the user spent on the document; null or NaN without a
        click. Convert a Duration with `.dt.total_seconds(fractional=True)`.
    seconds
        Shortest dwell time of a satisfied user, 0 or more. According to Kim et al., a single
        threshold for all queries is crude, because dwell time depends on the length of the
        document.
    position
        Column with the position at which the document was shown; null if it was not shown.
        Default: "position", if the table has that column.

    Returns
    -------
    Expr
        0 or 1 for each row, Int8; null if the document was not shown. The column of clicks is not
        read: a document without a click has no dwell time.

    Raises
    ------
    SchemaError, DataError
        If `dwell` is not numeric or is negative; raised when the expression is evaluated.

    References
    ----------
    Fox et al., Evaluating implicit measures to improve web search, 2005; Kim et al., Modeling
    dwell time to predict click-level satisfaction, 2014.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "position": [1, 2, 3, None], "dwell": [30.0, 4.0, None, None],
    ... })
    >>> log.with_columns(label=pr.clicks.satisfied(seconds=30))
    shape: (4, 3)
    ┌──────────┬───────┬───────┐
    │ position ┆ dwell ┆ label │
    │ ---      ┆ ---   ┆ ---   │
    │ i64      ┆ f64   ┆ i8    │
    ╞══════════╪═══════╪═══════╡
    │ 1        ┆ 30.0  ┆ 1     │
    │ 2        ┆ 4.0   ┆ 0     │
    │ 3        ┆ null  ┆ 0     │
    │ null     ┆ null  ┆ null  │
    └──────────┴───────┴───────┘
    """
    _at_least_zero("seconds", seconds)
    satisfied = checked_numbers("dwell", dwell) >= seconds
    return _label(satisfied.fill_null(value=False), position)


@public
def graded_dwell(
    grades: Mapping[float, float], dwell: str = "dwell", *, position: str = "position"
) -> pl.Expr:
    """Grade documents by dwell time.

    Parameters
    ----------
    grades
        Mapping from each grade to the shortest dwell time in seconds, 0 or more: with `{1: 0,
        2: 10, 3: 30, 4: 120}`, any click has grade 1 and a click of two minutes or more has grade
        4.
    dwell
        Numeric column with the seconds that the user spent on the document; null or NaN without a
        click. Convert a Duration with `.dt.total_seconds(fractional=True)`.
    position
        Column with the position at which the document was shown; null if it was not shown.
        Default: "position", if the table has that column.

    Returns
    -------
    Expr
        A grade for each row, Int8 if all grades are integers, else Float64; 0 without a click or if
        the dwell time is too short for any grade; null if the document was not shown.

    Raises
    ------
    ArgumentError
        If `grades` is empty, or a higher grade does not need a longer dwell time.
    SchemaError, DataError
        If `dwell` is not numeric or is negative; raised when the expression is evaluated.

    References
    ----------
    Kim et al., Modeling dwell time to predict click-level satisfaction, 2014.

    Examples
    --------
    >>> log = pl.DataFrame({"dwell": [None, 3.0, 10.0, 500.0]})
    >>> grades = pr.clicks.graded_dwell({1: 0, 2: 10, 3: 30, 4: 120})
    >>> log.with_columns(label=grades)
    shape: (4, 2)
    ┌───────┬───────┐
    │ dwell ┆ label │
    │ ---   ┆ ---   │
    │ f64   ┆ i8    │
    ╞═══════╪═══════╡
    │ null  ┆ 0     │
    │ 3.0   ┆ 1     │
    │ 10.0  ┆ 2     │
    │ 500.0 ┆ 4     │
    └───────┴───────┘
    """
    _check_mapping(grades)
    steps = _sorted_grades(grades.keys())
    for grade, seconds in grades.items():
        _at_least_zero(f"grades[{grade!r}]", seconds)
    for low, high in pairwise(steps):
        if not grades[low] < grades[high]:
            raise ArgumentError(
                f"in `grades`, a higher grade must need more seconds; found {grades[high]!r} for "
                f"grade {high!r} and {grades[low]!r} for grade {low!r}"
            )
    stayed = checked_numbers("dwell", dwell)
    label = _highest((grade, stayed >= grades[grade]) for grade in steps).fill_null(0)
    return _label(label, position, steps)


@public
def graded(
    grades: Mapping[str, float], *, event: str | None = None, position: str = "position"
) -> pl.Expr:
    """Grade documents by the user events on them; the highest grade counts.

    Parameters
    ----------
    grades
        Mapping from each event to its grade: `{"view": 0, "click": 1, "cart": 2, "purchase": 4}`.
        Without `event`, the keys are the names of Boolean or count columns of a table with one row
        per impression.
    event
        Column with the name of the event, for a table with one row per event. Its values are the
        keys of `grades`; other values have no grade.
    position
        Column with the position at which the document was shown; null if it was not shown.
        Default: "position", if the table has that column.

    Returns
    -------
    Expr
        A grade for each row, Int8 if all grades are integers, else Float64; null if the document
        was not shown. A row without any of the events has grade 0. If `grades` includes an event
        of grade 0 or less, such as a view, such a row counts as not shown.

    Raises
    ------
    ArgumentError
        If `grades` is empty or a grade is not a number.
    SchemaError, DataError
        If a column of events is not numeric or is negative, or if the type of the `event` column
        does not match the keys of `grades`; raised when the expression is evaluated.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "click": [True, True, False], "cart": [0, 2, 0],
    ...     "purchase": [False, True, False],
    ... })
    >>> grades = pr.clicks.graded({"click": 1, "cart": 2, "purchase": 4})
    >>> log.with_columns(label=grades)
    shape: (3, 4)
    ┌───────┬──────┬──────────┬───────┐
    │ click ┆ cart ┆ purchase ┆ label │
    │ ---   ┆ ---  ┆ ---      ┆ ---   │
    │ bool  ┆ i64  ┆ bool     ┆ i8    │
    ╞═══════╪══════╪══════════╪═══════╡
    │ true  ┆ 0    ┆ false    ┆ 1     │
    │ true  ┆ 2    ┆ true     ┆ 4     │
    │ false ┆ 0    ┆ false    ┆ 0     │
    └───────┴──────┴──────────┴───────┘
    >>> events = pl.DataFrame({
    ...     "doc": [1, 1, 2], "action": ["view", "purchase", "view"],
    ... })
    >>> grades = pr.clicks.graded({"view": 0, "purchase": 4}, event="action")
    >>> events.group_by("doc", maintain_order=True).agg(label=grades.max())
    shape: (2, 2)
    ┌─────┬───────┐
    │ doc ┆ label │
    │ --- ┆ ---   │
    │ i64 ┆ i8    │
    ╞═════╪═══════╡
    │ 1   ┆ 4     │
    │ 2   ┆ 0     │
    └─────┴───────┘
    """
    _check_mapping(grades)
    steps = _sorted_grades(grades.values())
    names = pl.Series([*grades]).dtype
    by_grade = sorted(grades, key=lambda name: grades[name])

    def happened(name: str) -> pl.Expr:
        if event is None:
            return checked_numbers("grades", name) > 0
        cast = partial(_cast, event, names)
        return pl.col(event).map_batches(cast, return_dtype=names, is_elementwise=True) == name

    label = _highest((grades[name], happened(name)) for name in by_grade)
    return _label(label if steps[0] <= 0 else label.fill_null(0), position, steps)


def _label(label: pl.Expr, position: str, grades: Iterable[float] = (0, 1)) -> pl.Expr:
    """Return the label in the smallest type for the grades; null if the document was not shown."""
    small = all(isinstance(grade, int) and grade in _INT8 for grade in grades)
    # In a table without positions, all documents count as shown.
    has_position = cs.by_name(position, require_all=position != "position").is_not_null()
    shown = pl.all_horizontal(pl.lit(value=True), has_position)
    return pl.when(shown).then(label).cast(pl.Int8 if small else pl.Float64).alias("label")


def _cast(event: str, names: pl.DataType, values: pl.Series) -> pl.Series:
    """Cast events to the type of the names; raise `SchemaError` if the types do not match."""
    if common_type(names, values.dtype) is None:
        raise SchemaError(
            f"column {event!r} (`event`) must have the type of the keys of `grades`, {names}; "
            f"found {values.dtype}; omit `event` if each event has its own column"
        )
    return values.cast(names)


def _highest(steps: Iterable[tuple[float, pl.Expr]]) -> pl.Expr:
    """Return the last grade whose condition is true; null if no condition is true."""
    label: pl.Expr = pl.lit(None)
    for grade, condition in steps:
        label = pl.when(condition).then(pl.lit(grade)).otherwise(label)
    return label


def _check_mapping(grades: object) -> None:
    if not isinstance(grades, Mapping):
        raise ArgumentError(f"`grades` must be a mapping, such as a dict; found {grades!r}")


def _sorted_grades(grades: Collection[float]) -> list[float]:
    """Return the sorted grades; raise `ArgumentError` if there are none or not all numbers."""
    if not grades or not all(map(is_number, grades)):
        raise ArgumentError(
            f"`grades` must have at least one grade, all numbers; found {list(grades)}"
        )
    return sorted(grades)


def _at_least_zero(parameter: str, value: float) -> None:
    if number(parameter, value, "of seconds") < 0:
        raise ArgumentError(f"`{parameter}` must be 0 or more seconds; found {value!r}")
