"""Per-query values: of a log, which is evaluated first, of a table, or moments of either."""
# ruff: noqa: TC003  (typer reads the options off the fields, whose types must exist then)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import polars as pl
import typer

from polars_rank.cli.messages import misused
from polars_rank.cli.options import (
    DuplicatesOption,
    Fractional,
    LayoutOption,
    NegativeOption,
    Progress,
    Qrels,
    QueriesOption,
    Run,
    TiesOption,
    UndefinedOption,
    UnjudgedOption,
    split_names,
)
from polars_rank.cli.sources import scan, scan_table
from polars_rank.columns import DOC, collected, schema_of
from polars_rank.conventions import POLARS_RANK, Conventions, Undefined, named
from polars_rank.evaluation import per_query
from polars_rank.logs.judgments import join_judgments
from polars_rank.logs.trec import scan_qrels, scan_trec_run
from polars_rank.measures.names import split
from polars_rank.statistics.moments import is_moments, merge

#: Options that say how a log is evaluated, which in per-query values has been done.
_OF_LOGS = (*("position", "queries", "relevant", "ties", "unjudged", "layout", "memory"),)


@dataclass(frozen=True)
class Lists:
    """Per-query values, and what their columns are."""

    table: pl.LazyFrame
    run: str | None
    by: list[str]
    query: list[str]
    metrics: list[str] | None
    conventions: Conventions
    undefined: Undefined | None

    @property
    def counted(self) -> dict[str, Any]:
        """What undefined values count as, for the functions of statistics."""
        return {"conventions": self.conventions, "undefined": self.undefined}

    @property
    def groups(self) -> list[str]:
        """The columns of run and groups."""
        return distinct([*([] if self.run is None else [self.run]), *self.by])

    def value(self, baseline: str) -> Any:
        """Return the name of the baseline as a value of the column of runs."""
        dtype = schema_of(self.table)[str(self.run)]
        if dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum):
            return baseline
        try:
            return pl.Series([baseline]).cast(dtype).item()
        except pl.exceptions.PolarsError:
            misused(f"--baseline must be a value of the column {self.run!r}, of type {dtype}")

    def held(self) -> Lists:
        """Return the lists in memory, for what reads them more than once."""
        return Lists(**{**vars(self), "table": collected(self.table).lazy()})


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is read: a log, which is evaluated, or per-query values; and how."""

    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...",
            help="A log as of evaluate; or per-query values or moments of such a one.",
        ),
    ] = field(default_factory=list)
    lists: Annotated[
        list[str],
        typer.Option(help="Per-query values, instead of a log; told by their columns, too."),
    ] = field(default_factory=list)
    metrics: Annotated[
        list[str],
        typer.Option("--metrics", "-m", help='Names, as in "ndcg@10 ap rr".'),
    ] = field(default_factory=list)
    run_column: Annotated[
        str | None, typer.Option(help='Column that tells runs apart; "" for none; run by default.')
    ] = None
    query: Annotated[list[str], typer.Option(help="Columns of the query; query by default.")] = (
        field(default_factory=list)
    )
    doc: Annotated[
        str | None, typer.Option(help='Column of the document; "" for none; doc by default.')
    ] = None
    score: Annotated[
        str, typer.Option(help='Column of the score; "-price" where lower is better.')
    ] = "score"
    position: Annotated[
        str | None, typer.Option(help="Column of the position, instead of a score; 1 is first.")
    ] = None
    label: Annotated[str, typer.Option(help="Column of the label.")] = "label"
    qrels: Qrels = field(default_factory=list)
    run: Run = field(default_factory=list)
    fractional: Fractional = False
    negative: NegativeOption = "unjudged"
    conventions: Annotated[
        str | None, typer.Option(help='Whose definitions to follow, as "trec_eval", "LightGBM".')
    ] = None
    ties: TiesOption = None
    relevant: Annotated[
        float | None, typer.Option(help="The lowest relevant label; 1 by default.")
    ] = None
    unjudged: UnjudgedOption = None
    queries: QueriesOption = None
    undefined: UndefinedOption = None
    duplicates: DuplicatesOption = "error"
    layout: LayoutOption = None
    memory: Annotated[
        str | None, typer.Option(help='For shuffled logs: memory to sort in, as "2GB".')
    ] = None
    progress: Progress = True

    @property
    def files(self) -> list[str]:
        """All files that are read."""
        return [*self.logs, *self.lists, *map(str, [*self.qrels, *self.run])]

    def read(
        self,
        *,
        by: Iterable[str] | None = None,
        kept: Iterable[str | None] = (),
        paired: bool = False,
        metrics: Sequence[str] = (),
    ) -> Lists:
        """Return per-query values of whatever was given.

        `kept` are columns of the query that a command needs, `metrics` those that it has reason
        to think of where none are named; `paired` is whether it compares runs.
        """
        table = self._table()
        schema = schema_of(table)
        asked = split(" ".join(self.metrics)) or [*metrics] or None
        lists = Lists(
            table,
            self._run(schema, paired=paired),
            split_names(by or []),
            split_names(self.query) or ["query"],
            asked,
            named(self.conventions or POLARS_RANK),
            self.undefined,
        )
        if not self._is_log(schema):
            self._check_evaluated(schema, asked)
            return Lists(**{**vars(lists), "table": merge(table)}) if is_moments(schema) else lists
        if asked is None:
            misused('name the metrics of the log, as in --metrics "ndcg@10 ap"')
        return Lists(**{**vars(lists), "table": self._evaluated(lists, kept)})

    def _table(self) -> pl.LazyFrame:
        trec = bool(self.qrels or self.run)
        if [bool(self.logs), bool(self.lists), trec].count(True) != 1 or (
            trec and not (self.qrels and self.run)
        ):
            misused("give one of a LOG, --lists, or both --qrels and --run")
        if not trec:
            return scan_table(self.lists or self.logs)
        judgments = scan_qrels(self.qrels, fractional=self.fractional, negative=self.negative)
        log: pl.LazyFrame = join_judgments(scan_trec_run(self.run), judgments)
        return log

    def _is_log(self, schema: pl.Schema) -> bool:
        """Return whether the rows are documents; a log may lack some column, but not all."""
        if self.lists or is_moments(schema):
            return False
        score = self.position or self.score
        return bool({self.doc or "doc", score, score.removeprefix("-"), self.label} & {*schema})

    def _check_evaluated(self, schema: pl.Schema, metrics: Sequence[str] | None) -> None:
        for name in _OF_LOGS:
            if getattr(self, name) is not None:
                misused(f"--{name} is for logs; these are per-query values")
        missing = [name for name in metrics or [] if name not in schema]
        if missing and not self.lists and not is_moments(schema):
            misused(
                f"this is no log, without the columns {self.score!r} and {self.label!r}, nor "
                f"per-query values with a column {missing[0]!r}; it has {', '.join(schema)}. Name "
                "the columns of a log with --score and --label, those of values with --metrics"
            )

    def _run(self, schema: pl.Schema, *, paired: bool) -> str | None:
        column = "run" if self.run_column is None else self.run_column
        if column in schema:
            return column
        if paired or (self.run_column is not None and column):
            misused(
                f"there is no column {column!r} to tell runs apart; the columns are "
                f"{', '.join(schema)}; name it with --run-column"
            )
        return None

    def _evaluated(self, lists: Lists, kept: Iterable[str | None]) -> pl.LazyFrame:
        """Return the per-query values of a log."""
        log, keys = lists.table, [*lists.groups, *lists.query]
        if self.logs:
            log = scan(
                self.logs, query=lists.query, by=lists.groups, layout=self.layout,
                memory=self.memory, progress=self.progress,
            )  # fmt: skip
        return per_query(
            log,
            lists.metrics or [],
            by=lists.groups,
            query=lists.query,
            doc=DOC if self.doc is None else self.doc or None,
            score=self.score,
            position=self.position,
            label=self.label,
            ties=self.ties,
            relevant=self.relevant,
            unjudged=self.unjudged,
            queries=self.queries,
            duplicates=self.duplicates,
            keep=distinct(name for name in kept if name and name not in keys),
            conventions=lists.conventions,
        )


def distinct(names: Iterable[str]) -> list[str]:
    """Return each name once, where it comes first."""
    return [*dict.fromkeys(names)]
