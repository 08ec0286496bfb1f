"""`labels`: labels from the actions of users on documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN, is_number, number, one_of
from polars_rank.clicks.impressions import CLICK, PLACE, columns_of, is_click
from polars_rank.clicks.preference_pairs import LAST, rankings_of, time_column
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.frames.ids import common_type
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.user_columns import checked_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polars_rank._params import Names

__all__ = ["labels"]

Kind: TypeAlias = Literal["clicked", "satisfied", "graded", "dwell", "last", "skip_above"]

#: Labels that fit in an Int8.
_INT8 = range(-128, 128)
#: Seconds after which a user is satisfied.
_SECONDS = 30
_END = OWN + "end"


@framed
def labels(
    log: pl.LazyFrame,
    kind: Kind = "clicked",
    *,
    grades: Mapping[Any, float] | None = None,
    event: str | None = None,
    seconds: float | None = None,
    time: str | None = None,
    click: str = "click",
    dwell: str = "dwell",
    position: str = "position",
    query: Names = "query",
    doc: str = "doc",
    by: Names | None = None,
) -> pl.LazyFrame:
    """Add a column of labels that follow from the actions of users.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "doc": [*"abcd"], "position": [1, 2, 3, None],
    ...     "click": [False, True, False, None], "dwell": [None, 40.0, None, None],
    ... })
    >>> pr.clicks.labels(log, "clicked")["label"].to_list()
    [0, 1, 0, None]
    >>> pr.clicks.labels(log, "skip_above")["label"].to_list()
    [0, 1, None, None]
    >>> grades = {1: 0, 2: 10, 3: 120}
    >>> pr.clicks.labels(log, "dwell", grades=grades)["label"].to_list()
    [0, 2, 0, None]
    >>> events = pl.DataFrame({
    ...     "doc": ["a", "b", "b"], "action": ["view", "view", "buy"],
    ... })
    >>> grades = {"view": 0, "buy": 4}
    >>> pr.clicks.labels(events, "graded", grades=grades, event="action")
    shape: (3, 3)
    ┌─────┬────────┬───────┐
    │ doc ┆ action ┆ label │
    │ --- ┆ ---    ┆ ---   │
    │ str ┆ str    ┆ i8    │
    ╞═════╪════════╪═══════╡
    │ a   ┆ view   ┆ 0     │
    │ b   ┆ view   ┆ 0     │
    │ b   ┆ buy    ┆ 4     │
    └─────┴────────┴───────┘

    Parameters
    ----------
    log
        The log, one row per impression of a document, or per event.
    kind
        Meaning of the label:

        - "clicked": 1 for clicked documents, otherwise 0;
        - "satisfied": 1 if the user stayed on the document for at least `seconds`, otherwise 0;
        - "graded": the highest grade of the events on the document, given `grades`;
        - "dwell": the grade of the dwell time, given `grades`;
        - "last": 1 for the document of the last click of a ranking, 0 for the others;
        - "skip_above": 1 for clicked documents, 0 for those skipped above the lowest click, and
          null for those below it, which the user may not have seen.
    grades
        For "graded": mapping from each event to its grade, such as
        `{"view": 0, "click": 1, "cart": 2, "purchase": 4}`. Without `event`, the events are Boolean
        or count columns. For "dwell": mapping from each grade to the shortest dwell time in
        seconds. With `{1: 0, 2: 10, 3: 30}`, any click has grade 1 or more.
    event
        For "graded": column with the name of the event, in a table with one row per event. Events
        that `grades` does not have get no label.
    seconds
        For "satisfied": shortest dwell time of a satisfied user (default: 30).
    time
        For "last": column with the time of the click, a number or a temporal type. Of several
        clicks at the same time, the lowest in the ranking is the last. Default: the lowest click
        is the last one, as if users clicked from the top down.
    click
        Column of clicks. Used by "clicked", "last" and "skip_above".
    dwell
        For "satisfied" and "dwell": numeric column of the seconds that the user spent on the
        document; null or NaN without a click. Convert a Duration with
        `.dt.total_seconds(fractional=True)`.
    position
        Column of the position, 1 first. Default: "position" if the table has it; "last" and
        "skip_above" need it.
    query
        Column or columns that identify the query. Used by "last" and "skip_above". It must identify
        each ranking that a user saw, such as `query=["query", "session"]`.
    doc
        Column of the document. Used by "last" and "skip_above".
    by
        Columns to group by. Used by "last" and "skip_above".

    Returns
    -------
    LazyFrame or DataFrame
        The log with the column `label`: Int8, or Float64 if `grades` has fractions. The label is
        null if the document was not shown, and for "clicked", if the click is null. For "graded", a
        row without any of the events has grade 0; but if `grades` includes an event of grade 0 or
        less, such as a view, it counts as not shown.

    Raises
    ------
    ArgumentError
        If a parameter does not belong to `kind`, `grades` is empty, or a higher grade of "dwell"
        does not need a longer time.
    SchemaError
        If a column is missing or has the wrong type, or the log already has a column "label".
    DataError
        If clicks, dwell times or events are negative; for "last" and "skip_above", if a ranking has
        duplicate documents or positions. Raised when the result is collected.

    Notes
    -----
    Labels are not corrected for position bias: documents near the top are clicked far more often
    than those below them, whatever their relevance. `pr.clicks.coec` and
    `pr.clicks.position_bias` correct for it, and `pr.clicks.preferences` avoids it.

    A single threshold of dwell time for all queries is crude, because dwell time depends on the
    length of the document (Kim et al.).

    References
    ----------
    Joachims et al., Accurately interpreting clickthrough data as implicit feedback, 2005; Fox et
    al., Evaluating implicit measures to improve web search, 2005; Kim et al., Modeling dwell time
    to predict click-level satisfaction, 2014.
    """
    given = locals()
    one_of("kind", kind, (*_KINDS,))
    label = _KINDS[kind]
    options = [name for name in signature(label).parameters if name != "log"]
    for name, default in _DEFAULTS.items():
        if name not in options and repr(given[name]) != repr(default):  # it may be an expression
            raise ArgumentError(f"labels of kind {kind!r} have no parameter `{name}`; omit it")
    schema = schema_of(log)
    if "label" in schema:
        raise SchemaError("the log already has a column 'label', which `labels` adds; rename it")
    return label(log, **{name: given[name] for name in options})


def _clicked(log: pl.LazyFrame, click: str, position: str) -> pl.LazyFrame:
    Columns.find(schema_of(log), {"click": click})
    return _labeled(log, checked_numbers("click", click, whole=True) > 0, position)


def _satisfied(log: pl.LazyFrame, dwell: str, seconds: float | None, position: str) -> pl.LazyFrame:
    lowest = _SECONDS if seconds is None else seconds
    _at_least_zero("seconds", lowest)
    Columns.find(schema_of(log), {"dwell": dwell})
    satisfied = checked_numbers("dwell", dwell) >= lowest
    return _labeled(log, satisfied.fill_null(value=False), position)


def _of_dwell(
    log: pl.LazyFrame, grades: Mapping[float, float], dwell: str, position: str
) -> pl.LazyFrame:
    steps = _sorted_grades(grades, are_keys=True)
    for grade, seconds in grades.items():
        _at_least_zero(f"grades[{grade!r}]", seconds)
    for low, high in pairwise(steps):
        if not grades[low] < grades[high]:
            raise ArgumentError(
                f"in `grades`, a higher grade must need more seconds; found {grades[high]!r} for "
                f"grade {high!r} and {grades[low]!r} for grade {low!r}"
            )
    Columns.find(schema_of(log), {"dwell": dwell})
    stayed = checked_numbers("dwell", dwell)
    label = _highest((grade, stayed >= grades[grade]) for grade in steps).fill_null(0)
    return _labeled(log, label, position, steps)


def _of_events(
    log: pl.LazyFrame, grades: Mapping[Any, float], event: str | None, position: str
) -> pl.LazyFrame:
    steps, schema = _sorted_grades(grades, are_keys=False), schema_of(log)
    names = pl.Series([*grades]).dtype
    Columns.find(schema, {"grades": [*grades]} if event is None else {"event": event})

    def happened(name: str) -> pl.Expr:
        if event is None:
            return checked_numbers("grades", name) > 0
        cast = partial(_cast, event, names)
        return pl.col(event).map_batches(cast, return_dtype=names, is_elementwise=True) == name

    by_grade = sorted(grades, key=lambda name: grades[name])
    label = _highest((grades[name], happened(name)) for name in by_grade)
    return _labeled(log, label if steps[0] <= 0 else label.fill_null(0), position, steps)


def _last(
    log: pl.LazyFrame,
    time: str | None,
    click: str,
    position: str,
    query: Names,
    doc: str,
    by: Names | None,
) -> pl.LazyFrame:
    schema = schema_of(log)
    columns = columns_of(schema, query, doc, click, position, by)
    moment = time_column(time, position, schema)
    is_last = pl.col(position).eq_missing(pl.col(_END))
    return _labeled(_with_end(log, columns, moment, LAST), is_last, position).drop(_END)


def _skip_above(
    log: pl.LazyFrame, click: str, position: str, query: Names, doc: str, by: Names | None
) -> pl.LazyFrame:
    columns = columns_of(schema_of(log), query, doc, click, position, by)
    seen = pl.when(pl.col(position) <= pl.col(_END))
    label = seen.then(is_click(click).fill_null(value=False))
    return _labeled(_with_end(log, columns, position, CLICK), label, position).drop(_END)


def _with_end(log: pl.LazyFrame, columns: Columns, time: str, last: pl.Expr) -> pl.LazyFrame:
    """Return the log, in the same order, with the last position of some rows of each ranking."""
    rankings, keys = rankings_of(log, columns, time, [PLACE.filter(last).max().alias(_END)])
    ends = rankings.select(*keys.named, _END)
    on = [name for name in ends.collect_schema() if name != _END]
    return log.join(ends, on=on, how="left", maintain_order="left")


_KINDS: dict[str, Callable[..., pl.LazyFrame]] = {
    "clicked": _clicked,
    "satisfied": _satisfied,
    "graded": _of_events,
    "dwell": _of_dwell,
    "last": _last,
    "skip_above": _skip_above,
}
#: The defaults of the parameters that belong to some kinds only.
_DEFAULTS = {
    name: parameter.default
    for name, parameter in signature(labels).parameters.items()
    if name not in ("log", "kind")
}


def _labeled(
    log: pl.LazyFrame, label: pl.Expr, position: str, grades: Iterable[float] = (0, 1)
) -> pl.LazyFrame:
    """Return the log with labels in the smallest type for the grades.

    They are null if the document was not shown. Without positions, all documents were shown.
    """
    small = all(isinstance(grade, int) and grade in _INT8 for grade in grades)
    columns = Columns.find(schema_of(log), {"position": position}, optional=("position",))
    if place := columns.one("position"):
        label = pl.when(pl.col(place).is_not_null()).then(label)
    return log.with_columns(label.cast(pl.Int8 if small else pl.Float64).alias("label"))


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


def _sorted_grades(grades: Any, *, are_keys: bool) -> list[float]:
    """Return the sorted grades; raise `ArgumentError` if there are none or not all numbers."""
    if not isinstance(grades, Mapping):
        raise ArgumentError(f"`grades` must be a mapping, such as a dict; found {grades!r}")
    numbers = [*grades] if are_keys else [*grades.values()]
    if not numbers or not all(map(is_number, numbers)):
        raise ArgumentError(f"`grades` must have at least one grade, all numbers; found {numbers}")
    return sorted(numbers)


def _at_least_zero(parameter: str, value: float) -> None:
    if number(parameter, value, "of seconds") < 0:
        raise ArgumentError(f"`{parameter}` must be 0 or more seconds; found {value!r}")
