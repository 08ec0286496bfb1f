"""Verdicts in words and in files: JUnit XML for build servers, and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from polars_rank._pages import Page, PageTable, Verdict
from polars_rank._params import one_of, public
from polars_rank._texts import displayed
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, number_of, short
from polars_rank.frames.tables import collected, lazy
from polars_rank.frames.typed_results import COUNT, NUMBER, TEXT, typed
from polars_rank.io.outputs import new_file


def failing(undecided: str) -> list[str]:
    """Return the verdicts that fail a gate."""
    return ["fail", "undecided"] if undecided == "fail" else ["fail"]


@public
def write_junit(
    verdicts: Any, path: str | Path, *, undecided: str = "fail", overwrite: bool = False
) -> None:
    """Write verdicts as JUnit XML, for build servers.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> values = pl.DataFrame({"query": range(40), "rr": [1.0, 0.5] * 20})
    >>> verdicts = pr.check(pr.summarize(values), ["mean(rr) >= 0.5"])
    >>> with TemporaryDirectory() as folder:
    ...     pr.stats.write_junit(verdicts, Path(folder, "verdicts"))
    ...     print(Path(folder, "verdicts").read_text())
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites>
      <testsuite name="polars_rank" tests="1" failures="0" skipped="0">
        <properties>
          <property name="format_version" value="1" />
        </properties>
        <testcase classname="all" name="mean(rr) &gt;= 0.5" />
      </testsuite>
    </testsuites>

    Parameters
    ----------
    verdicts
        The result of `check`, or `GateFailed.verdicts`.
    path
        Path of the file.
    undecided
        Whether undecided checks "fail" or "pass". Those that pass are marked as skipped.
    overwrite
        Whether to replace an existing file.

    Raises
    ------
    ArgumentError
        `verdicts` has no rows, or another parameter is invalid.
    """
    one_of("undecided", undecided, ("pass", "fail"))
    _write(verdicts, path, lambda page: page.junit(undecided), overwrite=overwrite)


@public
def write_markdown(verdicts: Any, path: str | Path, *, overwrite: bool = False) -> None:
    """Write verdicts as a Markdown table, for pull requests and job summaries.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> values = pl.DataFrame({"query": range(40), "rr": [1.0, 0.5] * 20})
    >>> verdicts = pr.check(pr.summarize(values), ["mean(rr) >= 0.5"])
    >>> with TemporaryDirectory() as folder:
    ...     pr.stats.write_markdown(verdicts, Path(folder, "verdicts"))
    ...     print(Path(folder, "verdicts").read_text(), end="")
    | verdict | rule | where | value | interval | queries |
    | --- | --- | --- | ---: | --- | ---: |
    | pass | mean(rr) >= 0.5 |  | 0.75 | [0.669, 0.831] | 40 |

    Parameters
    ----------
    verdicts
        The result of `check`, or `GateFailed.verdicts`.
    path
        Path of the file.
    overwrite
        Whether to replace an existing file.

    Raises
    ------
    ArgumentError
        `verdicts` has no rows, or another parameter is invalid.
    """
    _write(verdicts, path, Page.markdown, overwrite=overwrite)


def _write(
    verdicts: Any, path: str | Path, text_of: Callable[[Page], str], *, overwrite: bool
) -> None:
    table = lazy(verdicts, "verdicts")
    text = text_of(page_of_verdicts(table.collect()))
    with new_file(path, overwrite=overwrite, inputs=[table]) as part:
        part.write_text(text, encoding="utf-8")


#: The types of the columns of verdicts.
TYPES: dict[str, pl.DataType] = {
    "rule": TEXT, "where": TEXT, "value": NUMBER, "low": NUMBER, "high": NUMBER, "queries": COUNT,
    "verdict": TEXT, "reason": TEXT,
}  # fmt: skip
#: Verdicts, from the worst to the best.
WORST_FIRST = ("fail", "undecided", "pass")


def page_of_verdicts(verdicts: pl.DataFrame) -> Page:
    """Return the page of verdicts; raise an error if nothing was checked, or for other rows."""
    Columns.find(verdicts.schema, {"verdicts": [*TYPES]})
    table = collected(typed(verdicts.lazy(), "verdicts", TYPES))
    table = table.with_columns(pl.col("where").fill_null(""))
    rows = table.to_dicts()
    if not rows:
        raise ArgumentError(
            "has no rows: nothing was checked; pass the result of `check`", "verdicts"
        )
    for row in rows:
        if row["rule"] is None or row["verdict"] not in WORST_FIRST:
            raise DataError(
                "`verdicts` has a row that is not of `check`: 'rule' must be text, and 'verdict' "
                f"one of {', '.join(map(repr, WORST_FIRST))}; found {short(row)}"
            )
    return Page("", tables=[table_of_verdicts(table)], cases=[*map(_case, rows)])


def table_of_verdicts(verdicts: pl.DataFrame, caption: str = "") -> PageTable:
    """Return verdicts for readers."""
    rows = verdicts.iter_rows(named=True)
    texts = [(_number(row["value"]), _interval(row), row["queries"]) for row in rows]
    numbers = pl.DataFrame(
        texts, {"value": pl.String, "interval": pl.String, "queries": pl.Int64}, orient="row"
    )
    return PageTable(verdicts.select("verdict", "rule", "where").hstack(numbers), caption)


def _case(row: Mapping[str, Any]) -> Verdict:
    name = f"{row['rule']} ({row['where']})" if row["where"] else row["rule"]
    return Verdict(name, row["where"], row["verdict"], in_words(row))


def in_words(row: Mapping[str, Any]) -> str:
    """Return a verdict as a sentence."""
    where = f" ({displayed(row['where'])})" if row["where"] else ""
    beginning = f"{displayed(row['rule'])}{where}: {row['verdict']}"
    if row["queries"] is None:
        return f"{beginning}, no such rows"
    if not row["queries"]:
        return f"{beginning}, no queries"
    if row["value"] is None:
        return f"{beginning}, the value is null"
    interval = f", interval {_interval(row)}" if row["low"] is not None else ""
    if row["verdict"] == "undecided" and not interval:
        interval = f", no interval ({number_of(row['queries'], 'query', 'queries')})"
    return f"{beginning}, found {_number(row['value'])}{interval}"


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"[{row['low']:.4g}, {row['high']:.4g}]"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
