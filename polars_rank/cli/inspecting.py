"""The command `inspect`: the columns, counts and invalid rows of a log.

Invalid rows are counted and do not raise errors. Memory does not grow with the log.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import polars as pl

from polars_rank.cli import MISUSED
from polars_rank.cli.messages import in_options, say, show
from polars_rank.cli.writing import choose
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
    words = [*call.given.get("logs", ())]  # before pipes are copied
    columns = _Columns.of(call)
    rows = [*columns.rows()]
    if not any(row.state == "error" for row in rows):
        try:
            rows += _contents(columns, call.given.get("rel", 1))
        except RankError as error:
            rows.append(Row("columns", "types", None, "error", in_options(error, call.ctx)))
    command = _next(columns, words, rows)
    form = choose(call.given.get("format"), call.given.get("output"))
    on_own_line = form == "table" and "output" not in call.given  # easy to copy
    rows += [] if on_own_line else [command]
    rounded = form in ("table", "markdown", "latex")
    shown = [row._replace(value=_text(row, rounded=rounded)) for row in rows]
    table = pl.DataFrame(shown, dict.fromkeys(Row._fields, pl.String), orient="row")
    call.put(table, folded=True)
    if on_own_line:
        show(f"\nNext{command.note and ', '}{command.note}: {command.value}")
    if errors := sum(row.state == "error" for row in rows):
        say(f"{number_of(errors, 'error')} found")
        raise click.exceptions.Exit(MISUSED)


class _Columns(NamedTuple):
    """The columns of a log by role.

    `assumed` has the columns that the user did not name, and that were found by their common names.
    """

    call: Call
    schema: pl.Schema
    run: str | None
    by: list[str]
    assumed: Mapping[str, str]

    @classmethod
    def of(cls, call: Call) -> _Columns:
        """Return the columns; look for common names if the default columns are missing."""
        schema = schema_of(call.scan_as_is())
        expected = {role: call.names(role) for role in ("query", "doc", "label")}
        scores = [name.removeprefix("-") for name in call.names("score")]
        expected |= {} if "position" in call.given else {"score": scores}
        expected |= {} if "run" in call.given else {"run": ["run"]}
        missing = [
            role for role, names in expected.items()
            if not {*names} <= {*schema} and not call.is_given(role)
        ]  # fmt: skip
        guesses = {role: _guess(role, schema) for role in missing}
        if "score" in guesses and guesses["score"] is None:
            guesses["position"] = "position" if "position" in schema else _guess("position", schema)
        assumed = {role: name for role, name in guesses.items() if name is not None}
        call.given |= assumed
        missing_run = "run" not in call.given and call.run not in schema
        run = None if missing_run else call.run
        return cls(call, schema, run, [*without_run(call.names("by"), run)], assumed)

    @property
    def by_role(self) -> dict[str, list[str]]:
        """The columns of each role, including missing ones."""
        call, position = self.call, self.call.names("position")
        scores = [
            name if name in self.schema else name.removeprefix("-") for name in call.names("score")
        ]
        return {
            "run": [self.run] if self.run else [], "by": self.by, "query": call.names("query"),
            "doc": [call.given.get("doc") or "doc"],
            **({"position": position} if position else {"score": scores}),
            "label": call.names("label"),
        }  # fmt: skip

    def rows(self) -> Iterator[Row]:
        """Yield the columns, including missing ones."""
        for role, names in self.by_role.items():
            for name in names:
                if name in self.schema:
                    advice = f"assumed; use --{role} {shlex.quote(name)}"
                    note = advice if role in self.assumed else ""
                    yield Row("columns", role, f"{name}: {self.schema[name]}", "", note)
                elif role != "doc" or self.call.is_given(role):
                    note = f"column {name!r} (--{role}) not found.{hint(name, self.schema)}"
                    yield Row("columns", role, None, "error", note)
        used = {name for names in self.by_role.values() for name in names}
        others = {name: dtype for name, dtype in self.schema.items() if name not in used}
        if others:
            text = ", ".join(f"{name}: {dtype}" for name, dtype in others.items())
            yield Row("columns", "others", text)


def _guess(role: str, schema: pl.Schema) -> str | None:
    """Return the column whose name is the most likely for a role, or None."""
    columns = {name.lower(): name for name in schema}
    return next((columns[name] for name in _COMMON_NAMES[role] if name in columns), None)


def _contents(columns: _Columns, rel: float) -> list[Row]:
    """Count rankings, labels, ties and invalid rows."""
    call, runs = columns.call, [] if columns.run is None else [columns.run]
    groups = [*runs, *columns.by]
    rows = call.scan(groups)
    options = {
        name: value for name, value in call.given.items()
        if name in ("query", "doc", "score", "label", "position")
    }  # fmt: skip
    evaluation = Evaluation.of(schema_of(rows), None, by=groups, run=columns.run, **options)
    known = evaluation.read(rows)
    layout = find_layout(call.scan_as_is(), [*groups, *call.names("query")])
    labels, overall, by_run = pl.collect_all(
        [
            label_counts(known.table, known.columns, []),
            log_counts(known.table, known.columns, rel, []),
            log_counts(known.table, known.columns, rel, runs),
        ],
        engine="streaming",
    )
    counts = overall.row(0, named=True)
    return [
        Row("size", "rows", counts["rows"]),
        *_rankings(counts, by_run, columns.run),
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
        note = "runs have different numbers of queries; use --align to average over the same"
        yield Row("size", "runs", by_run.height, "note" if several else "", note if several else "")
        for name, rankings in by_run.select(run, "rankings").head(_MAX_RUNS).iter_rows():
            yield Row("size", f"queries of {name}", rankings)
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
        yield Row(
            "labels", "range", f"{low!s} to {high!s}", "", f"{known.height:,} different labels"
        )
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
    note = "ordered by --ties; polars-rank plot bounds shows the effect"
    for name in ("tied_rankings", "tied_documents"):
        share = counts[name]
        state = ("note", note) if share and name == "tied_rankings" else ("", "")
        yield Row("ties", f"share of {name.replace('_', ' ')}", share, *state)


def _next(columns: _Columns, logs: list[str], rows: list[Row]) -> Row:
    """Return the row with the command to run next."""
    errors = [row for row in rows if row.state == "error"]
    call = columns.call
    options = {name: call.given[name] for name in
               ("qrels", "input_format", "query", "doc", "score", "position", "label")
               if call.is_given(name)}  # fmt: skip
    options |= {"run": columns.run} if columns.run and call.is_given("run") else {}
    options |= columns.assumed
    options |= {"by": columns.by} if columns.by else {}
    has_duplicates = any(row.part == "invalid" and row.what == "repeated" for row in errors)
    options |= {"duplicates": "max"} if has_duplicates else {}
    runs = next((row.value for row in rows if row.what == "runs"), 0)
    first = next((row.what for row in rows if row.what.startswith("queries of ")), "")
    command = "compare" if isinstance(runs, int) and runs > 1 else "evaluate"
    if command == "evaluate" and "run" in options:
        del options["run"]
    words = ["polars-rank", command, *logs, "--metrics", "ndcg@10 ap rr"]
    words += ["--baseline", first.removeprefix("queries of ")] if command == "compare" else []
    for name, value in options.items():
        for each in [value] if isinstance(value, str) else value or [""]:
            words += [f"--{name.replace('_', '-')}", str(each)]
    others = [row for row in errors if not (has_duplicates and row.what == "repeated")]
    note = "after fixing the errors above" if others else ""
    return Row("next", "command", shlex.join(words), "", note)


def _text(row: Row, *, rounded: bool) -> str | None:
    """Return the value of a row as text."""
    value = row.value
    if value is None or not rounded or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, float):
        return f"{value:.2%}" if "share" in row.what else f"{value:,.4g}"
    return f"{value:,}"
