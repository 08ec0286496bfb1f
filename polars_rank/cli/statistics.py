"""The commands `summarize`, `compare` and `check`."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import typer

from polars_rank.cli import FAILED
from polars_rank.cli import options as o
from polars_rank.cli.messages import misused, say
from polars_rank.cli.per_query import PerQuery, Source
from polars_rank.cli.sources import refuse_to_replace
from polars_rank.cli.writing import put
from polars_rank.io.outputs import new_file
from polars_rank.stats import comparison, gates, summary
from polars_rank.stats import verdicts as verdict_files
from polars_rank.stats.results import schema_of_result
from polars_rank.stats.rules import Rule, read_rules
from polars_rank.stats.run_pairs import is_run

#: Options that are parameters of both `summarize` and `compare`.
_UNITS = ("weight", "cluster", "slices", "confidence", "repeated")


@o.takes(o.Estimates, o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
def summarize(
    ctx: typer.Context,
    logs: o.LogsOrValues = [],
    metrics: o.Metrics = [],
    details: o.Details = False,
    **options: Any,
) -> None:
    """Show means with confidence intervals.

    For example:
      polars-rank summarize log.parquet -m "ndcg@10 ap" --by country
    """
    arguments = {**locals(), **options}
    source = Source.of(arguments)
    data = _read(source, arguments)
    result = summary.summarize(data.table, data.metrics, details=details, **_of(data, arguments))
    put(result, **o.output_options(options))


@o.takes(o.Estimates, o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
def compare(
    ctx: typer.Context,
    logs: o.LogsOrValues = [],
    metrics: o.Metrics = [],
    baseline: o.BaselineOrPairs = None,
    margin: o.Margin = "0",
    correction: o.Correction = True,
    min_queries: o.MinQueries = 30,
    details: o.Details = False,
    **options: Any,
) -> None:
    """Compare runs: differences, intervals, p-values and verdicts.

    For example:
      polars-rank compare log.parquet -m "ndcg@10 rr" --baseline bm25
      polars-rank compare log.parquet -m ndcg@10 --slices country --margin 2%
    """
    arguments = {**locals(), **options}
    source = Source.of(arguments)
    data = _read(source, arguments, paired=True)
    result = comparison.compare(
        data.table, data.metrics, baseline=data.value(baseline), details=details,
        **_compared(data, arguments),
    )  # fmt: skip
    put(result, **o.output_options(options))


@o.takes(o.Estimates, o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
def check(
    ctx: typer.Context,
    logs: o.LogsOrValues = [],
    metrics: o.Metrics = [],
    rule: o.Rule = [],
    rules: o.Rules = None,
    undecided: o.Undecided = None,
    baseline: o.AnyBaseline = None,
    margin: o.Margin = "0",
    correction: o.Correction = True,
    min_queries: o.MinQueries = 30,
    junit: Annotated[Path | None, o.file("Write JUnit XML to a file.", o.OUTPUT)] = None,
    markdown: Annotated[Path | None, o.file("Write Markdown to a file.", o.OUTPUT)] = None,
    **options: Any,
) -> None:
    """Check rules on means and differences; exit with 1 if one fails.

    With --baseline, rules on mean, low and high apply to the means of the other runs, and rules on
    difference, p_value and the like to the comparison. Failures are first.

    For example:
      polars-rank check log.parquet --baseline bm25 --rule "difference(ap) >= 0"
    """
    arguments = {**locals(), **options}
    source = Source.of(arguments)
    with ExitStack() as files:
        checks, verdict = rules_of(rule, rules, undecided)
        if baseline is None:
            _require_means(checks)
        inputs = [*source.files, *([] if rules is None else [str(rules)])]
        # Open the reports first: if one cannot be written, no time is spent on the evaluation.
        reports = {
            path: files.enter_context(_report(path, inputs, overwrite=options["overwrite"]))
            for path in (junit, markdown)
            if path is not None
        }
        of_rules = [each.metric for each in checks if each.metric]
        data = _read(source, arguments, paired=baseline is not None, metrics=of_rules).in_memory()
        means = summary.summarize(
            data.table, data.metrics, details=True, **_of(data, arguments)
        ).collect()
        tables = [means]
        if baseline is not None:
            value = data.value(baseline)
            compared = comparison.compare(
                data.table, data.metrics, baseline=value, details=True,
                **_compared(data, arguments),
            )  # fmt: skip
            run = str(data.run)
            tables = [means.filter(~is_run(run, means.schema[run], value)), compared.collect()]
        verdicts = gates.check(tables, checks, undecided=verdict, on_fail="return").sort(
            pl.col("verdict").cast(pl.Enum(verdict_files.WORST_FIRST)), maintain_order=True
        )
        put(verdicts.lazy(), **o.output_options(options))
        if junit is not None:
            reports[junit].write_text(verdict_files.junit(verdicts, verdict), encoding="utf-8")
        if markdown is not None:
            reports[markdown].write_text(verdict_files.markdown(verdicts), encoding="utf-8")
    failed = verdicts.get_column("verdict").is_in(verdict_files.failing(verdict)).sum()
    if failed:
        say(f"{failed} of {verdicts.height} checks failed")
        raise typer.Exit(FAILED)


def _read(source: Source, arguments: Mapping[str, Any], **options: Any) -> PerQuery:
    """Return the per-query values of a command."""
    return source.read(
        by=arguments["by"],
        kept={name: arguments[name] for name in ("weight", "cluster", "slices")},
        predicted_label=arguments["predicted_label"], predictions=arguments["predictions"],
        **options,
    )  # fmt: skip


def _of(data: PerQuery, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that `summarize` and `compare` have in common."""
    units = {name: None if arguments[name] == [] else arguments[name] for name in _UNITS}
    return {**units, **data.columns, "predictions": data.predictions}


def _compared(data: PerQuery, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `compare` for a command with a comparison."""
    own = {name: arguments[name] for name in ("correction", "min_queries")}
    return {**own, **_of(data, arguments), "margin": o.number_or_text(arguments["margin"])}


def rules_of(
    texts: Sequence[str], file: Path | None, undecided: Literal["pass", "fail"] | None
) -> tuple[list[Rule], Any]:
    """Return the rules of --rule and --rules, and the verdict for undecided rules."""
    if not texts and file is None:
        misused('give a rule, e.g. --rule "ndcg@10 >= 0.4", or a file of rules with --rules')
    in_file, verdict = ([], undecided or "fail") if file is None else read_rules(file, undecided)
    return [*in_file, *map(Rule.read, texts)], verdict


def _require_means(rules: Iterable[Rule]) -> None:
    """Raise `ArgumentError` if a rule is about a comparison."""
    others = {*schema_of_result(comparison.COMPARISON)} - {*schema_of_result(summary.SUMMARY)}
    for rule in rules:
        if rule.column in others:
            misused(
                f"the rule {rule.text!r} is about comparisons; name the other run with --baseline"
            )


def _report(path: Path, inputs: Iterable[str], *, overwrite: bool) -> Any:
    """Return a new file for a report. Empty files, which build servers create, are overwritten."""
    refuse_to_replace(path, inputs)
    return new_file(path, overwrite=overwrite or (path.is_file() and not path.stat().st_size))
