"""The log of a command: files in any format, names of columns, and definitions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import polars as pl
import typer

from polars_rank.cli.messages import misused
from polars_rank.cli.options import split_names, undefined_of
from polars_rank.cli.sources import (
    STANDARD_INPUT,
    Kind,
    is_pipe,
    keep_pipe,
    kind_of,
    scan,
    scan_table,
)
from polars_rank.columns import DOC, RUNS
from polars_rank.conventions import POLARS_RANK, Conventions, named
from polars_rank.errors import SourceError
from polars_rank.frames.tables import schema_of
from polars_rank.io.files import temporary_folder
from polars_rank.io.judgments import join_judgments
from polars_rank.io.parquet import Layout
from polars_rank.trec import Negative, scan_qrels

#: Options that name columns of text.
_OF_IDS = ("run", "by", "keep", "show", "slices", "columns", "cluster")


@dataclass(frozen=True, kw_only=True)
class Log:
    """The files of a log and the names of its columns."""

    ctx: typer.Context
    logs: list[str]
    qrels: list[Path]
    fractional: bool
    negative: Negative
    input_format: Kind | None
    layout: Layout | None
    memory: str | None
    missing_columns: Literal["raise", "insert"]
    extra_columns: Literal["raise", "ignore"]
    query: list[str]
    doc: str | None
    score: str
    position: str | None
    label: str
    progress: bool
    #: Attributes of documents and what users have seen, in commands that evaluate metrics.
    items: Path | None = None
    history: Path | None = None

    def is_given(self, name: str) -> bool:
        """Return whether an option is on the command line."""
        source = self.ctx.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    @property
    def files(self) -> list[str]:
        """All input files."""
        return [*self.logs, *map(str, [*self.qrels, *self._attribute_files.values()])]

    @property
    def keys(self) -> list[str]:
        """The columns of the query."""
        return split_names(self.query) or ["query"]

    @property
    def ids(self) -> set[str]:
        """The columns of ids and names, which are read as text from text files."""
        given = [self.ctx.params.get(name) or [] for name in _OF_IDS]
        texts = (text for each in given for text in ([each] if isinstance(each, str) else each))
        return {*self.keys, self.doc or "doc", *split_names(texts)}

    @property
    def columns(self) -> dict[str, Any]:
        """The names of the columns, as parameters of the library's functions."""
        return {
            "query": self.keys,
            "doc": DOC if self.doc is None else self.doc or None,
            "score": self.score,
            "position": self.position,
            "label": self.label,
        }

    @property
    def attributes(self) -> dict[str, Any]:
        """The tables of --items and --history, as parameters of the library's functions."""
        return {
            name: scan_table([str(path)], None, {}, self.ids)
            for name, path in self._attribute_files.items()
        }

    @property
    def _attribute_files(self) -> dict[str, Path]:
        given = {"items": self.items, "history": self.history}
        return {name: path for name, path in given.items() if path is not None}

    @cached_property
    def opened(self) -> Self:
        """The log with the content of pipes, which can be read only once, in temporary files."""
        if self.files.count(STANDARD_INPUT) > 1:
            misused("standard input can be read only once; use - only once")

        def kept(paths: list[Any]) -> list[Any]:
            return [
                type(path)(keep_pipe(path, self.ctx.with_resource(temporary_folder())))
                if is_pipe(path) else path
                for path in paths
            ]  # fmt: skip

        if not any(map(is_pipe, self.files)):
            return self
        attributes = {name: kept([path])[0] for name, path in self._attribute_files.items()}
        return replace(self, logs=kept(self.logs), qrels=kept(self.qrels), **attributes)

    @property
    def differing(self) -> dict[str, str]:
        """Parameters of Polars for files with different columns."""
        given = {"missing_columns": self.missing_columns, "extra_columns": self.extra_columns}
        return {name: value for name, value in given.items() if value != "raise"}

    def groups(self, by: Iterable[str]) -> list[str]:
        """Return the columns to group by; for TREC files, the default is the run."""
        is_trec = bool(self.qrels) and (self.input_format or kind_of(self.logs)) == "trec"
        return split_names(by) or (["run"] if is_trec else [])

    def scan(self, by: Iterable[str] = ()) -> pl.LazyFrame:
        """Return the log for an evaluation by these groups."""
        kind = self._checked()
        if self.qrels:
            return self._judged(scan_table(self.logs, kind, self.differing, self.ids), by)
        return scan(
            self.logs, kind, self.differing, self.ids, query=self.keys, by=[*by],
            layout=self.layout, memory=self.memory, progress=self.progress,
        )  # fmt: skip

    def scan_as_is(self) -> pl.LazyFrame:
        """Return the log with its rows in their original order."""
        kind = self._checked()
        if self.qrels:
            return self.scan()
        return scan_table(self.logs, kind, self.differing, self.ids)

    def _checked(self) -> Kind:
        """Return the format of the files; raise if a file is missing."""
        if self.qrels and not self.logs:
            misused("--qrels needs a LOG with the rankings")
        if not self.logs:
            misused("missing argument LOG")
        kind = self.input_format or kind_of(self.logs)
        if kind == "trec" and not self.qrels:
            misused(f"{self.logs[0]} is a TREC run without judgments; add --qrels")
        return kind

    def _judged(self, log: pl.LazyFrame, by: Iterable[str]) -> pl.LazyFrame:
        """Join judgments, with the column names of the log and ids as text."""
        if len(self.keys) > 1:
            misused("--qrels needs a single column of the query; name it with --query")
        names = {"query": self.keys[0], "doc": self.doc or "doc", "label": self.label}
        schema = schema_of(log)
        types: dict[Any, Any] = {}
        for name in (names["query"], names["doc"]):
            if name in schema and (schema[name].is_float() or schema[name].is_nested()):
                misused(
                    f"column {name!r} has the type {schema[name]}, but ids in --qrels are text; "
                    "write the ids of the log as integers or text"
                )
            types |= {name: pl.String} if name in schema else {}
        judgments = scan_qrels(self.qrels, fractional=self.fractional, negative=self.negative)
        runs = [name for name in by if name.lower() in RUNS]
        joined: pl.LazyFrame = join_judgments(
            log.cast(types), judgments.rename(names), by=runs or None, query=names["query"],
            doc=names["doc"], score=self.position or self.score.removeprefix("-"),
            label=names["label"],
        )  # fmt: skip
        return joined


def definitions(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions among the arguments of a command."""
    return {
        "conventions": conventions_of(values["conventions"]),
        "undefined": undefined_of(values["undefined"]),
        **{name: values[name] for name in ("ties", "rel", "unjudged", "query_set", "duplicates")},
    }


def conventions_of(text: str) -> Conventions:
    """Return the conventions of a preset or of a TOML file.

    A file has fields of `Conventions`, and optionally `base`, the preset that they change.
    """
    if not text.lower().endswith(".toml"):
        return named(text)
    try:
        fields = tomllib.loads(Path(text).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"cannot read the conventions in {text!r}: {error}"
        raise SourceError(message) from error
    return named(fields.pop("base", POLARS_RANK)).but(**{"name": Path(text).stem, **fields})
