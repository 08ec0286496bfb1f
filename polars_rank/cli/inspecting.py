"""The command `inspect`: the columns, counts and invalid rows of a log.

Invalid rows are counted and do not raise errors. Memory does not grow with the log.
"""

from __future__ import annotations

import shlex
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import polars as pl

from polars_rank.cli import MISUSED
from polars_rank.cli.messages import in_options, say
from polars_rank.columns import is_relevant, without_run
from polars_rank.diagnostics.log_facts import label_counts, log_counts
from polars_rank.errors import RankError, hint, number_of
from polars_rank.evaluation.log import Log
from polars_rank.frames.layouts import inspect_rows
from polars_rank.frames.tables import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polars_rank.cli.calls import Call

#: Up to this number, labels are listed instead of their range, and runs are listed.
_MAX_LABELS = _MAX_RUNS = 12
#: Facts about a run begin with this text.
_RUN = "queries of "
#: Orders of rows → how a log in this order is evaluated.
_LAYOUTS = {
    "sorted": "streams in constant memory",
    "adjacent": "streams in constant memory, plus 8 bytes per ranking",
    "shuffled": "sorted on disk first, within --memory",
}
#: The parts of the result, in their order.
_PARTS = ("files", "columns", "size", "rankings", "labels", "ties", "invalid", "next")
#: Counts: part, what, name, state and note. Those with a state are only shown if they are not 0.
_COUNTS = (
    ("size", "rows", "rows", "", ""),
    ("rankings", "shortest length", "shortest", "", ""),
    ("rankings", "median length", "median_length", "", ""),
    ("rankings", "mean length", "mean_length", "", ""),
    ("rankings", "longest length", "longest", "", ""),
    ("labels", "judged share", "judged_share", "", "of the retrieved documents"),
    ("labels", "not retrieved", "not_retrieved", "note", "judged documents without a score"),
    ("labels", "nothing relevant", "barren_rankings", "note", "rankings; see --undefined"),
    ("labels", "nothing retrieved", "unretrieved_rankings", "note", "rankings"),
    ("ties", "share of tied rankings", "tied_rankings", "", "ordered by --ties"),
    ("ties", "share of tied documents", "tied_documents", "", "see pr.diagnostics.tie_bands"),
    ("invalid", "null query", "null_query", "error", "drop these rows, or set an id"),
    ("invalid", "null doc", "null_doc", "error", 'drop these rows, or use --doc ""'),
    ("invalid", "bad score", "bad_score", "error", "NaN or infinite; null means not retrieved"),
    ("invalid", "bad label", "bad_label", "error", "NaN or infinite; null means unjudged"),
    ("invalid", "repeated", "repeated", "error", "duplicates; use --duplicates max or first"),
)


class Row(NamedTuple):
    """A fact about the log."""

    part: str
    what: str
    value: int | float | str | None = None
    state: str = ""
    note: str = ""


def inspect(call: Call) -> None:
    """Show facts about a log, and the command to run next; exit with 2 if there are errors."""
    logs = [*call.given.get("logs", ())]  # before standard input is copied
    schema = schema_of(call.scan_as_is())
    run = call.run if "run" in call.given or call.run in schema else None
    values = "position" if "position" in call.given else "score"
    names = [each if each in schema else each.removeprefix("-") for each in call.names(values)]
    roles = {
        "run": [run] if run else [], "by": [*without_run(call.names("by"), run)],
        "query": call.names("query"), "doc": [call.given.get("doc") or "doc"],
        values: names, "label": call.names("label"),
    }  # fmt: skip
    read = call.files_read.values() if {"run_file", "judgments"} & {*call.given} else ()
    rows = [Row("files", "read", text) for each in read for text in each.sentences()]
    rows += _columns(call, schema, roles)
    if not any(row.state == "error" for row in rows):
        try:
            rows += _contents(call, [*roles["run"], *roles["by"]], run)
        except RankError as error:
            rows.append(Row("columns", "types", None, "error", in_options(error, call.ctx)))
    rows.sort(key=lambda row: _PARTS.index(row.part))
    command = _next(call, roles["by"], logs, rows)
    rows += [] if call.form == "table" else [command]
    is_text = call.form in ("table", "markdown")
    shown = [row._replace(value=_text(row, rounded=is_text)) for row in rows]
    table = pl.DataFrame(shown, dict.fromkeys(Row._fields, pl.String), orient="row")
    call.put(table, after=["", f"Next{command.note and ', '}{command.note}: {command.value}"])
    if errors := sum(row.state == "error" for row in rows):
        say(f"{number_of(errors, 'error')} found")
        raise click.exceptions.Exit(MISUSED)


def _columns(call: Call, schema: pl.Schema, roles: Mapping[str, list[str]]) -> Iterator[Row]:
    """Yield the columns, including missing ones."""
    for role, names in roles.items():
        for name in names:
            if name in schema:
                yield Row("columns", role, f"{name}: {schema[name]}")
            elif role != "doc" or role in call.given:
                note = f"column {name!r} (--{role}) not found.{hint(name, schema)}"
                yield Row("columns", role, None, "error", note)
    used = {*chain.from_iterable(roles.values())}
    others = [f"{name}: {dtype}" for name, dtype in schema.items() if name not in used]
    if others:
        yield Row("columns", "others", ", ".join(others))


def _contents(call: Call, groups: list[str], run: str | None) -> Iterator[Row]:
    """Yield counts of rankings, labels, ties and invalid rows."""
    rel, rows = call.given.get("rel", 1), call.scan(groups)
    names = {"query", "doc", "score", "label", "position"} & {*call.given}
    options: dict[str, Any] = {name: call.given[name] for name in names}
    known = Log.of(rows, by=groups, run=run, **options)
    plans = [label_counts(known.table, known.columns, [])]
    runs = [] if run is None else [run]
    plans += [log_counts(known.table, known.columns, rel, each) for each in ([], runs)]
    labels, overall, by_run = pl.collect_all(plans, engine="streaming")
    counts = overall.row(0, named=True)
    unjudged = counts["unjudged_share"]
    counts["judged_share"] = None if unjudged is None else 1 - unjudged
    for part, what, name, state, note in _COUNTS:
        if name in counts and (counts[name] or not state):
            yield Row(part, what, counts[name], state, note)
    if run is None:
        yield Row("size", "queries", counts["rankings"])
    else:
        several = by_run.n_unique("rankings") > 1
        note = "different numbers of queries; polars-rank compare uses those in both runs"
        yield Row("size", "runs", by_run.height, "note" * several, note * several)
        for name, rankings in by_run.select(run, "rankings").head(_MAX_RUNS).iter_rows():
            yield Row("size", f"{_RUN}{name}", rankings)
    layout, _ = inspect_rows(call.scan_as_is(), [*groups, *call.names("query")])
    yield Row("rankings", "layout", layout, "", _LAYOUTS[layout])
    labels = labels.drop_nulls("label").with_columns(relevant=is_relevant(pl.col("label"), rel))
    if labels.height > _MAX_LABELS:
        low, high = labels["label"].min(), labels["label"].max()
        yield Row(
            "labels", "range", f"{low!s} to {high!s}", "", f"{labels.height:,} different labels"
        )
    for label, number, relevant in labels.iter_rows() if labels.height <= _MAX_LABELS else ():
        yield Row("labels", f"share of {label}", number / counts["rows"], "", "relevant" * relevant)
    if labels.height and not labels["relevant"].any():
        yield Row("labels", "relevant", 0, "note", "no label reaches --rel")


def _next(call: Call, by: list[str], logs: list[str], rows: list[Row]) -> Row:
    """Return the row with the command to run next."""
    errors = {row.what for row in rows if row.state == "error"}
    runs = [row.what.removeprefix(_RUN) for row in rows if row.what.startswith(_RUN)]
    words = ["polars-rank", "compare" if len(runs) > 1 else "evaluate", *logs]
    words += ["--metrics", "ndcg@10 ap rr"]
    words += ["--baseline", runs[0]] if len(runs) > 1 else []
    named = ("judgments", "run_file", "input_format", "query", "doc", "score", "position", "label")
    options = {name: call.given[name] for name in (*named, "run") if name in call.given}
    options |= {"by": by} if by else {}
    options |= {"duplicates": "max"} if "repeated" in errors else {}
    if len(runs) < 2:
        options.pop("run", None)
    for name, value in options.items():
        for each in [value] if isinstance(value, str) else value or [""]:
            words += [f"--{name.replace('_', '-')}", str(each)]
    note = "after fixing the errors above" if errors - {"repeated"} else ""
    return Row("next", "command", shlex.join(words), "", note)


def _text(row: Row, *, rounded: bool) -> str | None:
    """Return the value of a row as text."""
    value = row.value
    if value is None or not rounded or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, float):
        return f"{value:.2%}" if "share" in row.what else f"{value:,.4g}"
    return f"{value:,}"
