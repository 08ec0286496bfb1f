"""`check`: verdicts on rules about tables of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import polars as pl

from polars_rank._params import one_of, public
from polars_rank.checks import refuse
from polars_rank.errors import ArgumentError, GateFailed, SchemaError, hint
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.frames.typed_results import COUNT, NUMBER, TEXT, typed
from polars_rank.gates.rules import COLUMNS, Rule, Rules, read_rules, text_of
from polars_rank.stats.verdict_files import TYPES, WORST_FIRST, failing, in_words

#: Counts that are equal for all metrics.
_ANY_METRIC = ("queries", "missing")
#: Columns that do not identify a group, run or slice.
_NOT_KEYS = {*COLUMNS, "metric", "verdict", "reason", "method", "best"}
#: Types of the columns that rules read.
_RESULTS = {
    **{name: COUNT if each.dtype == pl.Int64 else NUMBER for name, each in COLUMNS.items()},
    **dict.fromkeys(("metric", "verdict", "method"), TEXT),
}


@public
def check(
    result: Any,
    rules: Rules,
    *,
    undecided: Literal["pass", "fail"] | None = None,
    on_fail: Literal["raise", "return"] = "raise",
) -> pl.DataFrame:
    """Check rules about tables of results, as a quality gate for pipelines.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({"query": range(40), "rr": [1.0, 0.5, 0.5, 0.9] * 10})
    >>> summary = pr.summarize(values)
    >>> rules = ["rr >= 0.2", "rr >= 0.7", "queries >= 3"]
    >>> verdicts = pr.check(summary, rules, undecided="pass")
    >>> verdicts.select("rule", "value", "low", "verdict")
    shape: (3, 4)
    ┌──────────────┬───────┬──────────┬───────────┐
    │ rule         ┆ value ┆ low      ┆ verdict   │
    │ ---          ┆ ---   ┆ ---      ┆ ---       │
    │ str          ┆ f64   ┆ f64      ┆ str       │
    ╞══════════════╪═══════╪══════════╪═══════════╡
    │ rr >= 0.2    ┆ 0.725 ┆ 0.651231 ┆ pass      │
    │ rr >= 0.7    ┆ 0.725 ┆ 0.651231 ┆ undecided │
    │ queries >= 3 ┆ 40.0  ┆ null     ┆ pass      │
    └──────────────┴───────┴──────────┴───────────┘

    Parameters
    ----------
    result
        The result of `summarize`, `compare` or `leaderboard`, or a list of them.
    rules
        List of rules, or path of a TOML file. A rule is a `Rule` or text:

        - "ndcg@10 >= 0.4" is about the metric's `mean`, in the result of `summarize`;
        - "difference(ndcg@10) >= -0.01" is about another column. It passes only if the difference
          is shown to be above -0.01: non-inferiority;
        - "difference(ndcg@10) >= -1%" is about the difference as a share of the baseline's mean. It
          needs the result of `compare` with ``details=True``;
        - "not difference(ndcg@10) < -0.01" is a guard. It fails only if a loss beyond 0.01 is
          shown;
        - "queries >= 1000" is about all rows.

        A rule applies as it is written to the rows of all queries, and as a guard to the rows of
        slices. With `where`, it applies as it is written to the rows that match:
        "difference(ndcg@10) >= -0.02 where(country=DE)", or
        `{"rule": "difference(ndcg@10) >= -0.02", "where": {"country": "DE"}}`, with text, numbers,
        booleans, or None (or "null") for null.

        A TOML file has `[[rules]]` with `rule` and `where`, and optionally `undecided` at the top.
    undecided
        Verdict when the interval contains the threshold or is unknown: "fail" or "pass". The
        default is the value in the TOML file, or "fail". Guards pass in any case.
    on_fail
        Whether to "raise" `GateFailed` or to "return" the table.

    Returns
    -------
    DataFrame
        One row per rule and group, run or slice, with the columns

        - `rule`;
        - `where`: the group, run or slice, as "country=DE, run=new", and the metric if the rule
          names none and metrics differ;
        - `value`, `low`, `high`, `queries`;
        - `verdict`: "pass", "fail" or "undecided";
        - `reason`: the verdict of `compare` on the row, or why there is no number; else null.

        The interval decides on `mean`, `difference` and `relative_difference`: a rule passes if it
        holds for the whole interval, fails if it holds for no part of it, and is undecided
        otherwise or without an interval. Counts, bounds and p-values decide by themselves. A row
        with 0 `queries` or a null value fails.

    Raises
    ------
    ArgumentError
        A rule is invalid, no table has its metric and columns, or its number has no interval.
    GateFailed
        A rule fails. The message lists all failures, and `verdicts` is the table.
    SourceError
        The file of rules cannot be read.

    Notes
    -----
    A rule with `where` fails if there are no such rows, so that a missing slice does not pass.
    Lazy tables are collected.

    """
    one_of("on_fail", on_fail, ("raise", "return"))
    read, unsure = read_rules(rules, undecided)
    given = result if isinstance(result, (list, tuple)) and result else [result]
    tables = [*map(_table, given)]
    verdicts = decided(read, tables)
    failed = verdicts.filter(pl.col("verdict").is_in(failing(unsure)))
    if on_fail == "raise" and failed.height:
        failures = "\n".join(map(in_words, failed.iter_rows(named=True)))
        number = f"{failed.height} of {verdicts.height} checks failed"
        raise GateFailed(f"{number}:\n{failures}", verdicts)
    return verdicts


def _table(given: Any) -> pl.DataFrame:
    rows = lazy(given, "result")
    schema = schema_of(rows)
    if "queries" not in schema or "metric" not in schema or "needed" in schema:
        raise SchemaError("`result` must be the result of pr.summarize, compare or leaderboard")
    types = {n: dtype for n, dtype in _RESULTS.items() if n != "value"}
    table = collected(typed(rows, "result", types))
    remedy = "pass the whole result of pr.summarize or pr.compare"
    for name in ("metric", "queries"):
        refuse(table, pl.col(name).is_null(), f"column {name!r} (`result`) is null", remedy)
    return table


def decided(rules: Sequence[Rule], tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the worst verdict of each rule on each group, run or slice that it is about."""
    verdicts: dict[Any, tuple[Any, ...]] = {}
    for rule in rules:
        for texts, row in _rows(rule, tables):
            where = ", ".join(f"{name}={text}" for name, text in texts.items())
            value = row.get(rule.column)
            low, high = rule.interval(row) if COLUMNS[rule.column].bounds else (None, None)
            verdict, reason = rule.decide(row)
            found = (
                rule.condition, where, None if value is None else float(value), low, high,
                row["queries"], verdict, reason if row["queries"] is not None else "no such rows",
            )  # fmt: skip
            worst = verdicts.setdefault((rule.condition, frozenset(texts.items())), found)
            if WORST_FIRST.index(verdict) < WORST_FIRST.index(worst[-2]):
                verdicts[rule.condition, frozenset(texts.items())] = found
    return pl.DataFrame([*verdicts.values()], schema=TYPES, orient="row")


def _rows(
    rule: Rule, tables: Sequence[pl.DataFrame]
) -> Iterator[tuple[Mapping[str, str], Mapping[str, Any]]]:
    """Yield the group, run or slice of each row that a rule is about, and the row."""
    about = [each for each in tables if _is_about(rule, each)]
    if not about:
        raise _unmatched(rule, tables)
    # In comparisons, `low` and `high` are about the difference.
    means = [each for each in about if "difference" not in each.columns]
    is_known = False
    for table in means or about if rule.column in ("low", "high") else about:
        keys = [name for name in table.columns if name not in _NOT_KEYS]
        if "baseline" in keys and table.get_column("baseline").n_unique() < 2:
            keys.remove("baseline")
        if rule.metric is None and rule.column not in _ANY_METRIC:
            keys.append("metric")
        rows = table if rule.metric is None else table.filter(metric=rule.metric)
        for row in rows.iter_rows(named=True):
            if rule.is_about(row):
                is_known = True
                yield _texts(row, keys), row
    if not is_known:
        yield _texts(rule.where, [*rule.where]), {"queries": None}


def _texts(row: Mapping[str, Any], keys: Sequence[str]) -> dict[str, str]:
    """Return the names and values of the group, run or slice of a row."""
    of_slice = ("slice", "value") if "slice" in keys else ()
    texts = {name: text_of(row[name]) for name in keys if name not in of_slice}
    if of_slice and row["slice"] is not None:
        texts[row["slice"]] = text_of(row["value"])
    return texts


def _is_about(rule: Rule, table: pl.DataFrame) -> bool:
    """Return whether a table has the metric, the interval and the groups of a rule.

    The interval of a comparison is that of the difference, not of the mean.
    """
    has_metric = rule.metric is None or rule.metric in table.get_column("metric")
    has_mean = rule.column != "mean" or "difference" not in table.columns
    needed = {rule.column, *(COLUMNS[rule.column].bounds or ()), *rule.where}
    return has_metric and has_mean and needed <= _names(table)


def _names(table: pl.DataFrame) -> set[str]:
    """Return the columns of a table, and those that its slices are values of."""
    slices = table.get_column("slice").drop_nulls() if "slice" in table.columns else ()
    return {*table.columns, *slices}


def _unmatched(rule: Rule, tables: Sequence[pl.DataFrame]) -> ArgumentError:
    metrics = sorted({name for table in tables for name in table.get_column("metric").unique()})
    columns = sorted({name for table in tables for name in _names(table)})
    table = "compare with details=True" if COLUMNS[rule.column].is_detail else "compare"
    table = "summarize" if rule.column == "mean" else table
    advice = f" The result of pr.{table} has the column {rule.column!r} with its interval."
    if rule.metric is not None and rule.metric not in metrics:
        advice = hint(rule.metric, metrics)
    return ArgumentError(
        f"no table has the metric and the columns of the rule {str(rule)!r} (`rules`), with its "
        f"interval; available metrics: {metrics}, columns: {columns}.{advice}"
    )
