"""The commands on per-query values: how far to trust a mean, which run is better, and gates."""
# ruff: noqa: FBT002
# typer reads the options off the signatures, as in `commands`; what it reads as their types must
# exist when the program runs.

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import polars as pl
import typer

from polars_rank._params import one_of
from polars_rank.cli import FAILED
from polars_rank.cli import options as o
from polars_rank.cli.lists import Lists, Source, distinct
from polars_rank.cli.messages import misused, say
from polars_rank.cli.sources import refuse_to_replace
from polars_rank.io.files import new_file
from polars_rank.stats.comparison import COLUMNS as COMPARED
from polars_rank.stats.comparison import compare as compared
from polars_rank.stats.gates import Rule, failing, rules_in, write_junit, write_markdown
from polars_rank.stats.gates import check as verdicts_on
from polars_rank.stats.intervals import Alternative, Interval
from polars_rank.stats.pairs import is_run
from polars_rank.stats.significance import Correction, Test
from polars_rank.stats.slicing import slices as sliced
from polars_rank.stats.summary import COLUMNS as SUMMARIZED
from polars_rank.stats.summary import summarize as summarized

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polars_rank.cli.running import Commands

Cluster = Annotated[
    list[str] | None, typer.Option(help="Columns of what was drawn instead of queries, as users.")
]
IntervalOption = Annotated[Interval, typer.Option("--interval", help="The kind of interval.")]
TestOption = Annotated[Test, typer.Option("--test", help="The test of the differences.")]
CorrectionOption = Annotated[
    Correction, typer.Option("--correction", help="Of the p-values, for their number.")
]
Resamples = Annotated[int, typer.Option(help="How often is drawn, where it is drawn.")]
Seed = Annotated[int, typer.Option(help="Another seed gives other draws.")]
MinQueries = Annotated[int, typer.Option(help="Slices of fewer queries are too small to tell.")]


RuleOption = Annotated[
    list[str] | None, typer.Option(help='A rule, as in "ndcg@10 >= 0.4"; may repeat.')
]
Rules = Annotated[Path | None, typer.Option(help="A TOML file of rules.")]
Undecided = Annotated[
    Literal["pass", "fail"] | None,
    typer.Option("--undecided", help="What a straddled rule does; fail by default."),
]


def summarize(
    source: Source,
    written: o.Written,
    by: o.By = None,
    weight: o.Weight = None,
    cluster: Cluster = None,
    interval: IntervalOption = "t",
    confidence: o.Confidence = 0.95,
    quantiles: Annotated[
        list[str] | None, typer.Option(help='Quantiles of the values, as in "0.1 0.5".')
    ] = None,
    n_resamples: Resamples = 1000,
    seed: Seed = 0,
) -> None:
    """Give the mean of each metric with its standard error and confidence interval."""
    clusters = o.split_names(cluster or [])
    lists = source.read(by=by, kept=[weight, *clusters])
    if interval in ("bootstrap", "studentized"):
        lists = lists.held()
    result = summarized(
        lists.table, lists.metrics, by=lists.groups, query=lists.query, weight=weight,
        cluster=clusters or None, interval=interval, confidence=confidence,
        quantiles=[_quantile(each) for each in o.split_names(quantiles or [])],
        n_resamples=n_resamples, seed=seed, **lists.counted,
    )  # fmt: skip
    written.put(result, source.files)


def compare(
    source: Source,
    written: o.Written,
    baseline: o.Baseline,
    by: o.By = None,
    weight: o.Weight = None,
    cluster: Cluster = None,
    test: TestOption = "t",
    correction: CorrectionOption = "holm",
    alternative: Annotated[
        Alternative, typer.Option("--alternative", help="What is to be shown of the run.")
    ] = "two-sided",
    margin: Annotated[
        float, typer.Option(help="With a direction: to show that it is not worse by this much.")
    ] = 0.0,
    confidence: o.Confidence = 0.95,
    n_resamples: Resamples = 10_000,
    seed: Seed = 0,
) -> None:
    """Compare runs with a baseline, query by query: differences, intervals and p-values."""
    clusters = o.split_names(cluster or [])
    lists = source.read(by=by, kept=[weight, *clusters], paired=True)
    result = compared(
        lists.table, run=str(lists.run), baseline=lists.value(baseline),
        metrics=lists.metrics, by=_without(lists.by, [lists.run]), query=lists.query,
        weight=weight, cluster=clusters or None, test=test, correction=correction,
        alternative=alternative, margin=margin, confidence=confidence,
        n_resamples=n_resamples, seed=seed, **lists.counted,
    )  # fmt: skip
    written.put(result, source.files)


def slices(
    source: Source,
    written: o.Written,
    baseline: o.Baseline,
    columns: Annotated[list[str], typer.Option(help="Columns whose values are slices.")],
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also pairs of values of two columns.")
    ] = False,
    min_queries: MinQueries = 30,
    correction: CorrectionOption = "bh",
    confidence: o.Confidence = 0.95,
) -> None:
    """Compare runs in every slice: where a difference comes from, and where it turns."""
    asked = o.split_names(columns)
    lists = source.read(kept=asked, paired=True)
    result = _in_slices(
        lists, asked, baseline, pairs=pairs, min_queries=min_queries, correction=correction,
        confidence=confidence,
    )  # fmt: skip
    written.put(result, source.files)


def check(
    source: Source,
    written: o.Written,
    rule: RuleOption = None,
    rules: Rules = None,
    undecided: Undecided = None,
    baseline: Annotated[
        str | None, typer.Option(help="The run that the others are compared with.")
    ] = None,
    slices: Annotated[
        list[str] | None, typer.Option(help="Columns whose values are slices.")
    ] = None,
    by: o.By = None,
    weight: o.Weight = None,
    cluster: Cluster = None,
    interval: IntervalOption = "t",
    test: TestOption = "t",
    confidence: o.Confidence = 0.95,
    min_queries: MinQueries = 30,
    seed: Seed = 0,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to a file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown to a file.")] = None,
) -> None:
    """Check rules on means, differences and slices; exit with 1 if one fails.

    With --baseline, rules on mean, low and high are about the means of the other runs; those on
    difference, p_value and the like about the comparison and slices; those on queries about all.
    """
    with ExitStack() as files:
        given, undecided = rules_of(rule or [], rules, undecided)
        read = [Rule.read(each) for each in given]
        _check_paired(read, baseline, slices)
        inputs = [*source.files, *([] if rules is None else [str(rules)])]
        # The reports are begun first: that they cannot be written shows before the long work.
        reports = {
            path: files.enter_context(_report(path, inputs, force=written.force))
            for path in (junit, markdown)
            if path is not None
        }
        clusters, columns = o.split_names(cluster or []), o.split_names(slices or [])
        lists = source.read(
            by=by, kept=[weight, *clusters, *columns], paired=baseline is not None,
            metrics=distinct(each.metric for each in read if each.metric),
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
                result = _in_slices(
                    lists, columns, baseline, min_queries=min_queries, confidence=confidence
                )
                tables.append(result.collect())
        verdicts = verdicts_on(tables, read, undecided=undecided, on_fail="return")
        written.put(verdicts.lazy(), inputs)
        if junit is not None:
            write_junit(verdicts, reports[junit], undecided=undecided, overwrite=True)
        if markdown is not None:
            write_markdown(verdicts, reports[markdown], overwrite=True)
    failed = verdicts.get_column("verdict").is_in(failing(undecided)).sum()
    if failed:
        say(f"{failed} of {verdicts.height} checks failed")
        raise typer.Exit(FAILED)


#: The commands, with the example that their help shows.
COMMANDS: Commands = {
    summarize: ['polars-rank summarize log.parquet --metrics "ndcg@10 ap" --by country'],
    compare: ['polars-rank compare log.parquet --metrics "ndcg@10 rr" --baseline run1'],
    slices: ["polars-rank slices log.parquet --metrics ndcg@10 --baseline run1 --columns country"],
    check: ['polars-rank check log.parquet --baseline run1 --rule "difference(ndcg@10) >= -0.01"'],
}


def _in_slices(lists: Lists, columns: Sequence[str], baseline: str, **options: Any) -> pl.LazyFrame:
    """Return the slices of each metric, one below the other."""
    if lists.metrics is None:
        misused("slices are of metrics that are named, as in --metrics ndcg@10")
    held = lists.held() if len(lists.metrics) > 1 else lists
    keys = distinct([*lists.query, *_without(lists.by, [*columns, lists.run])])
    found: pl.LazyFrame = pl.concat(
        sliced(
            held.table, metric, columns=columns, run=str(lists.run),
            baseline=lists.value(baseline), query=keys, **options, **lists.counted,
        )
        for metric in lists.metrics
    )  # fmt: skip
    return found


def rules_of(
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


def _without(names: Iterable[str], others: Iterable[str | None]) -> list[str]:
    left = {*others}
    return [name for name in names if name not in left]
