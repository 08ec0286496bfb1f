"""The call of a command: its options, the log or per-query values that it reads, and its output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from polars_rank import _progress as bars
from polars_rank.cli import sources, writing
from polars_rank.cli.messages import misused, say
from polars_rank.cli.options import kind_of, parameters_of, public
from polars_rank.columns import RUN, Columns, without_run
from polars_rank.conventions import POLARS_RANK, Definitions
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import schema_of
from polars_rank.io.fields import Kind as FileKind
from polars_rank.io.fields import check_found, checked_fields, fields_of
from polars_rank.io.formats import Reading, read_judgment_files, read_run_files
from polars_rank.io.parquet import scanned_log

if TYPE_CHECKING:
    import click

    from polars_rank.cli.commands import Command

#: Options that name input files.
_FILES = ("logs", "run_file", "values", "judgments", "gold", "per_query")
#: Roles of columns that are also the default names of the columns.
_ROLES = ("query", "doc", "score", "label")
#: Options for the evaluation of a log, which do not apply to per-query values.
_OF_LOGS = ("position", "layout", "memory", "conventions", *Definitions.__annotations__)
#: Options that need the engine Polars.
_OF_POLARS = "input_format", "layout", "memory", "missing_columns", "extra_columns"


class Call:
    """A command with the values of its options."""

    def __init__(self, ctx: click.Context, command: Command) -> None:
        self.ctx = ctx
        self.command = command
        #: The options that have a value, by name. Empty names of columns are None.
        self.given: dict[str, Any] = {}
        for each in ctx.command.params:
            text = ctx.params.get(each.name or "")
            if each.name and text not in (None, ()):
                read = getattr(each, "kind", None)
                empty = text == "" and each.name in ("doc", "run")
                value = text if read is None else None if empty else read.read(each.name, text)
                self.given[each.name] = value
        #: The names of runs in --run-file NAME=FILE, by file.
        self.names_of_runs: dict[str, str] = {}
        if "run_file" in self.given:
            pairs = [_named(text) for text in self.given["run_file"]]
            self.given["run_file"] = [file for _, file in pairs]
            self.names_of_runs = {file: name for name, file in pairs if name}
        if {"run_file", "judgments"} & {*self.given}:
            self._name_fields()
        output: Any = self.given.get("output")
        if command.writes == "parquet":
            writing.require_parquet(output)
        sources.refuse_to_replace(output, self.files)

    def _name_fields(self) -> None:
        """Take options of columns as fields of judgments and of results."""
        fields = dict(self.given.get("fields", {}))
        is_log = not self.given.get("run_file")
        options = {role: role for role in (*_ROLES, RUN)} | {"position": "rank"}
        for option, role in options.items():
            if not self.is_given(option):
                continue
            value = self.given[option]
            if isinstance(value, list):
                if not is_log:
                    misused(f"--{option} must name one field of --run-file and --judgments")
                continue
            name = value.removeprefix("-") if value and option == "score" else value
            if fields.get(role, name) != name:
                misused(f"--{option} {value} differs from --fields {role}={fields[role] or ''}")
            fields[role] = name
            if not is_log:
                self.given.pop(option)
                if option == "score" and value != name:
                    self.given[option] = "-score"
        self.given["fields"] = fields

    def is_given(self, name: str) -> bool:
        """Return whether an option is on the command line."""
        source = self.ctx.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    @property
    def files(self) -> list[str]:
        """All input files."""
        rules = [str(self.given["rules"])] if "rules" in self.given else []
        return [*chain.from_iterable(self.given.get(name, ()) for name in _FILES), *rules]

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

    @property
    def ids(self) -> set[str]:
        """The columns of ids and names: text files have no types, so these are read as text."""
        several = (str(each.name) for each in self.ctx.command.params if each.metavar == "COLUMNS")
        names = (self.names(name) for name in (*several, "run"))
        return {*self.names("query"), *self.names("doc"), *chain.from_iterable(names)}

    @property
    def schema_options(self) -> dict[str, str]:
        """The treatment of Parquet files whose columns differ."""
        names = ("missing_columns", "extra_columns")
        return {
            name: self.given[name] for name in names if self.given.get(name, "raise") != "raise"
        }

    def table(self, name: str) -> pl.LazyFrame:
        """Scan the table of an option."""
        return sources.scan_table(self.copies[name], None, {}, self.ids)

    def arguments(self, function: str) -> dict[str, Any]:
        """Return the values of options that are parameters of a function; tables are scanned."""
        found = {}
        for name in parameters_of(function):
            if name in self.given and name not in ("progress", "values"):
                found[name] = self.table(name) if name in _FILES else self.given[name]
        return found

    def changed_conventions(self) -> Any:
        """Return the conventions with the changes of the options for single definitions."""
        given = {
            name: self.given[name] for name in Definitions.__annotations__ if name in self.given
        }
        return self.given.get("conventions", POLARS_RANK).but(**given)

    def call(self, *tables: Any, **arguments: Any) -> Any:
        """Return the result of the function of the command with its options."""
        name = self.command.function
        return public(name)(*tables, **{**self.arguments(name), **arguments})

    def baseline(self, schema: pl.Schema) -> dict[str, Any]:
        """Return the baseline, if there is one, as a value of the column of runs."""
        text = self.given.get("baseline")
        if text is None:
            return {}
        column = str(Columns.find(schema, {"run": self.run}, optional=()).run)
        dtype = schema[column]
        if is_text(dtype):
            return {"baseline": text}
        try:
            return {"baseline": pl.Series([text]).cast(dtype).item()}
        except pl.exceptions.PolarsError:
            misused(f"--baseline must be a value of the column {column!r}, of type {dtype}")

    # Logs

    def scan(self, by: Sequence[str] | None = None) -> pl.LazyFrame:
        """Scan the log for an evaluation with these groups (default: those of --by)."""
        kind, by = self._checked(), self.names("by") if by is None else by
        if self.given.get("judgments"):
            return self._judged(self._as_is(kind), by)
        if kind == "parquet":
            return scanned_log(
                sources.expand(self.copies["logs"]), dict(self.schema_options),
                {"run": None if self.command.reads == "runs" else self.run,
                 "query": self.names("query"), "by": by},
                layout=self.given.get("layout", "auto"), memory=self.given.get("memory"),
                progress=self.given.get("progress", True) and self.command.writes != "parquet",
            )  # fmt: skip
        for name in ("layout", "memory"):
            if name in self.given:
                misused(f"--{name} needs Parquet files; found {', '.join(self.copies['logs'])}")
        return self._as_is(kind)

    def scan_as_is(self) -> pl.LazyFrame:
        """Scan the log, with its rows in their original order."""
        kind = self._checked()
        return self.scan() if self.given.get("judgments") else self._as_is(kind)

    def _as_is(self, kind: sources.Kind) -> pl.LazyFrame:
        if self.given.get("run_file"):
            return self.files_read["run"].table
        return sources.scan_table(self.copies["logs"], kind, self.schema_options, self.ids)

    def _checked(self) -> sources.Kind:
        """Return the format of the files; raise if a file is missing."""
        logs, results = self.copies["logs"], self.given.get("run_file")
        judgments = self.given.get("judgments")
        if logs and results:
            misused("--run-file has results, instead of a log; give one of the two")
        if not logs and not results:
            misused(
                "--judgments needs rankings: a LOG, or results with --run-file"
                if judgments else "missing argument LOG"
            )  # fmt: skip
        kind: sources.Kind = (
            "trec" if results else self.given.get("input_format") or sources.kind_of(logs)
        )
        if kind == "trec" and not judgments and self.command.needs_labels:
            file = (results or self.given["logs"])[0]
            what = "has results" if results else "is a TREC run"
            misused(f"{file} {what} without judgments; add --judgments")
        return kind

    @cached_property
    def files_read(self) -> Mapping[FileKind, Reading]:
        """The results and the judgments that options name, with their warnings."""
        given = checked_fields(self.given.get("fields"), "judgments", "run")
        found: dict[FileKind, Reading] = {}
        converts = self.command.function == "scan_judgments"  # LOG has results, as --run-file has
        results = [
            (self.names_of_runs.get(file, ""), copy)
            for file, copy in zip(
                self.given.get("run_file", ()), self.copies["run_file"], strict=True
            )
        ]  # fmt: skip
        if converts:
            results = [*(("", file) for file in self.copies["logs"]), *results]
        if results:
            found["run"] = read_run_files(results, fields_of(given, "run"))
        if "judgments" in self.given:
            names = ("fractional", "negative")  # --format is of the output
            options = {name: self.given[name] for name in names if name in self.given}
            found["judgments"] = read_judgment_files(
                self.copies["judgments"], fields_of(given, "judgments"), **options
            )
        roles = {kind: each.found for kind, each in found.items()}
        columns = [name for each in found.values() for name in each.names]
        if "run" not in found and not converts:  # the log may have these columns
            log = schema_of(self._as_is(self._checked()))
            columns += log
            roles["run"] = {role for role, name in given.items() if name in log}
        check_found(given, roles, columns)
        for each in found.values():
            each.warned()
            for sentence in each.sentences() if self.given.get("verbose") else ():
                say(sentence)
        return found

    def _judged(self, log: pl.LazyFrame, by: Iterable[str]) -> pl.LazyFrame:
        """Join judgments, with the column names of the log and ids as text."""
        if len(self.names("query")) > 1:
            misused("--judgments needs a single column of the query; name it with --query")
        doc = self.given.get("doc") or "doc"
        names = {"query": self.names("query")[0], "doc": doc, "label": self.names("label")[0]}
        schema = schema_of(log)
        ids = [name for name in (names["query"], doc) if name in schema]
        if {names["query"], doc} - {*ids}:
            misused(
                f"the log needs the columns {names['query']!r} and {doc!r}; available: "
                f"{', '.join(map(repr, schema))}. Name them with --query and --doc, or pass "
                "results in another form as --run-file"
            )
        for name in ids:
            if schema[name].is_float() or schema[name].is_nested():
                misused(
                    f"column {name!r} has the type {schema[name]}, but ids in --judgments are "
                    "text; write the ids of the log as integers or text"
                )
        judgments = self.files_read["judgments"].table.rename(names)
        if self.given.get("run_file"):  # both files may have the same columns, such as a category
            shared = {*schema_of(judgments)} - {*names.values()}
            log = log.drop(shared, strict=False)
        joined: pl.LazyFrame = public("join_judgments")(
            log.cast(dict.fromkeys(ids, pl.String)), judgments,
            run=self.run, by=[*by],
            query=names["query"], doc=doc,
            score=self.given.get("position") or self.names("score")[0].removeprefix("-"),
            label=names["label"],
        )  # fmt: skip
        return joined

    # Spark

    @cached_property
    def on_spark(self) -> bool:
        """Whether the engine is Spark."""
        master, remote = self.given.get("master"), self.given.get("remote")
        is_spark = self.given.get("engine") == "spark"
        if not is_spark and (master or remote):
            misused("--master and --remote need --engine spark")
        if master and remote:
            misused("use either --master or --remote")
        return is_spark

    def rows(self) -> Any:
        """Scan the log as a LazyFrame or a Spark DataFrame."""
        if not self.on_spark:
            return self.scan()
        from polars_rank.spark.sessions import read, session  # noqa: PLC0415  (an extra)

        logs = self.given.get("logs", ())
        if not logs or self.given.get("judgments") or sources.STANDARD_INPUT in logs:
            misused("--engine spark needs a LOG that is a table or Parquet files")
        for name in _OF_POLARS:
            if self.is_given(name):
                misused(f"--{name.replace('_', '-')} needs --engine polars")
        return read(session(self.given.get("master"), self.given.get("remote")), [*logs])

    # Per-query values

    def values(
        self, function: str, *, metrics: Iterable[str] = ()
    ) -> tuple[pl.LazyFrame, dict[str, Any]]:
        """Return per-query values, and the arguments of a function of them.

        They are read from a table, or computed from a log. `metrics` are needed in addition to
        those of the options.
        """
        table = self.input()
        schema = schema_of(table)
        known = parameters_of(function)
        paired = "run" in known and type(None) not in get_args(known["run"][0])
        requested = self.given.get("metrics") or self.names("metric")
        asked = [*dict.fromkeys([*requested, *metrics])]
        run = Columns.find(schema, {"run": self.run}, optional=() if paired else (RUN,)).run
        groups = [*without_run(self.names("by"), run)]
        arguments = self.arguments(function)
        if self._is_log(schema):
            if not asked:
                metric = "--metric ndcg@10" if "metric" in known else '--metrics "ndcg@10 ap"'
                misused(f"a log needs metrics; add for example {metric}")
            log = parameters_of("per_query")
            kept = {  # columns of queries, which are not options of a log
                name: self.names(name) for name, (annotation, _) in known.items()
                if name not in log and kind_of(name, annotation).metavar in ("COLUMN", "COLUMNS")
            }  # fmt: skip
            by = [*([] if run is None else [run]), *groups]
            keys = {*by, *self.names("query")}
            columns = [name for name in Columns.find(schema, kept).parameters if name not in keys]
            options = {**self.arguments("per_query"), "by": by, "run": run, "keep": columns}
            options.pop("metrics", None)
            table = public("per_query")(self.scan(by), asked, **options)
        else:
            self._check_evaluated(schema, asked)
        columns_of = {"run": run, "query": self.names("query"), "by": groups or None}
        if "by" not in known and "query" in known:
            columns_of["query"] = [*self.names("query"), *groups]
        if "metric" not in known:
            columns_of["metrics"] = asked or None
        arguments |= {name: value for name, value in columns_of.items() if name in known}
        if "baseline" in known:
            arguments |= self.baseline(schema_of(table))
        return table, arguments

    def input(self) -> pl.LazyFrame:
        """Scan per-query values or a log, with its rows in their original order."""
        values = self.copies["values"]
        if values and any(self.given.get(name) for name in ("logs", "run_file", "judgments")):
            misused("--values has per-query values, instead of a log; give one of the two")
        if values:
            return sources.scan_table(
                values, self.given.get("input_format"), self.schema_options, self.ids
            )
        return self.scan_as_is()

    def _is_log(self, schema: pl.Schema) -> bool:
        """Return whether the table is a log: it has a column of documents, scores or labels."""
        if self.given.get("values"):
            return False
        position = self.given.get("position")
        scores = [position] if position else self.names("score")
        names = {*scores, *(name.removeprefix("-") for name in scores), *self.names("label")}
        return bool({self.given.get("doc") or "doc", *names} & {*schema})

    def _check_evaluated(self, schema: pl.Schema, metrics: Sequence[str]) -> None:
        for name in _OF_LOGS:
            if self.is_given(name):
                misused(f"--{name.replace('_', '-')} is for logs; the input has per-query values")
        missing = [name for name in metrics if name not in schema]
        if missing and not self.given.get("values"):
            scores, labels = (", ".join(map(repr, self.names(x))) for x in ("score", "label"))
            misused(
                f"the input is not a log with the columns {scores} and {labels}, nor are there "
                f"per-query values in a column {missing[0]!r}; available: {', '.join(schema)}. "
                "Name the columns of a log with --score and --label, or columns of per-query "
                "values with --metrics"
            )

    # Output

    def put(self, result: Any, **how: Any) -> None:
        """Write a result to a file, or show it."""
        if self.on_spark:
            from polars_rank.spark.sessions import fetched  # noqa: PLC0415  (an extra)

            result = fetched(result)
        names = ("format", "output", "overwrite", "keep_formulas", "wide")
        options = {name: self.given[name] for name in names if name in self.given}
        frame = result.lazy()
        if self.command.writes == "parquet":
            options["format"] = "parquet"
            frame = bars.watch(frame) if self.given.get("progress", True) else frame
        writing.put(frame, minor=self.command.minor, **{**options, **how})


def _named(text: str) -> tuple[str, str]:
    """Return the name of a run and its file, from NAME=FILE or only the file."""
    name, equals, file = text.partition("=")
    is_named = bool(equals and name and file) and not {*name} & {*"/\\*?["}
    return (name, file) if is_named and not Path(text).exists() else ("", text)
