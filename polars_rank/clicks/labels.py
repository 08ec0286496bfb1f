"""Labels from what users did with one document: expressions for `with_columns(label=...)`.

A document that was not shown was not judged, and gets a null; one that was shown and left alone
gets 0. That a click says as much about the position as about the document is not corrected here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from polars_rank._params import is_number, number
from polars_rank.columns import POSITION
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.io.ids import common_type
from polars_rank.metrics.signals import checked_numbers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["clicked", "graded", "graded_dwell", "satisfied"]

#: The labels that the smallest integers hold.
_SMALL = range(-128, 128)


def clicked(click: str = "click", *, position: str = POSITION) -> pl.Expr:
    """Label a document by whether it was clicked: 1 or 0.

    Parameters
    ----------
    click
        The column that says so: a condition, or how often it was.
    position
        The column of the position where the document was shown; a null in it means that it was
        not. By default "position", if the table has it.

    Returns
    -------
    Expr
        0 or 1 for each row, Int8; null where the document was not shown, or `click` is null.

    Raises
    ------
    SchemaError, DataError
        When the column is made: for a `click` that is no number, or below 0.

    Notes
    -----
    Users click what they see: on top far more often than below, whatever stands there. See
    `pr.clicks.coec` and `pr.clicks.position_bias` for what to do about it.

    References
    ----------
    Joachims et al., Accurately interpreting clickthrough data as implicit feedback, 2005.

    Examples
    --------
    >>> log = pl.DataFrame({"position": [1, 2, None], "click": [True, False, None]})
    >>> log.select(pr.clicks.clicked()).to_series().to_list()
    [1, 0, None]
    """
    return _label(checked_numbers("click", click) > 0, position)


def satisfied(dwell: str = "dwell", seconds: float = 30, *, position: str = POSITION) -> pl.Expr:
    """Label a document by whether a click satisfied the user: who stayed for some time, did.

    Parameters
    ----------
    dwell
        The column of seconds that the user stayed with the document, a number (of a Duration, take
        `.dt.total_seconds(fractional=True)`); null (or NaN) without a click.
    seconds
        How long a user stays at least who is satisfied, 0 or more. Kim et al. find that one limit
        for all queries is crude: what takes long to read satisfies later.
    position
        The column of the position where the document was shown; a null in it means that it was
        not. By default "position", if the table has it.

    Returns
    -------
    Expr
        0 or 1 for each row, Int8; null where the document was not shown. Whether there was a click
        is not asked: a document without one has no dwell.

    Raises
    ------
    SchemaError, DataError
        When the column is made: for a `dwell` that is no number, or below 0.

    References
    ----------
    Fox et al., Evaluating implicit measures to improve web search, 2005; Kim et al., Modeling
    dwell time to predict click-level satisfaction, 2014.

    Examples
    --------
    >>> log = pl.DataFrame({"position": [1, 2, 3, None], "dwell": [30.0, 4.0, None, None]})
    >>> log.select(pr.clicks.satisfied(seconds=30)).to_series().to_list()
    [1, 0, 0, None]
    """
    _at_least_zero("seconds", seconds)
    stayed = checked_numbers("dwell", dwell) >= seconds
    return _label(stayed.fill_null(value=False), position)


def graded_dwell(
    grades: Mapping[float, float], dwell: str = "dwell", *, position: str = POSITION
) -> pl.Expr:
    """Grade a document by how long the user stayed with it.

    Parameters
    ----------
    grades
        Each grade with the seconds from which on it is given, 0 or more: `{1: 0, 2: 10, 3: 30,
        4: 120}` gives 1 to any click, and 4 to one of two minutes or more.
    dwell
        The column of seconds that the user stayed with the document, a number (of a Duration, take
        `.dt.total_seconds(fractional=True)`); null (or NaN) without a click.
    position
        The column of the position where the document was shown; a null in it means that it was
        not. By default "position", if the table has it.

    Returns
    -------
    Expr
        A grade for each row, Int8 if all are whole numbers, else Float64; 0 without a click, or
        after one too short for any grade; null where the document was not shown.

    Raises
    ------
    ArgumentError
        If there are no grades, or a higher grade does not ask for more time.
    SchemaError, DataError
        When the column is made: for a `dwell` that is no number, or below 0.

    References
    ----------
    Kim et al., Modeling dwell time to predict click-level satisfaction, 2014.

    Examples
    --------
    >>> log = pl.DataFrame({"dwell": [None, 3.0, 10.0, 500.0]})
    >>> log.select(pr.clicks.graded_dwell({1: 0, 2: 10, 3: 30, 4: 120})).to_series().to_list()
    [0, 1, 2, 4]
    """
    _check_mapping("grades", grades)
    known = _grades("grades", grades.keys())
    for grade, seconds in grades.items():
        _at_least_zero(f"grades[{grade!r}]", seconds)
    for low, high in pairwise(known):
        if not grades[low] < grades[high]:
            message = (
                f"`grades` must ask for more seconds the higher the grade; found {grades[high]!r} "
                f"for {high!r} and {grades[low]!r} for {low!r}"
            )
            raise ArgumentError(message, "grades")
    stayed = checked_numbers("dwell", dwell)
    label = _highest((grade, stayed >= grades[grade]) for grade in known).fill_null(0)
    return _label(label, position, known)


def graded(
    grades: Mapping[str, float], *, event: str | None = None, position: str = POSITION
) -> pl.Expr:
    """Grade a document by what users did with it: of several events, the highest grade counts.

    Parameters
    ----------
    grades
        Each event with its grade: `{"view": 0, "click": 1, "cart": 2, "purchase": 4}`. The events
        are columns, conditions or counts, of a table with a row per impression.
    event
        The column that names the event, of a table with a row per event; its values are the keys
        of `grades`, and others have no grade.
    position
        The column of the position where the document was shown; a null in it means that it was
        not. By default "position", if the table has it.

    Returns
    -------
    Expr
        A grade for each row, Int8 if all are whole numbers, else Float64. Without any of the
        events it is 0, unless one of grade 0 or less is named, such as a view: a document of which
        not even that is known was not shown. Null where the document was not shown.

    Raises
    ------
    ArgumentError
        If there are no grades, or one is not a number.
    SchemaError, DataError
        When the column is made: for columns of events that are no numbers, or below 0, and for an
        `event` that holds nothing like the keys of `grades`.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "click": [True, True, False], "cart": [0, 2, 0], "purchase": [False, True, False]
    ... })
    >>> log.select(pr.clicks.graded({"click": 1, "cart": 2, "purchase": 4})).to_series().to_list()
    [1, 4, 0]
    >>> events = pl.DataFrame({"doc": [1, 1, 2], "action": ["view", "purchase", "view"]})
    >>> label = pr.clicks.graded({"view": 0, "click": 1, "purchase": 4}, event="action")
    >>> events.group_by("doc", maintain_order=True).agg(label=label.max()).rows()
    [(1, 4), (2, 0)]
    """
    _check_mapping("grades", grades)
    known = _grades("grades", grades.values())
    names = pl.Series([*grades]).dtype
    by_grade = sorted(grades, key=lambda name: grades[name])

    def happened(name: str) -> pl.Expr:
        if event is None:
            return checked_numbers("grades", name) > 0
        alike = partial(_alike, event, names)
        return pl.col(event).map_batches(alike, return_dtype=names, is_elementwise=True) == name

    label = _highest((grades[name], happened(name)) for name in by_grade)
    return _label(label if known[0] <= 0 else label.fill_null(0), position, known)


def _label(label: pl.Expr, position: str, grades: Iterable[float] = (0, 1)) -> pl.Expr:
    """Return the label of documents that were shown, in the smallest type that holds the grades."""
    small = all(isinstance(grade, int) and grade in _SMALL for grade in grades)
    # Of a table that does not say where documents were shown, all were.
    known = cs.by_name(position, require_all=position is not POSITION).is_not_null()
    shown = pl.all_horizontal(pl.lit(value=True), known)
    return pl.when(shown).then(label).cast(pl.Int8 if small else pl.Float64).alias("label")


def _alike(event: str, names: pl.DataType, values: pl.Series) -> pl.Series:
    """Return events in the type of the names that they have; raise `SchemaError` if that fails."""
    if common_type(names, values.dtype) is None:
        message = (
            f"column {event!r} (`event`) must hold what the keys of `grades` are, {names}; found "
            f"{values.dtype}; for events that have a column each, leave `event` out"
        )
        raise SchemaError(message, "event", "grades")
    return values.cast(names)


def _highest(steps: Iterable[tuple[float, pl.Expr]]) -> pl.Expr:
    """Return the last grade whose condition holds; null if none does."""
    label: pl.Expr = pl.lit(None)
    for grade, condition in steps:
        label = pl.when(condition).then(pl.lit(grade)).otherwise(label)
    return label


def _check_mapping(parameter: str, grades: object) -> None:
    if not isinstance(grades, Mapping):
        message = f"`{parameter}` must be a mapping, such as a dict; found {grades!r}"
        raise ArgumentError(message, parameter)


def _grades(parameter: str, grades: Collection[float]) -> list[float]:
    """Return the grades in order; raise `ArgumentError` unless there are some, all numbers."""
    if not grades or not all(map(is_number, grades)):
        message = f"`{parameter}` must have a number for each grade; found {list(grades)}"
        raise ArgumentError(message, parameter)
    return sorted(grades)


def _at_least_zero(parameter: str, value: float) -> None:
    if number(parameter, value, "of seconds") < 0:
        message = f"`{parameter}` must be 0 or more seconds; found {value!r}"
        raise ArgumentError(message, parameter)
