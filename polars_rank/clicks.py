"""Labels from clicks: `labels` of impressions, `click_through_rates` and `coec` of documents.

Experimental: names and results may change in a minor version without a deprecation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN, check_type, free, is_number, number, one_of, whole_number
from polars_rank.checks import Check, checks_of, failed, failed_in_ranking, raise_failed
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, SchemaError, number_of
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.log import per_ranking
from polars_rank.evaluation.log_checks import row_checks
from polars_rank.frames.ids import common_type
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.analyses import negative, no_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polars_rank._params import Names

__all__ = ["click_through_rates", "coec", "labels"]

Kind: TypeAlias = Literal["clicked", "satisfied", "graded", "skip_above"]

#: Labels that fit in an Int8.
_INT8 = range(-128, 128)
#: Seconds after which a user is satisfied.
_SECONDS = 30
#: Significant digits in which values are compared; others depend on the order of summation.
_DIGITS = 9
_COUNTS = ("impressions", "clicks")
_END, _RATE, _ROW = (OWN + name for name in ("end", "rate", "row"))
_DOC, _PLACE, _CLICK = (pl.col(OWN + name) for name in ("doc", "place", "click"))
_REMEDY = "; name all columns that identify a ranking with query=[...]"


@framed
def labels(
    log: pl.LazyFrame,
    kind: Kind = "clicked",
    *,
    grades: Mapping[Any, float] | None = None,
    event: str | None = None,
    seconds: float | None = None,
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
        - "skip_above": 1 for clicked documents, 0 for those skipped above the lowest click, and
          null for those below it, which the user may not have seen.
    grades
        For "graded": mapping from each event to its grade, such as
        `{"view": 0, "click": 1, "cart": 2, "purchase": 4}`. Without `event`, the events are Boolean
        or count columns.
    event
        For "graded": column with the name of the event, in a table with one row per event. Events
        that `grades` does not have get no label.
    seconds
        For "satisfied": shortest dwell time of a satisfied user (default: 30).
    click
        Column of clicks. Used by "clicked" and "skip_above".
    dwell
        For "satisfied": numeric column of the seconds that the user spent on the
        document; null or NaN without a click. Convert a Duration with
        `.dt.total_seconds(fractional=True)`.
    position
        Column of the position, 1 first. Default: "position" if the table has it; "skip_above"
        needs it.
    query
        Column or columns that identify the query. Used by "skip_above". It must identify each
        ranking that a user saw, such as `query=["query", "session"]`.
    doc
        Column of the document. Used by "skip_above".
    by
        Columns to group by. Used by "skip_above".

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
        If a parameter does not belong to `kind`, or `grades` is empty.
    SchemaError
        If a column is missing or has the wrong type, or the log already has a column "label".
    DataError
        If clicks, dwell times or events are negative; for "skip_above", if a ranking has duplicate
        documents or positions. Raised when the result is collected.

    Notes
    -----
    Labels are not corrected for position bias: documents near the top are clicked far more often
    than those below them, whatever their relevance. `coec` corrects for it.

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
    for name, parameter in signature(labels).parameters.items():
        is_unused = name not in ("log", "kind", *options)
        if is_unused and repr(given[name]) != repr(parameter.default):  # it may be an expression
            raise ArgumentError(f"labels of kind {kind!r} have no parameter `{name}`; omit it")
    schema = schema_of(log)
    if "label" in schema:
        raise SchemaError("the log already has a column 'label', which `labels` adds; rename it")
    return label(log, **{name: given[name] for name in options})


def _clicked(log: pl.LazyFrame, click: str, position: str) -> pl.LazyFrame:
    Columns.find(schema_of(log), {"click": click})
    return _labeled(log, _numbers(click, no_count("click", click)) > 0, position)


def _satisfied(log: pl.LazyFrame, dwell: str, seconds: float | None, position: str) -> pl.LazyFrame:
    lowest = _SECONDS if seconds is None else seconds
    if number("seconds", lowest, "of seconds") < 0:
        raise ArgumentError(f"must be 0 or more seconds; found {lowest!r}", "seconds")
    Columns.find(schema_of(log), {"dwell": dwell})
    satisfied = _numbers(dwell, negative("dwell", dwell)) >= lowest
    return _labeled(log, satisfied.fill_null(value=False), position)


def _of_events(
    log: pl.LazyFrame, grades: Mapping[Any, float], event: str | None, position: str
) -> pl.LazyFrame:
    if not isinstance(grades, Mapping):
        raise ArgumentError(f"must be a mapping, such as a dict; found {grades!r}", "grades")
    if not (numbers := [*grades.values()]) or not all(map(is_number, numbers)):
        raise ArgumentError(f"must have at least one grade, all numbers; found {numbers}", "grades")
    steps, schema, names = sorted(numbers), schema_of(log), pl.Series([*grades]).dtype
    Columns.find(schema, {"grades": [*grades]} if event is None else {"event": event})
    if event is not None and common_type(names, schema[event]) is None:
        raise SchemaError(
            f"column {event!r} (`event`) must have the type of the keys of `grades`, {names}; "
            f"found {schema[event]}; omit `event` if each event has its own column"
        )

    def happened(name: str) -> pl.Expr:
        if event is not None:
            return pl.col(event).cast(names) == name
        check_type("grades", name, schema[name], "number")
        return _numbers(name, negative("grades", name)) > 0

    by_grade = sorted(grades, key=lambda name: grades[name])
    label = pl.lit(None)
    for name in by_grade:  # the last grade whose condition is true
        label = pl.when(happened(name)).then(pl.lit(grades[name])).otherwise(label)
    return _labeled(log, label if steps[0] <= 0 else label.fill_null(0), position, steps)


def _skip_above(
    log: pl.LazyFrame, click: str, position: str, query: Names, doc: str, by: Names | None
) -> pl.LazyFrame:
    columns = _columns(log, query, doc, click, position, by)
    place = pl.col(columns.score)
    rows = {
        OWN + "doc": pl.col(str(columns.doc)),
        OWN + "place": place,
        OWN + "click": _is_click(columns.label).fill_null(value=False) & place.is_not_null(),
    }
    places, docs = (each.filter(_PLACE.is_not_null()) for each in (_PLACE, _DOC))
    duplicates = {
        f"duplicate positions in a ranking{_REMEDY}": places.n_unique() < places.len(),
        f"duplicate documents in a ranking{_REMEDY}, or drop one": docs.n_unique() < docs.len(),
    }
    checks = [*_checks(columns), *checks_of("ranking", duplicates)]
    end = _PLACE.filter(_CLICK).max().alias(_END)
    rankings, keys = per_ranking(log, columns, rows, [end], checks)
    ends = rankings.select(*keys.named, _END)
    seen = log.join(ends, on=[*keys.names], how="left", maintain_order="left")
    label = _is_click(click).fill_null(value=False)
    label = pl.when(pl.col(position) <= pl.col(_END)).then(label)
    return _labeled(seen, label, position).drop(_END)


_KINDS: dict[str, Callable[..., pl.LazyFrame]] = {
    "clicked": _clicked, "satisfied": _satisfied, "graded": _of_events, "skip_above": _skip_above,
}  # fmt: skip


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


def _numbers(column: str, problems: Mapping[str, pl.Expr]) -> pl.Expr:
    """Return a column as Float64, with NaN as null; evaluating it raises `DataError`."""
    checked = partial(_checked, column, problems)
    return pl.col(column).map_batches(checked, return_dtype=pl.Float64, is_elementwise=True)


def _checked(column: str, problems: Mapping[str, pl.Expr], values: pl.Series) -> pl.Series:
    table, rows = values.to_frame(column), number_of(len(values), "row")
    for problem, condition in problems.items():
        invalid = table.filter(condition).to_series()
        if len(invalid):
            raise DataError(
                f"{problem} ({len(invalid):,} of {rows} checked; e.g. {invalid.min()!r})"
            )
    return values.cast(pl.Float64).fill_nan(None)


@framed
def click_through_rates(
    frame: pl.LazyFrame,
    *,
    prior: float | tuple[float, float] = 10,
    grades: int | None = None,
    query: Names = "query",
    doc: str = "doc",
    click: str = "click",
    position: str = "position",
    by: Names | None = None,
) -> pl.LazyFrame:
    r"""Return the smoothed click-through rate of each document of a query.

    $$\mathrm{CTR} = \frac{clicks + \alpha}{impressions + \alpha + \beta}$$

    where clicks is the number of impressions with a click, however many clicks they had.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": "a", "doc": ["x", "x", "x", "y"], "click": [1, 1, 0, 0]
    ... })
    >>> pr.clicks.click_through_rates(log, prior=(1, 1)).drop("label")
    shape: (2, 5)
    ┌───────┬─────┬─────────────┬────────┬──────────┐
    │ query ┆ doc ┆ impressions ┆ clicks ┆ ctr      │
    │ ---   ┆ --- ┆ ---         ┆ ---    ┆ ---      │
    │ str   ┆ str ┆ u32         ┆ u32    ┆ f64      │
    ╞═══════╪═════╪═════════════╪════════╪══════════╡
    │ a     ┆ x   ┆ 3           ┆ 2      ┆ 0.6      │
    │ a     ┆ y   ┆ 1           ┆ 0      ┆ 0.333333 │
    └───────┴─────┴─────────────┴────────┴──────────┘

    Parameters
    ----------
    frame
        The log, one row per impression of a document.
    prior
        Beta prior of the rate, in clicks and impressions that are added to those of the log:
        either a pair (α, β) of α clicks and β impressions without a click, each 0 or more; or a
        number m ≥ 0 of impressions at the mean rate of the log or of its group, that is
        α = m · mean and β = m · (1 - mean). With the default of 10, the rate of a document with 10
        impressions is halfway between its own and the mean. With 0 or (0, 0), it is not smoothed.
    grades
        Number of grades, 2 or more: the grade of a document is the share of all documents of all
        queries (of the group) that have a lower rate, in equal steps from 0. None (default): the
        label is the rate.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    click
        Column of clicks. Rows with a null click are not counted.
    position
        Column of the position, 1 first. Rows with a null position are not counted. Default:
        "position" if the table has it.
    by
        Columns to group by.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one, sorted by its keys: one row per document of a query that was
        shown, with the `by`, `query` and `doc` columns and

        - `impressions`, `clicks`: the numbers of impressions, and of those with a click;
        - `ctr`: the smoothed rate;
        - `label`: the rate or the grade.

    Raises
    ------
    DataError
        If a query or document is null, or a click is neither Boolean nor a count; raised when
        the result is collected.

    Notes
    -----
    Documents near the top are clicked more often, whatever their relevance. `coec` corrects for
    the position.

    References
    ----------
    Joachims et al., Accurately interpreting clickthrough data as implicit feedback, 2005.
    """
    weights = _prior(prior)
    optional = ("position",)
    columns = _columns(frame, query, doc, click, position, by, optional)
    pairs, keys = _pairs(frame, columns, {})
    if len(weights) == 1:
        pairs = _with_rates(pairs, frame, columns, columns.by)
        alpha, beta = weights[0] * pl.col(_RATE), weights[0] * (1 - pl.col(_RATE))
    else:
        alpha, beta = map(pl.lit, weights)
    ctr = (pl.col("clicks") + alpha) / (pl.col("impressions") + alpha + beta)
    labeled = _graded(pairs.with_columns(ctr=ctr), "ctr", pl.col("ctr"), grades, columns.by)
    return labeled.select(*keys, *_COUNTS, "ctr", "label")


@framed
def coec(
    frame: pl.LazyFrame,
    *,
    grades: int | None = None,
    query: Names = "query",
    doc: str = "doc",
    click: str = "click",
    position: str = "position",
    by: Names | None = None,
) -> pl.LazyFrame:
    r"""Return clicks over expected clicks (COEC) of each document of a query.

    $$\mathrm{COEC} = \frac{clicks}{\sum_{impressions} \mathrm{CTR}[position]}$$

    where clicks is the number of impressions with a click, however many clicks they had, and CTR[j]
    is the share of impressions at position j with a click, over all queries and documents of the
    log.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": "a",
    ...     "doc": ["x", "y", "x", "y"],
    ...     "position": [1, 2, 2, 1],
    ...     "click": [1, 0, 1, 1],
    ... })  # CTR is 1 at the first position, 1/2 at the second
    >>> pr.clicks.coec(log).select("doc", "clicks", "expected", "coec")
    shape: (2, 4)
    ┌─────┬────────┬──────────┬──────────┐
    │ doc ┆ clicks ┆ expected ┆ coec     │
    │ --- ┆ ---    ┆ ---      ┆ ---      │
    │ str ┆ u32    ┆ f64      ┆ f64      │
    ╞═════╪════════╪══════════╪══════════╡
    │ x   ┆ 2      ┆ 1.5      ┆ 1.333333 │
    │ y   ┆ 1      ┆ 1.5      ┆ 0.666667 │
    └─────┴────────┴──────────┴──────────┘

    Parameters
    ----------
    frame
        The log, one row per impression of a document.
    grades
        Number of grades, 2 or more: the grade of a document is the share of all documents of all
        queries (of the group) that have a lower COEC, in equal steps from 0. None (default): the
        label is clicks / (clicks + expected clicks), between 0 and 1; it is 1/2 for a document
        with as many clicks as expected.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    click
        Column of clicks. Rows with a null click are not counted.
    position
        Column of the position, 1 first. Rows with a null position are not counted.
    by
        Columns to group by. Each group has its own CTR by position.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one, sorted by its keys: one row per document of a query that was
        shown, with the `by`, `query` and `doc` columns and

        - `impressions`, `clicks`: the numbers of impressions, and of those with a click;
        - `expected`: the expected number of impressions with a click, from their positions;
        - `coec`: clicks / expected, 1 for an average document; null if `expected` is 0, that is,
          if no document was ever clicked at its positions;
        - `label`: a number in [0, 1] or a grade; null if `coec` is null.

    Raises
    ------
    DataError
        If a query or document is null, or a click is neither Boolean nor a count; raised when
        the result is collected.

    Notes
    -----
    COEC removes the average effect of a position. If better documents are shown nearer to the top,
    this also removes part of their relevance.

    References
    ----------
    Zhang & Jones, Comparing click logs and editorial labels for training query rewriting, 2007;
    Chapelle & Zhang, A dynamic Bayesian network click model for web search ranking, 2009.
    """
    columns = _columns(frame, query, doc, click, position, by)
    with_rates = partial(
        _with_rates, log=frame, columns=columns, keys=[*dict.fromkeys((*columns.by, position))]
    )
    pairs, keys = _pairs(frame, columns, {"expected": pl.col(_RATE).sum()}, with_rates)
    clicks, expected = pl.col("clicks"), pl.col("expected")
    known = pairs.with_columns(coec=pl.when(expected > 0).then(clicks / expected))
    share = pl.when(expected > 0).then(clicks / (clicks + expected))
    labeled = _graded(known, "coec", share, grades, columns.by)
    return labeled.select(*keys, *_COUNTS, "expected", "coec", "label")


def _pairs(
    log: pl.LazyFrame,
    columns: Columns,
    sums: Mapping[str, pl.Expr],
    add_columns: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda log: log,
) -> tuple[pl.LazyFrame, list[str]]:
    """Return sums over the impressions of each (query, document) pair, and the keys of a pair.

    `add_columns` adds the column of rates to the log, if the sums need it.
    """
    keys = columns.pair
    doc = keys[-1]
    free(keys, ["impressions", "clicks", "ctr", "expected", "coec", "label"], "doc")
    checks = _checks(columns)
    inputs = {OWN + "doc": pl.col(doc), OWN + "click": _known_click(columns)}
    inputs |= {_RATE: pl.col(_RATE)} if sums else {}
    shown = _CLICK.is_not_null()
    by_doc = pl.struct(*inputs).filter(shown).sort_by(_DOC.filter(shown))
    totals = {"impressions": pl.len(), "clicks": _CLICK.sum(), **sums}
    if not Keys.of(columns).are_adjacent(log):
        # Group before sorting: there are fewer pairs than impressions.
        rows = (each.alias(name) for name, each in inputs.items())
        known = add_columns(log).select(*keys, *rows, failed(checks, "row")).filter(shown)
        pairs = known.group_by(keys).agg(failed_in_ranking(checks), **totals).sort(keys)
        named = {key: key for key in columns.keys}
        return raise_failed(pairs, checks, log=log, keys=named), keys
    rankings, ranking_keys = per_ranking(
        log, columns, inputs, [by_doc.alias(_ROW)], checks, add_columns
    )
    # Rows of a pair are adjacent, so their sums need only flat memory.
    order = [*ranking_keys.group, OWN + "doc"]
    pairs = (
        rankings.filter(pl.col(_ROW).list.len() > 0)
        .explode(_ROW)
        .unnest(_ROW)
        .set_sorted(order)
        .group_by(order, maintain_order=True)
        .agg(*ranking_keys.carried, **totals)
    )
    return pairs.with_columns(*ranking_keys.named, _DOC.alias(doc)), keys


def _known_click(columns: Columns) -> pl.Expr:
    """Return 1 for a click and 0 for no click; null if the document was not shown."""
    shown = pl.col(columns.score).is_not_null()
    return pl.when(shown).then(_is_click(columns.label).cast(pl.UInt32))


def _with_rates(
    rows: pl.LazyFrame, log: pl.LazyFrame, columns: Columns, keys: Sequence[str]
) -> pl.LazyFrame:
    """Return the rows, in their order, with the click-through rate over the log by the keys."""
    rate = _known_click(columns).mean().alias(_RATE)
    if not keys:
        return rows.join(log.select(rate), how="cross", maintain_order="left")
    rates = log.group_by(keys).agg(rate)
    return rows.join(rates, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _graded(
    pairs: pl.LazyFrame, value: str, share: pl.Expr, grades: int | None, by: Sequence[str]
) -> pl.LazyFrame:
    """Return the pairs with a label: `share`, or a grade by the share of lower values."""
    if grades is None:
        return pairs.with_columns(label=share)
    if whole_number("grades", grades) == 1:
        raise ArgumentError("must be 2 or more, or None; found 1", "grades")
    known = pl.col(value).round_sig_figs(_DIGITS)
    below, count = (known.rank("min") - 1).cast(pl.Int64), known.count()
    grade = (below * grades // count).cast(pl.Int32)
    grade = grade.over(by) if by else grade
    return pairs.with_columns(label=grade)


def _prior(prior: Any) -> list[float]:
    """Return the prior; raise `ArgumentError` unless it is one or two numbers of 0 or more."""
    is_pair = isinstance(prior, (tuple, list)) and len(prior) == len(("alpha", "beta"))
    numbers = prior if is_pair else [prior]
    if not all(is_number(each) and each >= 0 for each in numbers):
        raise ArgumentError(
            "must be a number of impressions or a pair (alpha, beta), all 0 or more; "
            f"found {prior!r}",
            "prior",
        )
    return [float(each) for each in numbers]


def _columns(
    log: pl.LazyFrame,
    query: Names,
    doc: str,
    click: str,
    position: str,
    by: Names | None,
    optional: Sequence[str] = (),
) -> Columns:
    """Return the columns, with positions as scores and clicks as labels.

    Without positions, clicks are the scores. A missing column or a wrong type raises `SchemaError`.
    """
    roles = {"by": by, "query": query, "doc": doc, "position": position, "click": click}
    columns = Columns.find(schema_of(log), roles, optional=optional)
    place = columns.one("position")
    return columns._replace(
        score=place or click, score_parameter="position" if place else "score", label=click,
        label_parameter="click",
    )  # fmt: skip


def _checks(columns: Columns) -> list[Check]:
    """Return the checks of ids, positions and clicks."""
    return [*row_checks(columns), *checks_of("row", no_count("click", columns.label))]


def _is_click(click: str) -> pl.Expr:
    """Return whether a document was clicked; null if the click is null."""
    return pl.col(click).cast(pl.Float64) > 0


def __dir__() -> list[str]:
    return __all__
