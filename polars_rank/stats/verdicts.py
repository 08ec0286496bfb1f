"""Verdicts in words, as JUnit XML, and as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from polars_rank import _texts
from polars_rank._formats import FORMAT_VERSION, JUNIT
from polars_rank._params import one_of, public
from polars_rank._texts import displayed, visible
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, number_of, short
from polars_rank.frames.results import COUNT, NUMBER, TEXT, typed
from polars_rank.frames.tables import collected, lazy
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
    table = lazy(verdicts, "verdicts")
    text = junit(table.collect(), undecided)
    with new_file(path, overwrite=overwrite, inputs=[table]) as part:
        part.write_text(text, encoding="utf-8")


def junit(verdicts: pl.DataFrame, undecided: str) -> str:
    """Return verdicts as JUnit XML."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415  (slow to import, rarely needed)

    one_of("undecided", undecided, ("pass", "fail"))
    failed = failing(undecided)
    rows = _rows(verdicts)
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
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name=FORMAT_VERSION, value=str(JUNIT))
    for row in rows:
        rule, where = visible(row["rule"]), visible(row["where"])
        name = f"{rule} ({where})" if where else rule
        case = ET.SubElement(suite, "testcase", classname=where or "all", name=name)
        if row["verdict"] in failed:
            ET.SubElement(case, "failure", message=in_words(row), type=row["verdict"])
        elif row["verdict"] == "undecided":
            ET.SubElement(case, "skipped", message=in_words(row))
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text.decode()


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
    | --- | --- | --- | ---: | :---: | ---: |
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
    table = lazy(verdicts, "verdicts")
    text = markdown(table.collect())
    with new_file(path, overwrite=overwrite, inputs=[table]) as part:
        part.write_text(text, encoding="utf-8")


def markdown(verdicts: pl.DataFrame) -> str:
    """Return verdicts as a Markdown table."""
    lines = [
        "| verdict | rule | where | value | interval | queries |",
        "| --- | --- | --- | ---: | :---: | ---: |",
    ]
    for row in _rows(verdicts):
        interval = "" if row["low"] is None else f"[{row['low']:.4g}, {row['high']:.4g}]"
        texts = [_texts.markdown(row[name]) for name in ("rule", "where")]
        cells = [row["verdict"], *texts, _number(row["value"]), interval]
        cells.append("" if row["queries"] is None else f"{row['queries']:,}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


#: The types of the columns of verdicts.
TYPES: dict[str, pl.DataType] = {
    "rule": TEXT,
    "where": TEXT,
    "value": NUMBER,
    "low": NUMBER,
    "high": NUMBER,
    "queries": COUNT,
    "verdict": TEXT,
    "reason": TEXT,
}
#: Verdicts, from the worst to the best.
WORST_FIRST = ("fail", "undecided", "pass")


def _rows(verdicts: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of verdicts; raise an error if nothing was checked, or for other rows."""
    Columns.find(verdicts.schema, {"verdicts": [*TYPES]})
    table = collected(typed(verdicts.lazy(), "verdicts", TYPES))
    rows = [{**row, "where": row["where"] or ""} for row in table.iter_rows(named=True)]
    if not rows:
        raise ArgumentError(
            "`verdicts` has no rows: nothing was checked; pass the result of `check`"
        )
    for row in rows:
        if row["rule"] is None or row["verdict"] not in WORST_FIRST:
            raise DataError(
                "`verdicts` has a row that is not of `check`: 'rule' must be text, and 'verdict' "
                f"one of {', '.join(map(repr, WORST_FIRST))}; found {short(row)}"
            )
    return rows


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
    interval = "" if row["low"] is None else f", interval [{row['low']:.4g}, {row['high']:.4g}]"
    if row["verdict"] == "undecided" and not interval:
        interval = f", no interval ({number_of(row['queries'], 'query', 'queries')})"
    return f"{beginning}, found {_number(row['value'])}{interval}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
