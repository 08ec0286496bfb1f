"""The commands on per-query values: how far to trust a mean, which run is better, and gates."""
# ruff: noqa: FBT002, TC003
# typer reads the options off the signatures, as in `commands`; what it reads as their types must
# exist when the program runs.

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import polars as pl
import typer

from polars_rank.arguments import one_of
from polars_rank.cli import FAILED
from polars_rank.cli.formats import choose, put
from polars_rank.cli.messages import misused, one_message
from polars_rank.cli.options import (
    DuplicatesOption,
    Force,
    FormatOption,
    Fractional,
    LayoutOption,
    NegativeOption,
    Output,
    Progress,
    Qrels,
    QueriesOption,
    Run,
    TiesOption,
    UndefinedOption,
    UnjudgedOption,
    split_names,
)
from polars_rank.cli.sources import refuse_to_replace, scan, scan_table
from polars_rank.columns import DOC, collected, schema_of
from polars_rank.conventions import POLARS_RANK, Conventions, Undefined, named
from polars_rank.evaluation import per_query
from polars_rank.logs.files import new_file
from polars_rank.logs.judgments import join_judgments
from polars_rank.logs.trec import scan_qrels, scan_trec_run
from polars_rank.statistics.comparison import COLUMNS as COMPARED
from polars_rank.statistics.comparison import compare as compared
from polars_rank.statistics.gates import Rule, failing, write_junit, write_markdown
from polars_rank.statistics.gates import _from_file as rules_in
from polars_rank.statistics.gates import check as verdicts_on
from polars_rank.statistics.intervals import Alternative, Interval
from polars_rank.statistics.moments import is_moments, merge
from polars_rank.statistics.pairs import is_run
from polars_rank.statistics.significance import Correction, Test
from polars_rank.statistics.slicing import slices as sliced
from polars_rank.statistics.summary import COLUMNS as SUMMARIZED
from polars_rank.statistics.summary import summarize as summarized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

By = Annotated[list[str] | None, typer.Option(help="Columns to group by, beside the run.")]
Baseline = Annotated[str, typer.Option(help="The run that the others are compared with.")]
Weight = Annotated[str | None, typer.Option(help="Column of each query's weight.")]
Cluster = Annotated[
    list[str] | None, typer.Option(help="Columns of what was drawn instead of queries, as users.")
]
Confidence = Annotated[float, typer.Option(help="How likely the interval has the true mean.")]
IntervalOption = Annotated[Interval, typer.Option("--interval", help="The kind of interval.")]
TestOption = Annotated[Test, typer.Option("--test", help="The test of the differences.")]
CorrectionOption = Annotated[
    Correction, typer.Option("--correction", help="Of the p-values, for their number.")
]
Replicates = Annotated[int, typer.Option(help="How often is drawn, where it is drawn.")]
Seed = Annotated[int, typer.Option(help="Another seed gives other draws.")]
Least = Annotated[int, typer.Option(help="Slices of fewer queries are too small to tell.")]

#: Options that say how a log is evaluated, which in per-query values has been done.
_OF_LOGS = (*("position", "queries", "relevant", "ties", "unjudged", "keep", "layout", "memory"),)


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
        return _distinct([*([] if self.run is None else [self.run]), *self.by])

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
    keep: Annotated[
        list[str],
        typer.Option(help="Columns of the query to keep; those that options name are kept."),
    ] = field(default_factory=list)
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
        asked = split_names(self.metrics) or [*metrics] or None
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
            if getattr(self, name) not in (None, []):
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
        wanted = _distinct(split_names(self.keep) + [name for name in kept if name])
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
            keep=[name for name in wanted if name not in keys],
            conventions=lists.conventions,
        )


@dataclass(frozen=True, kw_only=True)
class Written:
    """Where the result goes."""

    format: FormatOption = None
    output: Output = None
    force: Force = False

    def put(self, result: pl.LazyFrame, inputs: Iterable[str]) -> None:
        """Write the result, or show it."""
        shape = choose(self.format, self.output)
        if self.force:
            refuse_to_replace(self.output, inputs)
        put(result, shape, self.output, force=self.force)


def summarize(
    source: Source,
    written: Written,
    by: By = None,
    weight: Weight = None,
    cluster: Cluster = None,
    interval: IntervalOption = "t",
    confidence: Confidence = 0.95,
    quantiles: Annotated[
        list[str] | None, typer.Option(help='Quantiles of the values, as in "0.1 0.5".')
    ] = None,
    replicates: Replicates = 1000,
    seed: Seed = 0,
) -> None:
    """Give the mean of each metric with its standard error and confidence interval."""
    with one_message(*source.files):
        clusters = split_names(cluster or [])
        lists = source.read(by=by, kept=[weight, *clusters])
        if interval in ("bootstrap", "studentized"):
            lists = lists.held()
        result = summarized(
            lists.table, lists.metrics, by=lists.groups, query=lists.query, weight=weight,
            cluster=clusters or None, interval=interval, confidence=confidence,
            quantiles=[_quantile(each) for each in split_names(quantiles or [])],
            replicates=replicates, seed=seed, **lists.counted,
        )  # fmt: skip
        written.put(result, source.files)


def compare(
    source: Source,
    written: Written,
    baseline: Baseline,
    by: By = None,
    weight: Weight = None,
    cluster: Cluster = None,
    test: TestOption = "t",
    correction: CorrectionOption = "holm",
    alternative: Annotated[
        Alternative, typer.Option("--alternative", help="What is to be shown of the run.")
    ] = "two-sided",
    margin: Annotated[
        float, typer.Option(help="With a direction: to show that it is not worse by this much.")
    ] = 0.0,
    confidence: Confidence = 0.95,
    replicates: Replicates = 10_000,
    seed: Seed = 0,
) -> None:
    """Compare runs with a baseline, query by query: differences, intervals and p-values."""
    with one_message(*source.files):
        clusters = split_names(cluster or [])
        lists = source.read(by=by, kept=[weight, *clusters], paired=True)
        result = compared(
            lists.table, run=str(lists.run), baseline=lists.value(baseline),
            metrics=lists.metrics, by=_without(lists.by, [lists.run]), query=lists.query,
            weight=weight, cluster=clusters or None, test=test, correction=correction,
            alternative=alternative, margin=margin, confidence=confidence,
            replicates=replicates, seed=seed, **lists.counted,
        )  # fmt: skip
        written.put(result, source.files)


def slices(
    source: Source,
    written: Written,
    baseline: Baseline,
    columns: Annotated[list[str], typer.Option(help="Columns whose values are slices.")],
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also pairs of values of two columns.")
    ] = False,
    least: Least = 30,
    correction: CorrectionOption = "bh",
    confidence: Confidence = 0.95,
) -> None:
    """Compare runs in every slice: where a difference comes from, and where it turns."""
    with one_message(*source.files):
        asked = split_names(columns)
        lists = source.read(kept=asked, paired=True)
        result = _in_slices(
            lists, asked, baseline, pairs=pairs, least=least, correction=correction,
            confidence=confidence,
        )  # fmt: skip
        written.put(result, source.files)


def check(
    source: Source,
    written: Written,
    rule: Annotated[
        list[str] | None, typer.Option(help='A rule, as in "ndcg@10 >= 0.4"; may repeat.')
    ] = None,
    rules: Annotated[Path | None, typer.Option(help="A TOML file of rules.")] = None,
    undecided: Annotated[
        Literal["pass", "fail"] | None,
        typer.Option("--undecided", help="What a straddled rule does; fail by default."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The run that the others are compared with.")
    ] = None,
    slices: Annotated[
        list[str] | None, typer.Option(help="Columns whose values are slices.")
    ] = None,
    by: By = None,
    weight: Weight = None,
    cluster: Cluster = None,
    interval: IntervalOption = "t",
    test: TestOption = "t",
    confidence: Confidence = 0.95,
    least: Least = 30,
    seed: Seed = 0,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to a file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown to a file.")] = None,
) -> None:
    """Check rules on means, differences and slices; exit with 1 if one fails.

    With --baseline, rules on a mean are about the other runs; those on difference, p_value and
    the like about the comparison; those on low, high and queries about both, and slices.
    """
    with one_message(*source.files), ExitStack() as files:
        given, undecided = _rules(rule or [], rules, undecided)
        read = [Rule.read(each) for each in given]
        _check_paired(read, baseline, slices)
        inputs = [*source.files, *([] if rules is None else [str(rules)])]
        # The reports are begun first: that they cannot be written shows before the long work.
        reports = {
            path: files.enter_context(_report(path, inputs, force=written.force))
            for path in (junit, markdown)
            if path is not None
        }
        clusters, columns = split_names(cluster or []), split_names(slices or [])
        lists = source.read(
            by=by, kept=[weight, *clusters, *columns], paired=baseline is not None,
            metrics=_distinct(each.metric for each in read if each.metric),
        ).held()  # fmt: skip
        options: dict[str, Any] = {
            "weight": weight, "cluster": clusters or None, "confidence": confidence, "seed": seed
        }  # fmt: skip
        summary = summarized(
            lists.table, lists.metrics, by=lists.groups, query=lists.query, interval=interval,
            **options, **lists.counted,
        ).collect()  # fmt: skip
        tables = [summary]
        if baseline is not None:
            value, run = lists.value(baseline), str(lists.run)
            tables[0] = summary.filter(~is_run(run, summary.schema[run], value))
            result = compared(
                lists.table, run=run, baseline=value, metrics=lists.metrics,
                by=_without(lists.by, [run]), query=lists.query, test=test,
                **options, **lists.counted,
            )  # fmt: skip
            tables.append(result.collect())
            if columns:
                result = _in_slices(lists, columns, baseline, least=least, confidence=confidence)
                tables.append(result.collect())
        verdicts = pl.concat(
            verdicts_on(_about(each, tables), [told], undecided=undecided, on_fail="return")
            for each, told in zip(read, given, strict=True)
        )
        written.put(verdicts.lazy(), inputs)
        if junit is not None:
            write_junit(verdicts, reports[junit], undecided=undecided)
        if markdown is not None:
            write_markdown(verdicts, reports[markdown])
    failed = verdicts.get_column("verdict").is_in(failing(undecided)).sum()
    if failed:
        typer.echo(f"{failed} of {verdicts.height} checks failed", err=True)
        raise typer.Exit(FAILED)


#: The commands, with the example that their help shows.
COMMANDS: Mapping[Callable[..., None], str] = {
    summarize: 'polars-rank summarize log.parquet --metrics "ndcg@10 ap" --by country',
    compare: 'polars-rank compare log.parquet --metrics "ndcg@10 rr" --baseline run1',
    slices: "polars-rank slices log.parquet --metrics ndcg@10 --baseline run1 --columns country",
    check: 'polars-rank check log.parquet --baseline run1 --rule "difference(ndcg@10) >= -0.01"',
}


def _in_slices(lists: Lists, columns: Sequence[str], baseline: str, **options: Any) -> pl.LazyFrame:
    """Return the slices of each metric, one below the other."""
    if lists.metrics is None:
        misused("slices are of metrics that are named, as in --metrics ndcg@10")
    held = lists.held() if len(lists.metrics) > 1 else lists
    keys = _distinct([*lists.query, *_without(lists.by, [*columns, lists.run])])
    found: pl.LazyFrame = pl.concat(
        sliced(
            held.table, metric, columns=columns, run=str(lists.run),
            baseline=lists.value(baseline), query=keys, **options, **lists.counted,
        )
        for metric in lists.metrics
    )  # fmt: skip
    return found


def _rules(
    texts: Sequence[str], file: Path | None, undecided: Literal["pass", "fail"] | None
) -> tuple[list[Any], Any]:
    """Return all rules, and what undecided ones do."""
    if not texts and file is None:
        misused('give a rule, as in --rule "ndcg@10 >= 0.4", or a file of them with --rules')
    read, said = ([], None) if file is None else rules_in(file)
    decided = undecided or said or "fail"
    one_of("undecided", decided, ("pass", "fail"))
    return [*read, *texts], decided


def _check_paired(rules: Iterable[Rule], baseline: str | None, slices: Any) -> None:
    """End the program for rules about tables that the options do not ask for."""
    if slices and baseline is None:
        misused("--slices are of differences from a run; name it with --baseline")
    for rule in rules:
        if rule.column == "contribution" and not slices:
            misused(f"the rule {rule.text!r} is about slices; name their columns with --slices")
        if rule.column in {*COMPARED} - {*SUMMARIZED} and baseline is None:
            misused(
                f"the rule {rule.text!r} is about differences from a run; name it with --baseline"
            )


def _about(rule: Rule, tables: list[pl.DataFrame]) -> list[pl.DataFrame]:
    """Return the tables that a rule is about: a mean has its interval in the summary alone."""
    of_mean = rule.column in ((None, "mean") if rule.metric else ("mean",))
    return tables[:1] if of_mean and {*rule.where} <= {*tables[0].columns} else tables


def _report(path: Path, inputs: Iterable[str], *, force: bool) -> Any:
    """Return a new file for a report; build servers give an empty one to write to."""
    if force:
        refuse_to_replace(path, inputs)
    return new_file(path, overwrite=force or (path.is_file() and not path.stat().st_size))


def _quantile(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        misused(f"--quantiles must be numbers from 0 to 1; found {text!r}")


def _distinct(names: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(names)]


def _without(names: Iterable[str], others: Iterable[str | None]) -> list[str]:
    left = {*others}
    return [name for name in names if name not in left]
