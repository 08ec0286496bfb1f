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
from polars_rank.columns import IDS, POSITIONS, RUNS, is_relevant, without_run
from polars_rank.diagnostics.log_counts import label_counts, log_counts
from polars_rank.errors import RankError, hint, number_of
from polars_rank.evaluation.parameters import Evaluation
from polars_rank.frames.layouts import find_layout
from polars_rank.frames.tables import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polars_rank.cli.calls import Call

#: Common names of columns in lower case, by role; the most likely first.
_COMMON_NAMES = {
    "query": ("qid", "query_id", "queryid", "topic", "topic_id", "session_id", "user_id", "user"),
    "doc": sorted(IDS),
    "score": ("prediction", "pred", "y_pred", "relevance_score", "similarity", "sim", "logit"),
    "position": POSITIONS[1:],
    "label": ("relevance", "rel", "grade", "judgment", "target", "y_true", "clicked", "click"),
    "run": sorted(RUNS),
}
#: Up to this number, labels are listed instead of their range, and runs are listed.
_MAX_LABELS = _MAX_RUNS = 12
#: Facts about a run begin with this text.
_RUN = "queries of "
#: Kinds of invalid rows → remedies.
_REMEDIES = {
    "null_query": "drop these rows, or set an id",
    "null_doc": 'drop these rows, or use --doc ""',
    "bad_score": "NaN or infinite; use null for documents that were not retrieved",
    "bad_label": "NaN or infinite; use null for unjudged documents",
    "repeated": "duplicate documents in a ranking; use --duplicates max or first",
}
#: Orders of rows → how a log in this order is evaluated.
_LAYOUTS = {
    "sorted": "streams in constant memory",
    "adjacent": "streams in constant memory, plus 8 bytes per ranking",
    "shuffled": "sorted on disk first, within --memory",
}


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
    assumed = _assumed(call, schema)
    call.given |= assumed
    roles = _roles(call, schema)
    read = call.files_read.values() if {"run_file", "judgments"} & {*call.given} else ()
    rows = [Row("files", "read", text) for each in read for text in each.sentences()]
    rows += _columns(call, schema, roles, assumed)
    if not any(row.state == "error" for row in rows):
        try:
            rows += _contents(call, roles)
        except RankError as error:
            rows.append(Row("columns", "types", None, "error", in_options(error, call.ctx)))
    command = _next(call, roles, logs, rows)
    is_text = call.form in ("table", "markdown")
    rows += [] if call.form == "table" else [command]
    shown = [row._replace(value=_text(row, rounded=is_text)) for row in rows]
    table = pl.DataFrame(shown, dict.fromkeys(Row._fields, pl.String), orient="row")
    call.put(table, after=["", f"Next{command.note and ', '}{command.note}: {command.value}"])
    if errors := sum(row.state == "error" for row in rows):
        say(f"{number_of(errors, 'error')} found")
        raise click.exceptions.Exit(MISUSED)


def _assumed(call: Call, schema: pl.Schema) -> dict[str, str]:
    """Return columns with common names, by role, for missing ones that the user did not name."""
    columns = {name.lower(): name for name in schema}
    assumed = {}
    for role in ("query", "doc", "score", "label", "run"):
        other = "position" if role == "score" else role
        is_known = role in call.given or (role in ("score", "run") and other in call.given)
        if is_known or {*_names(call, role, schema)} <= {*schema}:
            continue
        for each in dict.fromkeys((role, other)):
            found = [columns[name] for name in _COMMON_NAMES[each] if name in columns]
            if found:
                assumed[each] = found[0]
                break
    return assumed


def _names(call: Call, role: str, schema: pl.Schema) -> list[str]:
    """Return the columns of a role, without the minus in front of descending scores."""
    names = [str(call.run)] if role == "run" else call.names(role)
    return [name if name in schema else name.removeprefix("-") for name in names]


def _roles(call: Call, schema: pl.Schema) -> dict[str, list[str]]:
    """Return the columns of each role, including missing ones."""
    run = call.run if "run" in call.given or call.run in schema else None
    values = "position" if "position" in call.given else "score"
    return {
        "run": [run] if run else [], "by": [*without_run(call.names("by"), run)],
        "query": call.names("query"), "doc": [call.given.get("doc") or "doc"],
        values: _names(call, values, schema), "label": call.names("label"),
    }  # fmt: skip


def _columns(
    call: Call, schema: pl.Schema, roles: Mapping[str, list[str]], assumed: Mapping[str, str]
) -> Iterator[Row]:
    """Yield the columns, including missing ones."""
    for role, names in roles.items():
        for name in names:
            if name in schema:
                note = f"assumed; use --{role} {shlex.quote(name)}" if role in assumed else ""
                yield Row("columns", role, f"{name}: {schema[name]}", "", note)
            elif role != "doc" or role in call.given:
                note = f"column {name!r} (--{role}) not found.{hint(name, schema)}"
                yield Row("columns", role, None, "error", note)
    used = {*chain.from_iterable(roles.values())}
    others = [f"{name}: {dtype}" for name, dtype in schema.items() if name not in used]
    if others:
        yield Row("columns", "others", ", ".join(others))


def _contents(call: Call, roles: Mapping[str, list[str]]) -> list[Row]:
    """Count rankings, labels, ties and invalid rows."""
    runs, rel = roles["run"], call.given.get("rel", 1)
    groups, run = [*runs, *roles["by"]], next(iter(runs), None)
    rows = call.scan(groups)
    names = ("query", "doc", "score", "label", "position")
    options = {name: call.given[name] for name in names if name in call.given}
    evaluation = Evaluation.of(schema_of(rows), None, by=groups, run=run, **options)
    known = evaluation.read(rows)
    layout = find_layout(call.scan_as_is(), [*groups, *call.names("query")])
    plans = [label_counts(known.table, known.columns, [])]
    plans += [log_counts(known.table, known.columns, rel, each) for each in ([], runs)]
    labels, overall, by_run = pl.collect_all(plans, engine="streaming")
    counts = overall.row(0, named=True)
    return [
        Row("size", "rows", counts["rows"]),
        *_rankings(counts, by_run, run),
        Row("rankings", "layout", layout, "", _LAYOUTS[layout]),
        *_labels(labels, counts, rel),
        *_ties(counts),
        *(
            Row("invalid", name.replace("_", " "), counts[name], "error", remedy)
            for name, remedy in _REMEDIES.items()
            if counts.get(name)
        ),
    ]


def _rankings(counts: Mapping[str, Any], by_run: pl.DataFrame, run: str | None) -> Iterator[Row]:
    if run is not None:
        several = by_run.get_column("rankings").n_unique() > 1
        note = "runs have different numbers of queries; polars-rank compare uses those in both runs"
        yield Row("size", "runs", by_run.height, "note" if several else "", note if several else "")
        for name, rankings in by_run.select(run, "rankings").head(_MAX_RUNS).iter_rows():
            yield Row("size", f"{_RUN}{name}", rankings)
    else:
        yield Row("size", "queries", counts["rankings"])
    for name in ("shortest", "median_length", "mean_length", "longest"):
        what = name.removesuffix("_length")
        yield Row("rankings", f"{what} length", counts[name])


def _labels(labels: pl.DataFrame, counts: Mapping[str, Any], rel: float) -> Iterator[Row]:
    known = labels.filter(pl.col("label").is_not_null()).with_columns(
        relevant=is_relevant(pl.col("label"), rel)
    )
    if known.height > _MAX_LABELS:
        low, high = known.get_column("label").min(), known.get_column("label").max()
        note = f"{known.height:,} different labels"
        yield Row("labels", "range", f"{low!s} to {high!s}", "", note)
    else:
        for label, rows, relevant in known.iter_rows():
            note = "relevant" if relevant else ""
            yield Row("labels", f"share of {label}", rows / counts["rows"], "", note)
    if not known.is_empty() and not known.get_column("relevant").any():
        yield Row("labels", "relevant", 0, "note", "no label reaches --rel")
    retrieved = counts["rows"] - counts["not_retrieved"]
    judged = None if counts["unjudged_share"] is None else 1 - counts["unjudged_share"]
    yield Row("labels", "judged share", judged, "", f"of {retrieved:,} retrieved documents")
    for name, (what, note) in {
        "not_retrieved": ("not retrieved", "judged documents without a score"),
        "barren_rankings": ("nothing relevant", "rankings; see --undefined"),
        "unretrieved_rankings": ("nothing retrieved", "rankings"),
    }.items():
        if counts[name]:
            yield Row("labels", what, counts[name], "note", note)


def _ties(counts: Mapping[str, Any]) -> Iterator[Row]:
    note = "ordered by --ties; pr.diagnostics.tie_bands shows the effect"
    for name in ("tied_rankings", "tied_documents"):
        share = counts[name]
        state = ("note", note) if share and name == "tied_rankings" else ("", "")
        yield Row("ties", f"share of {name.replace('_', ' ')}", share, *state)


def _next(call: Call, roles: Mapping[str, list[str]], logs: list[str], rows: list[Row]) -> Row:
    """Return the row with the command to run next."""
    named = (
        "judgments", "run_file", "input_format", "query", "doc", "score", "position", "label", "run"
    )  # fmt: skip
    options = {name: call.given[name] for name in named if name in call.given}
    options |= {"by": roles["by"]} if roles["by"] else {}
    errors = [row.what for row in rows if row.state == "error"]
    options |= {"duplicates": "max"} if "repeated" in errors else {}
    runs = [row.what.removeprefix(_RUN) for row in rows if row.what.startswith(_RUN)]
    words = ["polars-rank", "compare" if len(runs) > 1 else "evaluate", *logs]
    words += ["--metrics", "ndcg@10 ap rr"]
    if len(runs) > 1:
        words += ["--baseline", runs[0]]
    else:
        options.pop("run", None)
    for name, value in options.items():
        for each in [value] if isinstance(value, str) else value or [""]:
            words += [f"--{name.replace('_', '-')}", str(each)]
    note = "after fixing the errors above" if {*errors} - {"repeated"} else ""
    return Row("next", "command", shlex.join(words), "", note)


def _text(row: Row, *, rounded: bool) -> str | None:
    """Return the value of a row as text."""
    value = row.value
    if value is None or not rounded or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, float):
        return f"{value:.2%}" if "share" in row.what else f"{value:,.4g}"
    return f"{value:,}"
