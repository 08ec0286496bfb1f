"""`check`: rules over tables of statistics, and a verdict on each."""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from xml.etree import ElementTree as ET

import polars as pl

from polars_rank._params import is_number, one_of
from polars_rank.errors import (
    ArgumentError,
    GateFailed,
    SchemaError,
    SourceError,
    hint,
    number_of,
)
from polars_rank.frames.tables import lazy
from polars_rank.io.files import new_file
from polars_rank.stats.tables import EMPTY, warn_of_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Verdict: TypeAlias = Literal["pass", "fail", "undecided"]
#: The group, run or slice that a verdict is about: columns and their values as text.
_Subject: TypeAlias = "frozenset[tuple[str, str]]"
Rules: TypeAlias = "str | PathLike[str] | Sequence[str | Mapping[str, Any] | Rule]"

_COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_RULE = re.compile(
    r"\s*(?:(?P<column>\w+)\s*\()?\s*(?P<name>[^\s<>].*?)\s*\)?\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>\S+)\s*"
)
#: Signs that rules do not have, and what is meant by them.
_MISWRITTEN = {"=>": ">=", "=<": "<=", "\N{GREATER-THAN OR EQUAL TO}": ">=",
               "\N{LESS-THAN OR EQUAL TO}": "<="}  # fmt: skip
_NUMBERS = (
    *("mean", "difference", "relative_difference", "low", "high", "std", "std_error", "p_value"),
    *("p_corrected", "effect_size", "baseline_mean", "queries", "missing", "undefined", "wins"),
    *("ties", "losses", "contribution", EMPTY),
)
#: What is known exactly, of however few queries.
_COUNTS = ("queries", "missing", "undefined", "wins", "ties", "losses", EMPTY)
#: The counts that are the same for all metrics.
_OF_ALL_METRICS = ("queries", "missing", EMPTY)
#: Columns of summaries that in comparisons are of the difference, or have no interval.
_OF_MEANS = ("mean", "low", "high")
#: Columns that do not say which group, run or slice a row is about; and names of quantiles.
_NO_KEYS = {*_NUMBERS, "metric", "other_mean", "small", "warning"}
_QUANTILE = re.compile(r"q[01][.\de-]*")
#: The order of verdicts, from the worst.
WORST_FIRST = ("fail", "undecided", "pass")
_SCHEMA = {
    "rule": pl.String,
    "where": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "queries": pl.Int64,
    "verdict": pl.String,
}


@dataclass(frozen=True)
class Rule:
    """One rule: a number of a metric's rows, a sign and a bound."""

    text: str
    column: str | None
    metric: str | None
    sign: str
    bound: float
    where: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Rule | str | Mapping[str, Any]) -> Rule:
        """Read a rule as it is written in Python or TOML."""
        if isinstance(given, Rule):
            return given
        if isinstance(given, str):
            given = {"rule": given}
        unknown = set(given) - {"rule", "where"} if isinstance(given, Mapping) else {str(given)}
        if unknown or not isinstance(given.get("rule"), str):
            message = f"a rule must be text, or have `rule` and perhaps `where`; found {given!r}"
            raise ArgumentError(message, "rule", "where")
        text, where = given["rule"].strip(), given.get("where", {})
        for sign, meant in _MISWRITTEN.items():
            if sign in text:
                message = f"the rule {text!r} has {sign!r}; write {meant!r}"
                raise ArgumentError(message)
        match = _RULE.fullmatch(text)
        if match is None or not _is_float(match["bound"]):
            message = (
                f"cannot read the rule {text!r}; write it like 'ndcg@10 >= 0.4', "
                "'low(ndcg@10) >= 0.38', 'difference(ndcg@10) >= -0.01' or 'queries >= 1000'"
            )
            raise ArgumentError(message)
        if not isinstance(where, Mapping):
            message = f"`where` of a rule must be columns and their values; found {where!r}"
            raise ArgumentError(message, "where")
        column, name = match["column"], match["name"]
        bound = float(match["bound"])
        if column is not None and column not in _NUMBERS:
            # A metric with parameters, as in "ndcg(gain='exp2')@10".
            column, name = None, text[: match.start("sign")].strip()
        if column is None and name in _NUMBERS:
            return cls(text, name, None, match["sign"], bound, where)
        return cls(text, column, name, match["sign"], bound, where)


def check(
    result: Any,
    rules: Rules,
    *,
    undecided: Literal["pass", "fail"] | None = None,
    on_fail: Literal["raise", "return"] = "raise",
) -> pl.DataFrame:
    """Check rules over tables of statistics; a gate for pipelines.

    Parameters
    ----------
    result
        What `summarize`, `compare` or `slices` returns, or several such tables.
    rules
        Rules, or the path of a TOML file with them. A rule is text:

        - "ndcg@10 >= 0.4": of the metric's `mean`;
        - "low(ndcg@10) >= 0.38": of another column of the table; "difference(ndcg@10) >= -0.01"
          in a table of comparisons is non-inferiority by 0.01;
        - "queries >= 1000": of all rows.

        With `{"rule": "ndcg@10 >= 0.4", "where": {"country": "DE"}}` it holds for these rows,
        otherwise for every row: each group, run or slice. Values are compared as what they are
        in the column: text, numbers, booleans, and None for null; "null", too, is null, which
        TOML lacks. In TOML, `[[rules]]` with `rule` and `where`; `undecided` may stand at the
        top.
    undecided
        Whether a rule that the interval straddles passes or fails: "fail" unless given here or
        in the file.
    on_fail
        "raise" `GateFailed`, or "return" the table.

    Returns
    -------
    DataFrame
        A row per rule and subject: a group, run or slice. The columns are `rule`, `where` (which
        subject; with the metric, if the rule names none and their values differ), `value`,
        `low`, `high`, `queries` and `verdict`: "pass", "fail" or "undecided". For a mean or
        difference with an interval, a rule passes where the whole interval keeps it, fails where
        none of it does, and is undecided between. Where the interval is null, as of a single
        query, a slice that is `small`, a group in which a run has no rankings, or after
        `summarize(interval="none")`, all rules but those on counts, such as "queries >= 100", are
        undecided. Any other null value fails.

    Warns
    -----
    RankWarning
        For groups, runs and slices most of whose rankings have no retrieved document, as the
        column `empty` of `compare` and `slices` says.

    Raises
    ------
    GateFailed
        If a rule fails; it lists all that do, and has the table as `verdicts`.
    ArgumentError
        For a rule that cannot be read, or that is about a metric or column of no table.
    SourceError
        For a file that cannot be read.

    Notes
    -----
    A rule with `where` whose rows are not there fails: a gate must not open because a slice is
    gone. Lazy tables are collected.

    Of several rows on one subject the worst verdict counts, such as `queries` of a summary and
    those of a comparison, which are in both runs. Rules on `mean`, `low` and `high` are about
    means, and those on `difference` about comparisons: where a table of `summarize` is given,
    the former do not look at the others.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> lists = pl.DataFrame({"query": range(8), "rr": [1.0, 0.5, 0.5, 1.0] * 2})
    >>> table = pr.summarize(lists)
    >>> found = pr.check(table, ["rr >= 0.2", "rr >= 0.7", "queries >= 3"], undecided="pass")
    >>> found.select("rule", "value", "low", "verdict")
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
    tables = [_table(each) for each in (result if _several(result) else [result])]
    for table in tables:
        large = table.filter(~pl.col("small")) if "small" in table.columns else table
        warn_of_empty(large, _keys(table))
    found: dict[tuple[str, _Subject], tuple[Any, ...]] = {}
    for rule in read:
        for subject, row in _verdicts(rule, tables).items():
            found.setdefault((rule.text, subject), row)
    verdicts = pl.DataFrame([*found.values()], schema=_SCHEMA, orient="row")
    failed = verdicts.filter(pl.col("verdict").is_in(failing(unsure)))
    if on_fail == "raise" and failed.height:
        told = "\n".join(map(_told, failed.iter_rows(named=True)))
        message = f"{failed.height} of {verdicts.height} checks failed:\n{told}"
        raise GateFailed(message, verdicts)
    return verdicts


def read_rules(rules: Rules, undecided: str | None = None) -> tuple[list[Rule], str]:
    """Return the rules of a list or file, and whether undecided ones "pass" or "fail"."""
    if isinstance(rules, (str, PathLike)):
        rules, in_file = rules_in(Path(rules))
        undecided = undecided or in_file
    undecided = undecided or "fail"
    one_of("undecided", undecided, ("pass", "fail"))
    if not isinstance(rules, Sequence):
        message = f"`rules` must be a list of rules, or the path of a file; found {rules!r}"
        raise ArgumentError(message, "rules")
    read = [Rule.read(each) for each in rules]
    if not read:
        message = "`rules` is empty; a gate without rules is always open"
        raise ArgumentError(message, "rules")
    return read, undecided


def failing(undecided: str) -> list[str]:
    """Return the verdicts that fail a gate."""
    return ["fail", "undecided"] if undecided == "fail" else ["fail"]


def write_junit(
    verdicts: Any, path: str | Path, *, undecided: str = "fail", overwrite: bool = False
) -> None:
    """Write verdicts as JUnit XML, which build servers show.

    Parameters
    ----------
    verdicts
        What `check` returns, or `GateFailed.verdicts`.
    path
        The file.
    undecided
        Whether undecided checks "fail" or "pass"; those that pass are marked as skipped.
    overwrite
        Replace the file if it is there already.
    """
    one_of("undecided", undecided, ("pass", "fail"))
    failed = failing(undecided)
    rows = [*lazy(verdicts).collect().iter_rows(named=True)]
    counts = {
        "tests": len(rows),
        "failures": sum(row["verdict"] in failed for row in rows),
        "skipped": sum(row["verdict"] == "undecided" for row in rows),
    }
    if "undecided" in failed:
        counts["skipped"] = 0
    root = ET.Element("testsuites")
    attributes = {name: str(count) for name, count in counts.items()}
    suite = ET.SubElement(root, "testsuite", {"name": "polars_rank", **attributes})
    for row in rows:
        where = row["where"]
        name = f"{row['rule']} ({where})" if where else row["rule"]
        case = ET.SubElement(suite, "testcase", classname=where or "all", name=name)
        if row["verdict"] in failed:
            ET.SubElement(case, "failure", message=_told(row), type=row["verdict"])
        elif row["verdict"] == "undecided":
            ET.SubElement(case, "skipped", message=_told(row))
    ET.indent(root)
    with new_file(path, overwrite=overwrite) as part:
        ET.ElementTree(root).write(part, encoding="utf-8", xml_declaration=True)


def write_markdown(verdicts: Any, path: str | Path, *, overwrite: bool = False) -> None:
    """Write verdicts as a Markdown table, for a pull request or a job's summary.

    Parameters
    ----------
    verdicts
        What `check` returns, or `GateFailed.verdicts`.
    path
        The file.
    overwrite
        Replace the file if it is there already.
    """
    lines = [
        "| verdict | rule | where | value | interval | queries |",
        "| --- | --- | --- | ---: | :---: | ---: |",
    ]
    for row in lazy(verdicts).collect().iter_rows(named=True):
        interval = "" if row["low"] is None else f"{row['low']:.4g} … {row['high']:.4g}"
        cells = [row["verdict"], row["rule"], row["where"], _number(row["value"]), interval]
        cells.append("" if row["queries"] is None else f"{row['queries']:,}")
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    with new_file(path, overwrite=overwrite) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _told(row: Mapping[str, Any]) -> str:
    where = f" ({row['where']})" if row["where"] else ""
    if row["value"] is None and row["queries"] is None:
        return f"{row['rule']}{where}: {row['verdict']}, there are no such rows"
    if row["value"] is None:
        return f"{row['rule']}{where}: {row['verdict']}, there is no value"
    interval = "" if row["low"] is None else f", interval {row['low']:.4g} to {row['high']:.4g}"
    if row["verdict"] == "undecided" and not interval:
        interval = f", without an interval ({number_of(row['queries'], 'query', 'queries')})"
    return f"{row['rule']}{where}: {row['verdict']}, found {_number(row['value'])}{interval}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _several(result: Any) -> bool:
    return isinstance(result, (list, tuple))


def _table(given: Any) -> pl.DataFrame:
    table: pl.DataFrame = lazy(given).collect()
    if "queries" not in table.columns or "metric" not in table.columns:
        message = (
            "the table has no columns 'metric' and 'queries'; give check what pr.summarize, "
            "pr.compare or pr.slices returns"
        )
        raise SchemaError(message)
    return table


def _is_float(text: str) -> bool:
    try:
        return is_number(float(text))
    except ValueError:
        return False


def rules_in(path: Path) -> tuple[list[Any], Any]:
    """Return the rules of a TOML file, and what it says of undecided ones."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"the rules in {str(path)!r} cannot be read: {error}"
        if _RULE.fullmatch(str(path)):
            message = f"{str(path)!r} is read as the path of a file; give rules as a list of them"
        raise SourceError(message) from error
    unknown = set(found) - {"rules", "undecided"}
    if unknown or not isinstance(found.get("rules"), list):
        message = (
            f"{str(path)!r} must have [[rules]] and perhaps `undecided`; found {sorted(found)}"
        )
        raise ArgumentError(message, "undecided")
    return found["rules"], found.get("undecided")


def _verdicts(rule: Rule, tables: Sequence[pl.DataFrame]) -> dict[_Subject, tuple[Any, ...]]:
    """Return the verdict on each subject of a rule: of several rows about one, the worst."""
    about = [(table, column) for table in tables if (column := _column(rule, table)) is not None]
    if not about:
        raise _about_nothing(rule, tables)
    of_means = [table for table, _ in about if "difference" not in table.columns]
    prefers_means = (rule.column or "mean") in _OF_MEANS and bool(of_means)
    known = {frozenset(_keys(table)) for table in of_means}
    found: dict[_Subject, tuple[Any, ...]] = {}
    for table, column in about:
        rows = table.filter(pl.col("metric") == rule.metric) if rule.metric else table
        for name, value in rule.where.items():
            rows = rows.filter(_is(table.schema, name, value))
        keys = _keys(table)
        if prefers_means and "difference" in table.columns:
            # Only a group in which a run has no rankings is missing from the means.
            rows = rows.filter(queries=0) if frozenset(keys) in known else rows.clear()
        if rule.metric is None and column not in _OF_ALL_METRICS:
            keys.append("metric")
        for row in rows.iter_rows(named=True):
            texts = {name: _text(row[name]) for name in keys}
            subject = frozenset(texts.items())
            where = ", ".join(f"{name}={text}" for name, text in texts.items())
            made = _verdict(rule, column, row, where)
            if subject not in found or _badness(made) > _badness(found[subject]):
                found[subject] = made
    if not found:
        texts = {name: _text(value) for name, value in rule.where.items()}
        where = ", ".join(f"{name}={text}" for name, text in texts.items())
        found[frozenset(texts.items())] = (rule.text, where, None, None, None, None, "fail")
    return found


def _badness(verdict: tuple[Any, ...]) -> int:
    return -WORST_FIRST.index(verdict[-1])


def _keys(table: pl.DataFrame) -> list[str]:
    """Return the columns that say which group, run or slice a row is about."""
    return [
        name
        for name, dtype in table.schema.items()
        if name not in _NO_KEYS and not (dtype.is_float() and _QUANTILE.fullmatch(name))
    ]


def _text(value: Any) -> str:
    """Write the value of a column; the text "null" in quotes, unlike null."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return '"null"' if value == "null" else str(value)


def _is(schema: pl.Schema, name: str, value: Any) -> pl.Expr:
    """Return whether a column has the value of a rule's `where`."""
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
    """Return which column of a table a rule is about; none if it is about another table."""
    if rule.metric is not None and rule.metric not in table.get_column("metric"):
        return None
    if not set(rule.where) <= set(table.columns):
        return None
    if rule.column is not None:
        return rule.column if rule.column in table.columns else None
    # In a comparison, a rule on the metric is about the run's own mean.
    return "mean"


def _about_nothing(rule: Rule, tables: Iterable[pl.DataFrame]) -> ArgumentError:
    metrics = sorted({name for table in tables for name in table.get_column("metric").unique()})
    columns = sorted({name for table in tables for name in table.columns})
    close = "" if rule.metric in metrics else hint(rule.metric or "", metrics)
    return ArgumentError(
        f"the rule {rule.text!r} is about no table: there are the metrics {metrics} and the "
        f"columns {columns}.{close}"
    )


def _verdict(rule: Rule, column: str, row: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    value, low, high = row[column], None, None
    # The interval of a comparison is that of the difference.
    estimated = "difference" if "difference" in row else "mean"
    if column == estimated:
        low, high = row.get("low"), row.get("high")
    keeps = _COMPARED[rule.sign]
    gone = estimated == "difference" and not row["queries"]
    known = gone or row.get(estimated) is not None
    unsure = {"low", "high"} <= row.keys() and (row["low"] is None or row["high"] is None)
    if known and (unsure or row.get("small")) and column not in _COUNTS:
        verdict = "undecided"
    elif value is None:
        verdict = "fail"
    elif low is None or high is None:
        verdict = "pass" if keeps(value, rule.bound) else "fail"
    else:
        kept = [keeps(bound, rule.bound) for bound in (low, high)]
        verdict = "pass" if all(kept) else "undecided" if any(kept) else "fail"
    number = None if value is None else float(value)
    return rule.text, where, number, low, high, row["queries"], verdict
