"""`check`: verdicts on rules about tables of statistics."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import polars as pl

from polars_rank._params import F, number_in, one_of, public
from polars_rank._texts import displayed
from polars_rank.errors import (
    ArgumentError,
    DataError,
    GateFailed,
    SchemaError,
    SourceError,
    hint,
    number_of,
    short,
    warn,
)
from polars_rank.frames.results import COUNT, FLAG, NUMBER, TEXT, typed
from polars_rank.frames.tables import collected, is_path, lazy, schema_of
from polars_rank.io.files import read_toml
from polars_rank.stats.decisions import (
    COUNTS,
    INTERVALS,
    NUMBERS,
    QUANTILE,
    Decision,
    alternative,
    decide,
    is_comparison,
)
from polars_rank.stats.differences import COLUMNS
from polars_rank.stats.moment_tables import is_moments
from polars_rank.stats.per_query_tables import EMPTY, warn_of_empty
from polars_rank.stats.verdicts import TYPES, WORST_FIRST, failing, in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The group, run or slice of a verdict: columns and their values as text.
_Subject: TypeAlias = "frozenset[tuple[str, str]]"
Rules: TypeAlias = "str | PathLike[str] | Sequence[str | Mapping[str, Any] | Rule]"

_COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_RULE = re.compile(
    r"\s*+(?:(?P<column>[\w.-]+)\s*+\()?\s*+(?P<name>[^\s<>].*?)\s*+\)?\s*+(?P<sign>>=|<=|>|<)"
    r"\s*+(?P<bound>\S+)\s*+"
)
#: The end of a rule that restricts it to some rows: columns and values, which may be in quotes.
_PAIR = r'([^=,"]+)=( *"[^"]*" *|[^,"]*)'
_WHERE = re.compile(rf"(?P<rule>.+) where ?\((?P<pairs>{_PAIR}(?:,{_PAIR})*)\)")
#: Invalid signs in rules, and the valid ones.
_MISWRITTEN = {"=>": ">=", "=<": "<=", "\N{GREATER-THAN OR EQUAL TO}": ">=",
               "\N{LESS-THAN OR EQUAL TO}": "<="}  # fmt: skip
#: Counts that are equal for all metrics.
_ANY_METRIC = ("queries", "missing", EMPTY)
#: Columns that mean something else in comparisons than in summaries.
_OF_MEANS = ("mean", "low", "high")
#: Columns of `slices` that name the column and the value of a slice.
_SLICE = ("column", "value")
#: Columns that only the result of `power` has.
_OF_POWER = ("needed", "detectable")
#: Columns that do not identify a group, run or slice.
_NOT_KEYS = {*NUMBERS, "metric", "other_mean", "small", "warning", "confidence", "interval"}
#: Types of the columns that rules and verdicts read.
_RESULTS = {
    **dict.fromkeys(COUNTS, COUNT),
    **dict.fromkeys((name for name in NUMBERS if name not in COUNTS), NUMBER),
    "metric": TEXT,
    "interval": TEXT,
    "confidence": NUMBER,
    "small": FLAG,
}


@dataclass(frozen=True)
class Rule:
    """A rule: a column of a metric's rows, a sign and a bound."""

    text: str
    column: str | None
    metric: str | None
    sign: str
    bound: float
    where: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Rule | str | Mapping[str, Any]) -> Rule:
        """Parse a rule as it is written in Python or TOML."""
        if isinstance(given, Rule):
            return given
        if isinstance(given, str):
            given = {"rule": given}
        unknown = set(given) - {"rule", "where"} if isinstance(given, Mapping) else {str(given)}
        if unknown or not isinstance(given.get("rule"), str):
            raise ArgumentError(
                "a rule (`rules`) must be text or a dict of 'rule' and 'where'; "
                f"found {short(given)}"
            )
        text, where = _restricted(given["rule"].strip(), given.get("where"))
        if not _is_unicode(text, *where.values()):
            raise ArgumentError(
                f"the rule {text!r} (`rules`) has characters that are not Unicode; write valid text"
            )
        for sign, meant in _MISWRITTEN.items():
            if sign in text:
                raise ArgumentError(
                    f"invalid sign {sign!r} in the rule {text!r} (`rules`); use {meant!r}"
                )
        match = _RULE.fullmatch(text)
        bound = None if match is None else number_in(match["bound"])
        if match is None or bound is None:
            raise ArgumentError(
                f"invalid rule {text!r} (`rules`); examples of rules: 'ndcg@10 >= 0.4', "
                "'low(ndcg@10) >= 0.38', 'difference(ndcg@10) >= -0.01 where(country=US)' or "
                "'queries >= 1000'"
            )
        column, metric = _parts(match)
        instead = alternative(column or "", metric or "ndcg@10")
        if instead is not None:
            raise ArgumentError(
                f"the rule {text!r} (`rules`) is about {column!r}, which has no confidence "
                f"interval; {instead}"
            )
        return cls(text, column, metric, match["sign"], bound, where)

    @property
    def is_of_mean(self) -> bool:
        """Whether the rule is about a mean."""
        return (self.column or "mean") == "mean"

    def holds(self, value: float) -> bool:
        """Return whether a number is on the right side of the bound."""
        return _COMPARED[self.sign](value, self.bound)


def _parts(match: re.Match[str]) -> tuple[str | None, str | None]:
    """Return the column and the metric of a rule."""
    column, name = match["column"], match["name"]
    if column is not None and column not in NUMBERS and not QUANTILE.fullmatch(column):
        # A metric with parameters, as in "ndcg(gain='exp2')@10".
        column, name = None, match.string[: match.start("sign")].strip()
    return (name, None) if column is None and name in NUMBERS else (column, name)


def _with_result(function: F) -> F:
    """Return a function that raises `ArgumentError` if its first argument is a rule."""

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        result = kwargs.get("result", args[0] if args else None)
        for each in _as_list(result):
            if isinstance(each, str) and not is_path(each):
                raise ArgumentError(
                    f"`result` is missing; pass it first: check(result, rules); found {short(each)}"
                )
        return function(*args, **kwargs)

    return cast("F", checked)


@_with_result
@public
def check(
    result: Any,
    rules: Rules,
    *,
    undecided: Literal["pass", "fail"] | None = None,
    on_fail: Literal["raise", "return"] = "raise",
) -> pl.DataFrame:
    """Check rules about tables of statistics, as a quality gate for pipelines.

    Parameters
    ----------
    result
        The result of `summarize`, `compare` or `slices`, or a list of them.
    rules
        List of rules, or path of a TOML file. A rule is text:

        - "ndcg@10 >= 0.4" is about the metric's `mean`, in the result of `summarize`;
        - "difference(ndcg@10) >= -0.01" is about another column of the table. In a table of
          comparisons, this requires non-inferiority by 0.01, and together with
          "difference(ndcg@10) <= 0.01" equivalence;
        - "relative_difference(ndcg@10) >= -0.01" requires non-inferiority by 1% of the baseline's
          mean;
        - "queries >= 1000" is about all rows.

        The confidence interval of the number decides: `low` and `high` for `mean` and `difference`,
        `relative_low` and `relative_high` for `relative_difference`, `effect_low` and
        `effect_high` for `effect_size`. Counts (`queries`, `used`, `missing`, `undefined`, `wins`,
        `ties`, `losses`, `empty`), bounds such as `low` and `high_corrected`, and p-values decide
        by themselves. A rule about any other number, such as `std`, or a mean in a table of
        comparisons, is an error.

        A rule applies to every group, run and slice, unless it is restricted to some of them:
        "ndcg@10 >= 0.4 where(country=DE, run=new)", with values as they are in the result, or
        `{"rule": "ndcg@10 >= 0.4", "where": {"country": "DE", "run": "new"}}`, with text,
        numbers, booleans or None for null. "null" also means null, because TOML has no null. The
        name of a slice is its column, as "country", or for pairs "country & device".

        A TOML file has `[[rules]]` with `rule` and `where`, and optionally `undecided` at the top.
    undecided
        Verdict when the interval contains the threshold or is unknown: "fail" or "pass". The
        default is the value in the TOML file, or "fail". A group, run or slice without queries
        fails in any case.
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
        - `verdict`: "pass", "fail" or "undecided".

        A rule about a mean or a difference passes if it holds for the whole interval, fails if it
        holds for no part of it, and is undecided otherwise. If the interval is null, for example
        for a single query, equal values in all queries, a slice that is `small`, or
        `interval="none"`, rules are undecided, except for rules about counts such as
        "queries >= 100". All rules fail for a row with 0 `queries`, and a null mean or difference
        fails.

    Raises
    ------
    ArgumentError
        A rule is invalid, no table has its metric and columns, or its number has no interval.
    GateFailed
        A rule fails. The message lists all failures, and `verdicts` is the table.
    SourceError
        The file of rules cannot be read.

    Warns
    -----
    RankWarning
        Most rankings of a group, run or slice have no retrieved document, according to the column
        `empty` of `compare` and `slices`. Or a rule passes or fails by an interval or p-value
        that is unreliable for a sample of that `skewness` G, because it has fewer than 25 · G²
        values. G is corrected for the size of the sample. Intervals and tests of values of 0 or 1,
        and sequences with `bounds`, account for the skewness.

    Notes
    -----
    A rule with `where` fails if there are no such rows, so that a missing slice does not pass.
    Lazy tables are collected.

    The intervals of `compare` have its confidence level: rules on a result with the alternative
    "greater" are one-sided, and with "equivalent" two one-sided tests, each with this level.

    If all values of a metric are 0 or 1, rules about `mean`, `low` and `high` use the exact bounds
    of Clopper and Pearson (1934) instead of the table's interval by Wilson, which holds its level
    on average over all rates, but not for each. Of logs whose true mean is at the threshold, at
    most 2.5% pass at a confidence level of 95%. With weights or clusters, the bounds use the
    effective number of values.

    If several rows are about the same group, run or slice, the worst verdict counts. Rules about
    `mean`, `low` and `high` are about means, and rules about `difference` are about comparisons:
    if there is a table of `summarize`, the former ignore the other tables.

    References
    ----------
    Clopper & Pearson, The use of confidence or fiducial limits illustrated in the case of the
    binomial, 1934.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({"query": range(8), "rr": [1.0, 0.5, 0.5, 1.0] * 2})
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
    │ rr >= 0.2    ┆ 0.75  ┆ 0.526564 ┆ pass      │
    │ rr >= 0.7    ┆ 0.75  ┆ 0.526564 ┆ undecided │
    │ queries >= 3 ┆ 8.0   ┆ null     ┆ pass      │
    └──────────────┴───────┴──────────┴───────────┘
    """
    one_of("on_fail", on_fail, ("raise", "return"))
    read, unsure = read_rules(rules, undecided)
    tables = [_table(each) for each in _as_list(result)]
    if not tables:
        raise ArgumentError("`result` is empty; pass at least one table")
    for table in tables:
        large = table.filter(~pl.col("small")) if "small" in table.columns else table
        warn_of_empty(large, _keys(table))
    checks: dict[tuple[str, _Subject], _Check] = {}
    for rule in read:
        for subject, each in _checks(rule, tables).items():
            checks.setdefault((rule.text, subject), each)
    _warn_of_skewness([*checks.values()])
    verdicts = pl.DataFrame([each.as_row() for each in checks.values()], schema=TYPES, orient="row")
    failed = verdicts.filter(pl.col("verdict").is_in(failing(unsure)))
    if on_fail == "raise" and failed.height:
        failures = "\n".join(map(in_words, failed.iter_rows(named=True)))
        raise GateFailed(
            f"{failed.height} of {verdicts.height} checks failed:\n{failures}", verdicts
        )
    return verdicts


def read_rules(rules: Rules, undecided: str | None = None) -> tuple[list[Rule], str]:
    """Return the rules of a list or file, and the verdict for undecided ones."""
    one_of("undecided", undecided, (None, "pass", "fail"))
    if isinstance(rules, (str, PathLike)):
        rules, in_file = rules_in(rules)
        undecided = in_file if undecided is None else undecided
    undecided = "fail" if undecided is None else undecided
    one_of("undecided", undecided, ("pass", "fail"))
    if isinstance(rules, bytes) or not isinstance(rules, Sequence):
        raise ArgumentError(
            f"`rules` must be a list of rules or the path of a file; found {short(rules)}"
        )
    read = [Rule.read(each) for each in rules]
    if not read:
        raise ArgumentError("`rules` is empty; pass at least one rule")
    return read, undecided


def _as_list(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (list, tuple)) else [result]


def _table(given: Any) -> pl.DataFrame:
    rows = lazy(given, "result")
    schema = schema_of(rows)
    if is_moments(schema):
        raise ArgumentError(
            "`result` has moments, which have no interval; pass the result of pr.summarize or "
            "pr.compare of the moments"
        )
    if {*_OF_POWER} <= {*schema}:
        raise ArgumentError(
            "`result` is a table of pr.stats.power, which has no interval; pass the result of "
            "pr.compare"
        )
    if "queries" not in schema or "metric" not in schema:
        raise SchemaError(
            "columns 'metric' and 'queries' (`result`) not found; pass the result of pr.summarize, "
            "pr.compare or pr.slices"
        )
    quantiles = [name for name in schema if QUANTILE.fullmatch(name) and "." in name]
    table = collected(typed(rows, "result", {**_RESULTS, **dict.fromkeys(quantiles, NUMBER)}))
    for name in ("metric", "queries"):
        if count := table.get_column(name).null_count():
            raise DataError(
                f"column {name!r} (`result`) is null in {number_of(count, 'row')}; pass the whole "
                "result of pr.summarize, pr.compare or pr.slices"
            )
    return table


def _is_unicode(*values: Any) -> bool:
    """Return whether texts have no lone surrogates, as for invalid bytes of a command line."""
    try:
        "".join(map(str, values)).encode()
    except UnicodeEncodeError:
        return False
    return True


def rules_in(path: str | PathLike[str]) -> tuple[list[Any], Any]:
    """Return the rules of a TOML file, and its verdict for undecided ones."""
    try:
        content = read_toml(path, "rules")
    except SourceError as error:
        if _RULE.fullmatch(fspath(path)) is None:
            raise
        raise SourceError(
            f"`rules` {fspath(path)!r} is not a file; pass rules as a list"
        ) from error
    unknown = set(content) - {"rules", "undecided"}
    if unknown or not isinstance(content.get("rules"), list):
        raise ArgumentError(
            f"{fspath(path)!r} must have [[rules]] and optionally `undecided`; "
            f"found {sorted(content)}"
        )
    return content["rules"], content.get("undecided")


class _Check(NamedTuple):
    """The verdict of a rule on a group, run or slice."""

    rule: str
    where: str
    decision: Decision
    #: The row that it is about; None if there is none.
    row: Mapping[str, Any] | None

    def as_row(self) -> tuple[Any, ...]:
        """Return the row of the result."""
        value, low, high, verdict, _ = self.decision
        queries = None if self.row is None else self.row["queries"]
        return self.rule, self.where, value, low, high, queries, verdict


def _checks(rule: Rule, tables: Sequence[pl.DataFrame]) -> dict[_Subject, _Check]:
    """Return the worst verdict on each group, run or slice that a rule is about."""
    about = [(table, column) for table in tables if (column := _column(rule, table)) is not None]
    if not about:
        raise _unmatched_rule(rule, tables)
    of_means = [table for table, _ in about if not is_comparison(table.columns)]
    prefers_means = (rule.column or "mean") in _OF_MEANS and bool(of_means)
    known = {frozenset(_keys(table)) for table in of_means}
    if prefers_means:
        about.sort(key=lambda each: is_comparison(each[0].columns))
    checks: dict[_Subject, _Check] = {}
    for table, column in about:
        rows, keys = _rows(rule, table), _keys(table)
        fills_gaps = prefers_means and is_comparison(table.columns)
        if fills_gaps:
            # Means lack only groups in which a run has no rankings.
            rows = rows.filter(queries=0) if frozenset(keys) in known else rows.clear()
        else:
            _require_interval(rule, column, table)
            _warn_of_predictions(rule, column, table)
        if rule.metric is None and column not in _ANY_METRIC:
            keys.append("metric")
        for row in rows.iter_rows(named=True):
            texts = _texts(row, keys)
            subject = frozenset(texts.items())
            if fills_gaps and subject in checks:
                continue
            check = _Check(rule.text, _listed(texts), decide(row, column, rule.holds), row)
            if subject not in checks or _severity(check) > _severity(checks[subject]):
                checks[subject] = check
    if not checks:
        texts = _texts(rule.where, [*rule.where])
        nothing = Decision(None, None, None, "fail")
        checks[frozenset(texts.items())] = _Check(rule.text, _listed(texts), nothing, None)
    return checks


def _rows(rule: Rule, table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table with the metric and the values that a rule names."""
    rows = table.filter(pl.col("metric") == rule.metric) if rule.metric else table
    for name, value in rule.where.items():
        rows = rows.filter(_row_matches(table.schema, name, value))
    return rows


def _severity(check: _Check) -> int:
    return -WORST_FIRST.index(check.decision.verdict)


def _require_interval(rule: Rule, column: str, table: pl.DataFrame) -> None:
    """Raise `ArgumentError` if a table has an estimate without its confidence interval."""
    if column == "mean" and is_comparison(table.columns):
        metric = rule.metric or table.get_column("metric")[0]
        raise ArgumentError(
            f"the rule {rule.text!r} (`rules`) is about a mean, and comparisons have no interval "
            "of means; pass the result of `summarize` too, with the groups or slices as `by`, or "
            f"write a rule on 'difference({metric})'"
        )
    missing = [name for name in INTERVALS.get(column, ()) if name not in table.columns]
    if missing:
        raise ArgumentError(
            f"the rule {rule.text!r} (`rules`) needs the interval of {column!r}: column "
            f"{missing[0]!r} (`result`) not found; pass the whole result of `summarize` or "
            "`compare`"
        )


def _warn_of_predictions(rule: Rule, column: str, table: pl.DataFrame) -> None:
    """Warn of a rule about a number that has no interval with predictions."""
    if column in ("relative_difference", "effect_size") and "predicted" in table.columns:
        warn(
            f"the rule {rule.text!r} is undecided: with `predictions`, {column!r} has no interval; "
            "use 'difference'"
        )


def _warn_of_skewness(checks: Sequence[_Check]) -> None:
    """Warn of verdicts that rest on intervals of few, skewed values."""
    skewed = [check for check in checks if check.decision.is_skewed]
    if not skewed:
        return
    first = skewed[0]
    row = first.row or {}
    where = f" ({displayed(first.where)})" if first.where else ""
    warn(
        f"{number_of(len(skewed), 'verdict')} may be wrong, because intervals are unreliable for "
        f"so few values with so much skewness; the first is {first.rule!r}{where} with "
        f"{number_of(row['queries'], 'query', 'queries')} and a skewness of {row['skewness']:.2g}"
    )


def _keys(table: pl.DataFrame) -> list[str]:
    """Return the columns that identify the group, run or slice of a row."""
    return [
        name
        for name, dtype in table.schema.items()
        if name not in _NOT_KEYS and not (dtype.is_float() and QUANTILE.fullmatch(name))
    ]


def _texts(row: Mapping[str, Any], keys: Sequence[str]) -> dict[str, str]:
    """Return the names and values of the group, run or slice of a row."""
    if not {*_SLICE} <= {*keys}:
        return {name: _text(row[name]) for name in keys}
    column, value = _SLICE
    names = {value: row[column]}
    return {names.get(name, name): _text(row[name]) for name in keys if name != column}


def _listed(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _text(value: Any) -> str:
    """Return a value as text; the text "null" is in quotes, null is not."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return '"null"' if value == "null" else str(value)


def _restricted(text: str, where: Any) -> tuple[str, Mapping[str, Any]]:
    """Return a rule without its `where(...)`, and the columns and values of either `where`."""
    if where is not None and not isinstance(where, Mapping):
        raise ArgumentError(
            "`where` of a rule (`rules`) must be a dict of columns and values; "
            f"found {short(where)}"
        )
    match = _WHERE.fullmatch(text)
    if match is None:
        return text, where or {}
    values = {name.strip(): text.strip() for name, text in re.findall(_PAIR, match["pairs"])}
    texts = {name: None if text == "null" else text.strip('"') for name, text in values.items()}
    return match["rule"].strip(), {**texts, **(where or {})}


def _row_matches(schema: pl.Schema, name: str, value: Any) -> pl.Expr:
    """Return whether a row is about a value of a column, or about a slice."""
    if name in schema:
        return _value_matches(schema, name, value)
    column, values = _SLICE
    return (pl.col(column) == name) & _value_matches(schema, values, value)


def _value_matches(schema: pl.Schema, name: str, value: Any) -> pl.Expr:
    """Return whether a column has a value of `where`."""
    column = pl.col(name)
    text = column.cast(pl.String)
    if value is None:
        return column.is_null()
    if value == "null":  # TOML has no null
        return column.is_null() | (text == "null")
    if isinstance(value, bool):
        return text.is_in([str(value).lower(), str(value)])
    if isinstance(value, (int, float)):
        if schema[name].is_numeric():
            return column == value
        whole = [f"{value:.0f}", f"{value:.1f}"] if float(value).is_integer() else []
        return text.is_in([str(value), *whole])
    return text == str(value)


def _column(rule: Rule, table: pl.DataFrame) -> str | None:
    """Return the column of a table that a rule is about; None if it is about another table."""
    if rule.metric is not None and rule.metric not in table.get_column("metric"):
        return None
    if not {*rule.where} <= _names(table):
        return None
    if rule.column is not None:
        return rule.column if rule.column in table.columns else None
    # In a comparison, a rule about the metric is about the run's mean.
    return "mean" if "mean" in table.columns else None


def _names(table: pl.DataFrame) -> set[str]:
    """Return the columns of a table, and those that its slices are values of."""
    sliced = table.get_column(_SLICE[0]).unique() if {*_SLICE} <= {*table.columns} else ()
    return {*table.columns, *sliced}


def _unmatched_rule(rule: Rule, tables: Iterable[pl.DataFrame]) -> ArgumentError:
    metrics = sorted({name for table in tables for name in table.get_column("metric").unique()})
    columns = sorted({name for table in tables for name in _names(table)})
    where = f" where({_listed(_texts(rule.where, [*rule.where]))})" if rule.where else ""
    of_column = re.fullmatch(r"(\w+)\((.+)\)", rule.metric or "")
    if of_column and of_column[2] in metrics:  # an unknown column, as in "diff(ndcg@10)"
        close = hint(of_column[1], [name for name in columns if name in NUMBERS])
        close = re.sub(r"'(\w+)'", lambda name: f"'{name[1]}({of_column[2]})'", close)
    elif rule.metric not in metrics:
        close = hint(rule.metric or "", metrics)
    elif rule.column in COLUMNS and rule.column not in columns:
        close = f" The result of pr.compare has the column {rule.column!r}."
    else:
        close = ""
    return ArgumentError(
        f"no table has the metric and the columns of the rule {rule.text + where!r} (`rules`); "
        f"available metrics: {metrics}, columns: {columns}.{close}"
    )
