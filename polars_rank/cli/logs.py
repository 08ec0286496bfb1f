"""The log that a command reads: its files, column names and metric definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import polars as pl
import typer

from polars_rank.cli.messages import misused
from polars_rank.cli.options import (
    Attributes,
    Columns,
    Definitions,
    Files,
    from_arguments,
    undefined_of,
)
from polars_rank.cli.sources import (
    STANDARD_INPUT,
    Kind,
    kind_of,
    readable,
    refuse_to_replace,
    scan,
    scan_table,
)
from polars_rank.columns import RUN
from polars_rank.conventions import Conventions, named
from polars_rank.frames.tables import schema_of
from polars_rank.io.files import read_toml
from polars_rank.io.judgments import join_judgments
from polars_rank.io.trec import scan_judgments

#: Options that name input files.
_FILE_OPTIONS = ("logs", "values", "qrels", "items", "history")

#: Options that name columns of ids or other text.
_TEXT_COLUMN_OPTIONS = ("run", "by", "keep", "show", "slices", "cluster")


@dataclass(frozen=True, kw_only=True)
class Log(Files, Columns, Attributes):
    """The files of a log and the names of its columns."""

    ctx: typer.Context
    logs: list[str]

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Return the log of a command; raise `SourceError` if the output would replace an input."""
        log = from_arguments(cls, arguments)
        rules = arguments.get("rules")
        refuse_to_replace(arguments["output"], [*log.files, *([str(rules)] if rules else [])])
        return log

    def is_given(self, name: str) -> bool:
        """Return whether an option is on the command line."""
        source = self.ctx.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    @property
    def files(self) -> list[str]:
        """All input files."""
        return [*self.logs, *self.qrels, *self._attribute_files.values()]

    @property
    def keys(self) -> list[str]:
        """The columns of the query."""
        return self.query or ["query"]

    @property
    def ids(self) -> set[str]:
        """The columns of ids and names: text files have no types, so these are read as text."""
        given = (self.ctx.params.get(name) or [] for name in _TEXT_COLUMN_OPTIONS)
        columns = (name for each in given for name in ([each] if isinstance(each, str) else each))
        return {*self.keys, self.doc or "doc", *columns}

    @property
    def columns(self) -> dict[str, Any]:
        """The column names as parameters of `evaluate` and other functions."""
        return {
            "query": self.keys,
            "doc": "doc" if self.doc is None else self.doc or None,
            "score": self.scores if len(self.scores) > 1 else self.scores[0],
            "position": self.position,
            "label": self.labels if len(self.labels) > 1 else self.labels[0],
            "run": self.run_name,
        }

    @property
    def run_name(self) -> str | None:
        """The column of the run, or None if there is none; the default may be missing."""
        return RUN if self.run is None else self.run or None

    @property
    def scores(self) -> list[str]:
        """The columns of scores; several are runs."""
        return [self.score] if isinstance(self.score, str) else self.score

    @property
    def labels(self) -> list[str]:
        """The columns of labels; several are judges."""
        return [self.label] if isinstance(self.label, str) else self.label

    @property
    def run_of_rows(self) -> str | None:
        """The column of the run of the rows of the log; several columns of scores add one."""
        return self.run_name if len(self.scores) == 1 else RUN

    @property
    def attributes(self) -> dict[str, Any]:
        """The tables of attributes as parameters of `evaluate` and other functions."""
        return {
            name: scan_table([path], None, {}, self.ids)
            for name, path in self._attribute_files.items()
        }

    @property
    def _attribute_files(self) -> dict[str, str]:
        given = {"items": self.items, "history": self.history}
        return {name: path for name, path in given.items() if path is not None}

    @cached_property
    def opened(self) -> Self:
        """The log with copies of inputs that can be read only once, such as pipes."""
        if self.files.count(STANDARD_INPUT) > 1:
            misused("standard input can be read only once; use - only once")
        given = {name: getattr(self, name) for name in _FILE_OPTIONS if hasattr(self, name)}
        copies: dict[str, Any] = {
            name: [*map(readable, paths)] if isinstance(paths, list) else paths and readable(paths)
            for name, paths in given.items()
        }
        return replace(self, **copies)

    @property
    def schema_options(self) -> dict[str, str]:
        """Parameters of `pl.scan_parquet` for files with different columns."""
        given = {"missing_columns": self.missing_columns, "extra_columns": self.extra_columns}
        return {name: value for name, value in given.items() if value != "raise"}

    def scan(
        self,
        by: Iterable[str] = (),
        *,
        splits_runs: bool = True,
        needs_judgments: bool = True,
    ) -> pl.LazyFrame:
        """Scan the log for an evaluation with these groups.

        Without `splits_runs`, the rows of a query in all runs belong together.
        """
        kind = self._checked(needs_judgments=needs_judgments)
        if self.qrels:
            return self._judged(scan_table(self.logs, kind, self.schema_options, self.ids), by)
        return scan(
            self.logs, kind, self.schema_options, self.ids, query=self.keys,
            run=self.run_of_rows if splits_runs else None, by=[*by], layout=self.layout,
            memory=self.memory, progress=self.progress,
        )  # fmt: skip

    def scan_as_is(self) -> pl.LazyFrame:
        """Scan the log, with its rows in their original order."""
        kind = self._checked()
        if self.qrels:
            return self.scan()
        return scan_table(self.logs, kind, self.schema_options, self.ids)

    def _checked(self, *, needs_judgments: bool = True) -> Kind:
        """Return the format of the files; raise if a file is missing."""
        if self.qrels and not self.logs:
            misused("--qrels needs a LOG with the rankings")
        if not self.logs:
            misused("missing argument LOG")
        kind = self.input_format or kind_of(self.logs)
        if kind == "trec" and not self.qrels and needs_judgments:
            misused(f"{self.logs[0]} is a TREC run without judgments; add --qrels")
        return kind

    def _judged(self, log: pl.LazyFrame, by: Iterable[str]) -> pl.LazyFrame:
        """Join judgments, with the column names of the log and ids as text."""
        if len(self.keys) > 1:
            misused("--qrels needs a single column of the query; name it with --query")
        if len(self.labels) > 1:
            misused("--qrels has one label per document; name one column with --label")
        names = {"query": self.keys[0], "doc": self.doc or "doc", "label": self.labels[0]}
        schema = schema_of(log)
        types: dict[Any, Any] = {}
        for name in (names["query"], names["doc"]):
            if name in schema and (schema[name].is_float() or schema[name].is_nested()):
                misused(
                    f"column {name!r} has the type {schema[name]}, but ids in --qrels are text; "
                    "write the ids of the log as integers or text"
                )
            types |= {name: pl.String} if name in schema else {}
        judgments = scan_judgments(self.qrels, fractional=self.fractional, negative=self.negative)
        joined: pl.LazyFrame = join_judgments(
            log.cast(types), judgments.rename(names), run=self.run_of_rows, by=[*by],
            query=names["query"], doc=names["doc"],
            score=self.position or self.scores[0].removeprefix("-"), label=names["label"],
        )  # fmt: skip
        return joined


def definitions(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metric definitions in the arguments of a command."""
    given = vars(from_arguments(Definitions, values))
    return {
        **given,
        "conventions": conventions_of(given["conventions"]),
        "undefined": undefined_of(given["undefined"]),
    }


def changed_conventions(given: Mapping[str, Any]) -> Conventions:
    """Return the conventions with the changes of the other metric definitions."""
    changes = {**given}
    conventions: Conventions = changes.pop("conventions")
    return conventions.but(**changes)


def conventions_of(text: str) -> Conventions:
    """Return the conventions with the name of a preset, or those in a TOML file.

    The keys of a file are fields of `Conventions`. The key `base` names the preset that the other
    keys change.
    """
    if not text.lower().endswith(".toml"):
        return named(text)
    fields = read_toml(text, "conventions")
    name = fields.pop("name", Path(text).stem)
    return named(fields).but(name=name)
