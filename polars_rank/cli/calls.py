"""The call of a command: its options, the log or per-query values that it reads, and its output."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from polars_rank import _progress as bars
from polars_rank._pages import Page, PageTable, shown
from polars_rank.cli import sources, writing
from polars_rank.cli.messages import misused, say
from polars_rank.cli.options import parameters_of, public
from polars_rank.columns import RUN, Columns, without_run
from polars_rank.conventions import Definitions
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import schema_of
from polars_rank.io.fields import Kind as FileKind
from polars_rank.io.fields import check_found, checked_fields, fields_of
from polars_rank.io.files import origin
from polars_rank.io.formats import read_judgment_files, read_run_files, scan_table, table_format
from polars_rank.io.parquet import scanned_log

if TYPE_CHECKING:
    import click

    from polars_rank.cli.commands import Command
    from polars_rank.io.formats import Reading, TableFormat

#: Options that name input files.
_FILES = ("logs", "run_file", "values", "judgments", "gold", "per_query")
#: Roles of columns that are also the default names of the columns.
_ROLES = ("query", "doc", "score", "label")
#: Options for the evaluation of a log, which do not apply to per-query values.
_OF_LOGS = (
    *("logs", "run_file", "judgments", "position", "layout", "memory", "conventions"),
    *Definitions.__annotations__,
)
#: Columns that a terminal always shows, in addition to the first two.
_MAJOR = (
    *("difference", "low", "verdict", "reason", "method"),
    *("rank", "ideal_rank", "relevant", "hits"),
)


class Call:
    """A command with the values of its options."""

    def __init__(self, ctx: click.Context, command: Command) -> None:
        self.ctx = ctx
        self.command = command
        #: The options on the command line, by name. Empty names of columns are None.
        self.given: dict[str, Any] = {}
        for each in ctx.command.params:
            text, kind = ctx.params.get(each.name or ""), getattr(each, "kind", None)
            if each.name and text not in (None, ()):
                empty = text == "" and each.name in ("doc", "run")
                value = text if kind is None else None if empty else kind.read(each.name, text)
                self.given[each.name] = value
        #: The names of runs in --run-file NAME=FILE, or "".
        self.names_of_runs: list[str] = []
        for place, text in enumerate(self.given.get("run_file", ())):
            name, _, file = text.partition("=")
            is_named = name and file and not {*name} & {*"/\\*?["} and not Path(text).exists()
            self.names_of_runs.append(name if is_named else "")
            self.given["run_file"][place] = file if is_named else text
        if {"run_file", "judgments"} & {*self.given}:
            self._name_fields()
        ctx.obj = self
        output: Any = self.given.get("output")
        if command.writes == "parquet" and output.suffix.lower() not in ("", ".parquet", ".pq"):
            misused(f"the output is Parquet and must end in .parquet; found '{output}'")
        sources.refuse_to_replace(output, self.files)

    def _name_fields(self) -> None:
        """Take options of columns as fields of judgments and of results."""
        given = self.given
        fields = given["fields"] = dict(given.get("fields", {}))
        for option in filter(given.__contains__, (*_ROLES, RUN, "position")):
            value, role = given[option], {"position": "rank"}.get(option, option)
            if isinstance(value, list):
                if "run_file" in given:
                    misused(f"--{option} must name one field of --run-file and --judgments")
                continue
            name = value.removeprefix("-") if value and option == "score" else value
            if fields.setdefault(role, name) != name:
                misused(f"--{option} {value} differs from --fields {role}={fields[role] or ''}")
            if "run_file" in given and value != name:
                given[option] = "-score"
            elif "run_file" in given:
                given.pop(option)

    @property
    def files(self) -> list[str]:
        """All input files."""
        several = [file for name in (*_FILES, "results") for file in self.given.get(name, ())]
        one = [self.given[name] for name in ("golden", "rules") if name in self.given]
        return [str(file) for file in several + one]

    @cached_property
    def copies(self) -> Mapping[str, list[str]]:
        """The input files by option, with a copy of standard input."""
        if self.files.count(sources.STANDARD_INPUT) > 1:
            misused("standard input can be read only once; use - only once")
        return {name: [*map(sources.readable, self.given.get(name, ()))] for name in _FILES}

    def names(self, role: str) -> list[str]:
        """Return the columns of a role."""
        value = self.given.get(role, role if role in _ROLES else None)
        return [value] if isinstance(value, str) else [*(value or ())]

    @property
    def run(self) -> Any:
        """The column of the run, or None if there is none; the default may be missing."""
        return self.given.get("run", RUN)

    def table(self, name: str, kind: TableFormat | None = None) -> pl.LazyFrame:
        """Scan the table of an option; text files have no types, so columns of ids are text."""
        several = (str(each.name) for each in self.ctx.command.params if each.metavar == "COLUMNS")
        ids = {*chain.from_iterable(map(self.names, ("query", "doc", "run", *several)))}
        paths = sources.expand(self.copies[name])
        kind = kind or table_format(paths)
        if kind != "parquet":
            self._need_parquet(self._differing, name)
        return scan_table(paths, kind, ids.__contains__, self._differing)

    def _need_parquet(self, options: Iterable[str], name: str) -> None:
        """Raise `ArgumentError` if there are options, as the files of a name are not Parquet."""
        for option in options:
            files = ", ".join(self.copies[name])
            misused(f"--{option.replace('_', '-')} needs Parquet files; found {files}")

    @property
    def _differing(self) -> dict[str, str]:
        """The treatment of Parquet files whose columns differ."""
        names = ("missing_columns", "extra_columns")
        return {name: how for name in names if (how := self.given.get(name, "raise")) != "raise"}

    def arguments(self, function: str) -> dict[str, Any]:
        """Return the values of options that are parameters of a function; tables are scanned."""
        return {
            name: self.table(name) if name in _FILES else self.given[name]
            for name in parameters_of(function)
            if name in self.given and name not in ("progress", "values")
        }

    def call(self, *tables: Any, **arguments: Any) -> Any:
        """Return the result of the function of the command with its options."""
        name = self.command.function
        return public(name)(*tables, **{**self.arguments(name), **arguments})

    def baseline(self, table: Any) -> dict[str, Any]:
        """Return the baseline, if there is one, as a value of the column of runs of a table."""
        if "baseline" not in self.given:
            return {}
        schema = schema_of(table)
        column = str(Columns.find(schema, {"run": self.run}, optional=()).run)
        text, dtype = self.given["baseline"], schema[column]
        series = pl.Series("--baseline", [text])
        return {"baseline": text if is_text(dtype) else series.cast(dtype).item()}

    # Logs

    def scan(self, by: Sequence[str] | None = None) -> pl.LazyFrame:
        """Scan the log for an evaluation with these groups (default: those of --by)."""
        kind, given, by = self._checked(), self.given, self.names("by") if by is None else by
        if "judgments" in given:
            return self._judged(by)
        if kind == "parquet":
            return scanned_log(
                sources.expand(self.copies["logs"]), dict(self._differing),
                {"run": None if self.command.reads == "runs" else self.run,
                 "query": self.names("query"), "by": by},
                layout=given.get("layout", "auto"), memory=given.get("memory"),
                progress=given.get("progress", True) and self.command.writes != "parquet",
            )  # fmt: skip
        self._need_parquet({"layout", "memory"} & {*given}, "logs")
        return self._rankings()

    def _rankings(self) -> pl.LazyFrame:
        kind = self._checked()
        is_log = "run_file" not in self.given
        return self.table("logs", kind) if is_log else self.files_read["run"].table

    def _checked(self) -> TableFormat:
        """Return the format of the files; raise if a file is missing."""
        logs, results = self.given.get("logs", ()), self.given.get("run_file", ())
        if logs and results:
            misused("--run-file has results, instead of a log; give one of the two")
        if not logs and not results:
            misused("missing argument LOG, or results with --run-file")
        named: TableFormat | None = self.given.get("input_format") if logs else "trec"
        kind = named or table_format(sources.expand(self.copies["logs"]))
        if kind is None:
            misused(
                f"{', '.join(map(origin, self.copies['logs']))} has an unknown format; name it "
                "with --input-format, or pass judgments as --judgments and results as --run-file"
            )
        has_metrics = {"metric", "metrics"} & {*parameters_of(self.command.function)}
        needs_labels = self.command.reads != "runs" or has_metrics
        if kind == "trec" and "judgments" not in self.given and needs_labels:
            misused(f"{', '.join([*logs, *results])} has no judgments; add --judgments")
        return kind

    @cached_property
    def files_read(self) -> Mapping[FileKind, Reading]:
        """The results and the judgments that options name, with their warnings."""
        given = checked_fields(self.given.get("fields"), "judgments", "run")
        found: dict[FileKind, Reading] = {}
        converts = self.command.function == "scan_judgments"  # LOG has results, as --run-file has
        results = [("", file) for file in self.copies["logs"] if converts]
        results += zip(self.names_of_runs, self.copies["run_file"], strict=True)
        if results:
            found["run"] = read_run_files(results, fields_of(given, "run"))
        if "judgments" in self.given:
            names = {"fractional", "negative"} & {*self.given}  # --format is of the output
            found["judgments"] = read_judgment_files(
                self.copies["judgments"], fields_of(given, "judgments"),
                **{name: self.given[name] for name in names},
            )  # fmt: skip
        roles = {kind: each.found for kind, each in found.items()}
        columns = [name for each in found.values() for name in each.names]
        if not results and not converts:  # the log may have these columns
            columns += (log := schema_of(self._rankings()))
            roles["run"] = {role for role, name in given.items() if name in log}
        check_found(given, roles, columns)
        for each in found.values():
            each.warned()
            for sentence in each.sentences() if self.given.get("verbose") else ():
                say(sentence)
        return found

    def _judged(self, by: Sequence[str]) -> pl.LazyFrame:
        """Join judgments, with the column names of the log and ids as text."""
        log, (query, *others) = self._rankings(), self.names("query")
        if others:
            misused("--judgments needs a single column of the query; name it with --query")
        doc = self.given.get("doc") or "doc"
        Columns.find(schema_of(log), {"query": query, "doc": doc})
        names = {"query": query, "doc": doc, "label": self.names("label")[0]}
        judgments = self.files_read["judgments"].table.rename(names)
        if "run_file" in self.given:  # both files may have the same columns, such as a category
            log = log.drop({*schema_of(judgments)} - {*names.values()}, strict=False)
        joined: pl.LazyFrame = public("join_judgments")(
            log.cast(dict.fromkeys((query, doc), pl.String)), judgments,
            run=self.run, by=[*by], **names,
            score=self.given.get("position") or self.names("score")[0].removeprefix("-"),
        )  # fmt: skip
        return joined

    # Per-query values

    def values(
        self, function: str, *, metrics: Iterable[str] = ()
    ) -> tuple[pl.LazyFrame, dict[str, Any]]:
        """Return per-query values, and the arguments of a function of them.

        They are those of --values, or computed from a log. `metrics` are needed in addition to
        those of the options.
        """
        known, query = parameters_of(function), self.names("query")
        asked = [*dict.fromkeys([*self.names("metrics"), *metrics])]
        is_log = "values" not in self.given
        for name in () if is_log else filter(self.given.__contains__, _OF_LOGS):
            option = "LOG" if name == "logs" else f"--{name.replace('_', '-')}"
            misused(f"{option} cannot be used with --values, which has per-query values")
        kind = self.given.get("input_format")
        log = self.scan if "judgments" in self.given else self._rankings
        table = log() if is_log else self.table("values", kind)
        schema = schema_of(table)
        optional = (RUN,) if type(None) in get_args(known["run"][0]) else ()
        run = Columns.find(schema, {"run": self.run}, optional=optional).run
        groups = [*without_run(self.names("by"), run)]
        if is_log:
            if not asked:
                misused('a log needs metrics; add for example --metrics "ndcg@10 ap"')
            by = [*([] if run is None else [run]), *groups]
            kept = {name: self.names(name) for name in ("weight", "cluster", "slices")}
            columns = {*Columns.find(schema, kept).parameters} - {*by, *query}
            options = {**self.arguments("per_query"), "by": by, "run": run, "keep": sorted(columns)}
            table = public("per_query")(self.scan(by), **{**options, "metrics": asked})
        arguments = self.arguments(function)
        arguments |= {"run": run, "query": query, "by": groups or None, "metrics": asked or None}
        if "baseline" in known:
            arguments |= self.baseline(table)
        return table, arguments

    # Output

    @property
    def form(self) -> writing.Format:
        """The format of the output."""
        return writing.choose(self.given.get("format"), self.given.get("output"))

    def put(self, result: Any, *, notes: Sequence[str] = (), after: Sequence[str] = ()) -> None:
        """Write a result to a file, or show it, with notes above a table, and lines after it."""
        given, frame, writes = self.given, result.lazy(), self.command.writes
        if writes == "parquet" and given.get("progress", True):
            frame = bars.watcher()(frame)
        wide, hides = given.get("wide", False), "output" not in given and sys.stdout.isatty()
        is_narrow = (hides or self.command.folds) and not wide
        most = shutil.get_terminal_size().columns if is_narrow else None

        def page(frame: pl.DataFrame, *, wide: bool) -> Page:
            return Page("", notes, [table_of(self.command, frame, wide=wide, hides=hides)])

        writing.put(frame, "parquet" if writes == "parquet" else self.form, given, {
            "table": lambda frame: "\n".join([page(frame, wide=wide).plain(most), *after]),
            "markdown": lambda frame: page(frame, wide=True).markdown().rstrip(),
            "json": writing.json_rows,
        })  # fmt: skip


def table_of(command: Command, frame: pl.DataFrame, *, wide: bool, hides: bool) -> PageTable:
    """Return the table of a command's result; unless it is wide, without minor columns.

    In a terminal, the table `hides` columns that do not fit.
    """
    columns = {each.name: each for each in command.columns}
    if wide:
        return PageTable(frame, columns=columns)
    width, names, below = frame.width, frame.columns, ""
    minor = [*command.minor, *(name for name, each in columns.items() if each.is_minor)]
    if command.function in ("compare", "power") and "baseline" in names:
        minor += ["baseline"] * (frame.n_unique("baseline") < 2)
    if command.function == "compare" and frame.height:
        below = _of_comparison(frame)
    if command.function == "check":
        failures = frame.filter(pl.col("verdict") != "pass")
        below = f"{passed} pass" if (passed := frame.height - failures.height) else ""
        # Counts have no decimals.
        values = [shown(int(x) if x is not None and x % 1 == 0 else x) for x in failures["value"]]
        frame = failures.with_columns(value=pl.Series(values, dtype=pl.String))
        frame = frame.select([]) if passed and failures.is_empty() else frame
    folds = command.folds or (hides and command.function == "check")
    details = [name for name in names[2:] if name in columns and columns[name].is_detail]
    details += [name for name in names[-1:] if name == "method"]
    frame = frame.drop(minor, strict=False)
    return PageTable(
        frame, columns=columns, minor=details[::-1], major=_MAJOR, folds=folds,
        hides=hides and not folds, hidden=width - frame.width, below=below,
    )  # fmt: skip


def _of_comparison(table: pl.DataFrame) -> str:
    """Return the line below a comparison: its queries, and for what its numbers are corrected."""
    queries = (f"{each:,}" for each in sorted({min(table["queries"]), max(table["queries"])}))
    number = max(table["comparisons"])
    corrected = f"corrected for {number:,} comparisons" if number > 1 else "not corrected"
    corrected += " in each group, and of slices" * (1 < number < table.height)
    return f"{' to '.join(queries)} queries; intervals and p-values are {corrected}"
