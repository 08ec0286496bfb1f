"""The definitions that reproduce a number of another tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import public, whole_number
from polars_rank.conformance.search import TREATMENTS, Candidate, Search
from polars_rank.conventions import POLARS_RANK, PRESETS, Conventions, Definitions, named, preset_of
from polars_rank.definitions import ALTERNATIVES, Definition, changes, one_metric
from polars_rank.errors import ArgumentError
from polars_rank.metrics.compared import COMPARED
from polars_rank.metrics.metric import REGISTER, Metric, parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Unpack

    from polars_rank.evaluation.log import RankingOptions


@public
def identify(
    frame: Any, metric: str | Metric, value: Any, *, n: int = 5, **options: Unpack[RankingOptions]
) -> pl.DataFrame:
    """Return the definitions under which a metric has the value of another tool.

    Presets are tried first, then single changes of the conventions, then pairs of changes. The
    search ends at the first of these levels at which a definition fits.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "b"], "score": [0.9, 0.1, 0.5], "label": [1, 3, 0]
    ... })
    >>> found = pr.identify(df, "ndcg@10", "0.8549")
    >>> found.select("changes", "fits", "others")
    shape: (1, 3)
    ┌──────────────────────┬──────┬────────┐
    │ changes              ┆ fits ┆ others │
    │ ---                  ┆ ---  ┆ ---    │
    │ str                  ┆ bool ┆ u32    │
    ╞══════════════════════╪══════╪════════╡
    │ as LightGBM, XGBoost ┆ true ┆ 0      │
    └──────────────────────┴──────┴────────┘
    >>> print(found["code"].item())
    pr.evaluate(log, "ndcg@10", conventions="LightGBM")

    Parameters
    ----------
    frame
        The long table, with the rankings that the other tool evaluated.
    metric
        Name of a metric, or a metric, whose mean over queries is `value`.
    value
        What the other tool returned: a number, also as text, such as "0.5770"; a mapping from
        runs to numbers; or a table of numbers of runs or queries, as `per_query` returns it. In a
        table of queries, null means that a query does not count, as does a missing query.
    n
        Maximum number of rows of the result.
    **options
        Options of `evaluate`: columns, `conventions`, and fields of `Conventions`. Changes are
        changes of these conventions. `score` and `label` are single columns.

    Returns
    -------
    DataFrame
        One row per definition that fits: those that fit exactly first, and the simplest of them
        first. If none fits, the nearest ones.

        - `changes`: presets with this definition, such as "as LightGBM, XGBoost", or changes of the
          conventions in words;
        - `value`: mean over all queries that count. With numbers of several runs, the mean of the
          run that has the largest difference;
        - `deviation`: the largest difference from a number of `value`;
        - `tolerance`: the largest difference that fits, half a unit of the last digit of `value`;
        - `fits`: whether no difference is larger than the tolerance, and the same queries count;
        - `others`: number of other definitions that fit with as many changes;
        - `code`: call that returns the value, where the library can compute it;
        - `queries`: the queries with the largest differences, at most 3, as structs of the
          query, its `value` and the `other` value: that of `value`, or if it has no queries,
          that of the first row.

    Raises
    ------
    ArgumentError
        If the metric is unknown or not averaged over queries, or if `value` has no numbers, or one
        number for several runs.
    DataError
        If a query or a run of `value` is not in the log, and the errors of `evaluate`, except for
        duplicates, whose treatment is a choice.

    Notes
    -----
    The tolerance is at least 5e-7, which is also the largest difference of an exact fit. 0.58
    accepts more definitions than "0.5800", and in a table, the number with the most digits decides.
    The mean of a few queries fits several definitions by chance: `others` counts them, and more
    digits, runs or the values of queries tell them apart. Changes without an effect on this log are
    not shown; definitions with the same values are one row. Presets are those of tools that have
    the metric. The log is held in memory.

    The rows are kept in memory, with about 400 bytes each.

    Besides the choices of `evaluate`, there are some that only other tools have: copies that count
    again, an ideal ranking of the first k retrieved documents, a discount that is off by one, and
    values of queries that are rounded before the mean. Metrics other than CG, DCG, NDCG, AP,
    reciprocal rank, precision, recall, F1, hit rate and R-precision have the choices of the library
    only.
    """
    whole_number("n", n)
    of_base: dict[str, Any] = {key: each for key, each in options.items() if key in _OF_CONVENTIONS}
    others = {key: each for key, each in options.items() if key not in _OF_CONVENTIONS}
    choices = {key: each for key, each in of_base.items() if key != "conventions"}
    conventions = named(of_base.get("conventions", POLARS_RANK)).but(**choices)
    search = Search(frame, value, str(metric), others)
    base = _candidate(metric, conventions, search, of_base)
    if choices or isinstance(of_base.get("conventions"), Mapping):
        base = base._replace(presets=("given",))
    measured = base.definition.plain
    if measured.aggregate != "mean":
        raise ArgumentError(f"must be averaged over queries; {metric} is not", "metric")
    high = REGISTER[base.definition.function].high
    for level in (_presets(metric, base, search), *(_changed(base, search, n) for n in (1, 2))):
        if search.add(level):
            break
        # Parameters of a preset may have larger values.
        if high is not None and (search.highest or 0) > high:
            raise ArgumentError(
                f"is above {high:g}, which is the highest value of {measured}; divide "
                "percentages by 100",
                "value",
            )
    return search.table(n, lambda candidate: _code(candidate, metric, others))


#: Options that choose definitions.
_OF_CONVENTIONS = ("conventions", *Definitions.__annotations__)


def _candidate(
    metric: str | Metric, conventions: Conventions, search: Search, given: Mapping[str, Any]
) -> Candidate:
    """Return the candidate of a metric under conventions."""
    definition = Definition.of(one_metric(metric, conventions.name), conventions)
    choices = {**definition.choices(search.ids), "decimals": None}
    return Candidate(definition, choices, {}, (conventions.name,), given)


def _presets(metric: str | Metric, base: Candidate, search: Search) -> Iterator[Candidate]:
    """Yield the given conventions, and the presets of tools that have the metric."""
    yield from search.treated(base)
    for preset in (POLARS_RANK, *PRESETS):
        by_id = preset.of(base.definition.given).ties in _BY_ID
        if preset.name in base.presets or (search.ids is None and by_id):
            continue
        found = _candidate(metric, preset, search, {"conventions": preset.name})
        compared = COMPARED.get(preset.name, ())
        if preset is POLARS_RANK or found.definition.function in compared:
            yield from search.treated(found)


_BY_ID = ("doc", "doc_ascending")


def _changed(base: Candidate, search: Search, number: int) -> Iterator[Candidate]:
    """Yield the definitions after a number of changes that can have an effect."""
    k = base.choices.get("k")
    alternatives = {
        **ALTERNATIVES,
        "rel": search.effects.grades,
        "k": [] if k is None else [each for each in (k - 1, k + 1) if each > 0],
        "text_ids": (False, True),
        "query_set": ("all", "judged", "retrieved", "both"),
        "undefined": ("zero", "one", "skip"),
        "decimals": search.decimals,
        "duplicates": TREATMENTS if search.effects.copies else (),
        "ties": [each for each in ALTERNATIVES["ties"] if search.ids or each not in _BY_ID],
    }
    for several in combinations(changes(base.choices, alternatives), number):
        change = {key: each for one in several for key, each in one.items()}
        if len(change) == number:  # two changes of one choice are one
            yield from search.treated(base.but(change))


def _code(candidate: Candidate, metric: str | Metric, others: Mapping[str, Any]) -> str | None:
    """Return the call that computes the value, or None if the library cannot."""
    changes, parsed = dict(candidate.changes), one_metric(candidate.definition.given)
    decimals, log = changes.pop("decimals", None), "log"
    if changes.get("ties") == "reversed":
        changes["ties"], log = "input", "log.reverse()"
    try:
        candidate.definition.but(**changes)
    except ArgumentError:
        return None
    if None in changes.values() or (log != "log" and "duplicates" in changes):
        return None
    own = {*parameters_of(parsed)} - ({"rel"} - {*parsed.arguments})
    parameters = {key: changes.pop(key) for key in [*changes] if key in own}
    if any(map(callable, parsed.arguments.values())) and not isinstance(metric, str):
        return None
    text = json.dumps(str(parsed.but(**parameters)) if parameters else str(metric))
    options = _written({**others, **candidate.given, **changes})
    call = f"({log}, {text}{options and ', '}{options})"
    if decimals is None:
        return f"pr.evaluate{call}"
    return f"pr.per_query{call}.select(pl.last().round({decimals}).mean())"


def _written(options: Mapping[str, Any]) -> str:
    """Return options as they are written in a call; tables and conventions are variables."""
    texts = []
    for key, each in options.items():
        text = json.dumps(each) if isinstance(each, str) else repr(each)
        if isinstance(each, Conventions) and preset_of(each.name) == each:
            text = json.dumps(each.name)
        elif isinstance(each, float) and each.is_integer():
            text = str(int(each))
        elif isinstance(each, (Conventions, pl.DataFrame, pl.LazyFrame)):
            text = key
        texts.append(f"{key}={text}")
    return ", ".join(texts)
