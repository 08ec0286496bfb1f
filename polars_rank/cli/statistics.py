"""The commands `summarize`, `compare`, `slices` and `check`, and the statistics that they show."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import typer

from polars_rank._params import one_of
from polars_rank.cli import FAILED
from polars_rank.cli import options as o
from polars_rank.cli.messages import misused, say
from polars_rank.cli.per_query import PerQuery, Source
from polars_rank.cli.sources import refuse_to_replace, scan_table
from polars_rank.cli.writing import put
from polars_rank.io.outputs import new_file
from polars_rank.stats import comparison, differences, gates, slicing, summary
from polars_rank.stats import verdicts as verdict_files
from polars_rank.stats.run_pairs import is_run


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
def summarize(
    ctx: typer.Context,
    logs: o.LogsOrValues = [],
    values: o.Values = [],
    metrics: o.Metrics = [],
    run: o.Run = None,
    by: o.By = [],
    interval: o.Interval = "auto",
    bounds: o.Bounds = [],
    confidence: o.Confidence = 0.95,
    quantiles: Annotated[
        list[str],
        o.option(
            'Quantiles of the values to add, e.g. "0.1 0.5".',
            metavar="NUMBER",
            callback=o.split_names,
        ),
    ] = [],
    n_resamples: o.Resamples = 10_000,
    seed: o.Seed = 0,
    weight: o.Weight = None,
    order: o.Order = None,
    cluster: o.Cluster = [],
    predicted_label: o.PredictedLabel = None,
    predictions: o.Predictions = [],
    probability: o.Probability = None,
    **options: Any,
) -> None:
    """Show means with standard errors and confidence intervals.

    For example:
      polars-rank summarize log.parquet -m "ndcg@10 ap" --by country
    """
    source = Source.of({**locals(), **options})
    kept = {"weight": weight, "cluster": cluster, "probability": probability, "order": order}
    data = source.read(by=by, kept=kept, predicted_label=predicted_label)
    if interval in ("bootstrap", "studentized"):
        data = data.in_memory()
    result = means_of(
        data, weight=weight, cluster=cluster or None, interval=interval, confidence=confidence,
        quantiles=[o.number("quantiles", text) for text in quantiles], n_resamples=n_resamples,
        seed=seed, **_in_order(bounds, order),
        **_predicted(source, data, predictions, probability),
    )  # fmt: skip
    put(result, **o.output_options(options))


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
def compare(
    ctx: typer.Context,
    baseline: o.Baseline,
    logs: o.LogsOrValues = [],
    values: o.Values = [],
    metrics: o.Metrics = [],
    run: o.Run = None,
    by: o.By = [],
    test: o.Test = "auto",
    correction: o.Correction = "holm",
    alternative: o.Alternative = "two-sided",
    margin: o.Margin = 0.0,
    relative_margin: o.RelativeMargin = None,
    confidence: o.Confidence = 0.95,
    interval: o.IntervalOfDifference = "auto",
    bounds: o.Bounds = [],
    n_resamples: o.Resamples = 10_000,
    seed: o.Seed = 0,
    weight: o.Weight = None,
    order: o.Order = None,
    cluster: o.Cluster = [],
    predicted_label: o.PredictedLabel = None,
    predictions: o.Predictions = [],
    probability: o.Probability = None,
    covariate: o.Covariate = None,
    covariate_mean: o.CovariateMean = None,
    **options: Any,
) -> None:
    """Compare runs with a baseline: differences, intervals, p-values.

    For example:
      polars-rank compare log.parquet -m "ndcg@10 rr" --baseline bm25
    """
    source = Source.of({**locals(), **options})
    kept = {
        "weight": weight, "cluster": cluster, "probability": probability, "order": order,
        "covariate": covariate,
    }  # fmt: skip
    data = source.read(by=by, kept=kept, paired=True, predicted_label=predicted_label)
    result = compared(
        data, baseline, weight=weight, cluster=cluster or None, test=test, correction=correction,
        alternative=alternative, margin=margin, relative_margin=relative_margin,
        covariate=covariate, covariate_mean=covariate_mean, confidence=confidence,
        interval=interval, n_resamples=n_resamples, seed=seed, **_in_order(bounds, order),
        **_predicted(source, data, predictions, probability),
    )  # fmt: skip
    put(result, **o.output_options(options))


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
def slices(
    ctx: typer.Context,
    baseline: o.Baseline,
    slices: o.Slices,
    logs: o.LogsOrValues = [],
    values: o.Values = [],
    metrics: o.Metrics = [],
    run: o.Run = None,
    pairs: o.Pairs = False,
    min_queries: o.MinQueries = 30,
    correction: o.Correction = "bh",
    alternative: o.Alternative = "two-sided",
    margin: o.Margin = 0.0,
    relative_margin: o.RelativeMargin = None,
    confidence: o.Confidence = 0.95,
    weight: o.Weight = None,
    cluster: o.Cluster = [],
    predicted_label: o.PredictedLabel = None,
    predictions: o.Predictions = [],
    probability: o.Probability = None,
    **options: Any,
) -> None:
    """Compare runs in slices of the queries, such as countries.

    For example:
      polars-rank slices log.parquet -m ndcg@10 --baseline bm25 --slices country
    """
    source = Source.of({**locals(), **options})
    kept = {"slices": slices, "weight": weight, "cluster": cluster, "probability": probability}
    data = source.read(kept=kept, paired=True, predicted_label=predicted_label)
    result = in_slices(
        data, slices, baseline, pairs=pairs, min_queries=min_queries, correction=correction,
        alternative=alternative, margin=margin, relative_margin=relative_margin,
        confidence=confidence, weight=weight, cluster=cluster or None,
        **_predicted(source, data, predictions, probability),
    )  # fmt: skip
    put(result, **o.output_options(options))


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
def check(
    ctx: typer.Context,
    logs: o.LogsOrValues = [],
    values: o.Values = [],
    metrics: o.Metrics = [],
    run: o.Run = None,
    rule: o.Rule = [],
    rules: o.Rules = None,
    undecided: o.Undecided = None,
    baseline: o.AnyBaseline = None,
    slices: o.Slices = [],
    by: o.By = [],
    pairs: o.Pairs = False,
    min_queries: o.MinQueries = 30,
    interval: o.Interval = "auto",
    bounds: o.Bounds = [],
    test: o.Test = "auto",
    correction: o.Correction = "holm",
    alternative: o.Alternative = "two-sided",
    margin: o.Margin = 0.0,
    relative_margin: o.RelativeMargin = None,
    confidence: o.Confidence = 0.95,
    n_resamples: o.Resamples = 10_000,
    seed: o.Seed = 0,
    weight: o.Weight = None,
    order: o.Order = None,
    cluster: o.Cluster = [],
    predicted_label: o.PredictedLabel = None,
    predictions: o.Predictions = [],
    probability: o.Probability = None,
    covariate: o.Covariate = None,
    covariate_mean: o.CovariateMean = None,
    junit: Annotated[Path | None, o.file("Write JUnit XML to a file.", o.OUTPUT)] = None,
    markdown: Annotated[Path | None, o.file("Write Markdown to a file.", o.OUTPUT)] = None,
    **options: Any,
) -> None:
    """Check rules on means and differences; exit with 1 if one fails.

    With --baseline, rules on mean, low and high apply to the means of the other runs, and rules on
    difference, p_value and the like to the comparison and its slices. --interval is about means,
    and "sequence" about both.

    For example:
      polars-rank check log.parquet --baseline bm25 --rule "difference(ap) >= 0"
    """
    source = Source.of({**locals(), **options})
    with ExitStack() as files:
        given, verdict = rules_of(rule, rules, undecided)
        checks = [gates.Rule.read(each) for each in given]
        _require_options(checks, baseline, slices)
        if slices and interval == "sequence":
            misused("--slices does not support --interval sequence; name the columns with --by")
        if covariate is not None and (baseline is None or slices):
            misused("--covariate needs --baseline, and does not support --slices")
        inputs = [*source.files, *([] if rules is None else [str(rules)])]
        # Open the reports first: if one cannot be written, no time is spent on the evaluation.
        reports = {
            path: files.enter_context(_report(path, inputs, overwrite=options["overwrite"]))
            for path in (junit, markdown)
            if path is not None
        }
        data = source.read(
            by=by,
            kept={
                "weight": weight, "cluster": cluster, "slices": slices, "probability": probability,
                "order": order, "covariate": covariate,
            },
            paired=baseline is not None,
            metrics=[check.metric for check in checks if check.metric],
            predicted_label=predicted_label,
        ).in_memory()  # fmt: skip
        units: dict[str, Any] = {
            "weight": weight, "cluster": cluster or None, "confidence": confidence,
            **_predicted(source, data, predictions, probability),
        }  # fmt: skip
        shared = {
            **units, "n_resamples": n_resamples, "seed": seed, **_in_order(bounds, order),
        }  # fmt: skip
        hypothesis: dict[str, Any] = {
            "alternative": alternative, "margin": margin, "relative_margin": relative_margin,
        }  # fmt: skip
        means = means_of(data, interval=interval, **shared).collect()
        tables = [means]
        if baseline is not None:
            run_column = str(data.run)
            is_baseline = is_run(run_column, means.schema[run_column], data.value(baseline))
            results = [
                compared(
                    data, baseline, test=test, correction=correction, covariate=covariate,
                    covariate_mean=covariate_mean,
                    interval="sequence" if interval == "sequence" else "auto", **hypothesis,
                    **shared,
                )
            ]  # fmt: skip
            if slices:
                results.append(
                    in_slices(
                        data, slices, baseline, pairs=pairs, min_queries=min_queries, **hypothesis,
                        **units,
                    )
                )  # fmt: skip
            tables = [means.filter(~is_baseline), *(result.collect() for result in results)]
        verdicts = gates.check(tables, checks, undecided=verdict, on_fail="return")
        put(verdicts.lazy(), **o.output_options(options))
        if junit is not None:
            reports[junit].write_text(verdict_files.junit(verdicts, verdict), encoding="utf-8")
        if markdown is not None:
            reports[markdown].write_text(verdict_files.markdown(verdicts), encoding="utf-8")
    failed = verdicts.get_column("verdict").is_in(verdict_files.failing(verdict)).sum()
    if failed:
        say(f"{failed} of {verdicts.height} checks failed")
        raise typer.Exit(FAILED)


def _predicted(
    source: Source, data: PerQuery, predictions: Sequence[str], probability: str | None
) -> dict[str, Any]:
    """Return the parameters of statistics for predictions."""
    if predictions and data.predictions is not None:
        misused("give one of --predicted-label and --predictions")
    table = scan_table(predictions, None, {}, source.ids) if predictions else data.predictions
    return {"predictions": table, "probability": probability}


def _in_order(bounds: Sequence[str], order: str | None) -> dict[str, Any]:
    """Return the parameters of sequences with bounds."""
    numbers = [o.number("bounds", text) for text in bounds]
    return {"bounds": numbers or None, "order": order}


def means_of(data: PerQuery, **options: Any) -> pl.LazyFrame:
    """Return the summary of each run and group."""
    result: pl.LazyFrame = summary.summarize(
        data.table, data.metrics, run=data.run, by=data.by, query=data.query, **options,
        **data.counted,
    )  # fmt: skip
    return result


def compared(data: PerQuery, baseline: str, **options: Any) -> pl.LazyFrame:
    """Return the comparison of each run with the baseline."""
    result: pl.LazyFrame = comparison.compare(
        data.table, data.metrics, baseline=data.value(baseline), run=str(data.run), by=data.by,
        query=data.query, **options, **data.counted,
    )  # fmt: skip
    return result


def in_slices(
    data: PerQuery, columns: Sequence[str], baseline: str, **options: Any
) -> pl.LazyFrame:
    """Return the slices of each metric, in one table."""
    if data.metrics is None:
        misused("slices need metrics; add for example --metrics ndcg@10")
    values = data.in_memory() if len(data.metrics) > 1 else data
    keys = data.keys(columns)
    tables: pl.LazyFrame = pl.concat(
        slicing.slices(
            values.table, metric, slices=columns, run=str(data.run),
            baseline=data.value(baseline), query=keys, **options, **data.counted,
        )
        for metric in data.metrics
    )  # fmt: skip
    return tables


def rules_of(
    texts: Sequence[str], file: Path | None, undecided: Literal["pass", "fail"] | None
) -> tuple[list[Any], Any]:
    """Return the rules of --rule and --rules, and the verdict for undecided rules."""
    if not texts and file is None:
        misused('give a rule, e.g. --rule "ndcg@10 >= 0.4", or a file of rules with --rules')
    in_file, verdict_in_file = ([], None) if file is None else gates.rules_in(file)
    verdict = undecided or verdict_in_file or "fail"
    one_of("undecided", verdict, ("pass", "fail"))
    return [*in_file, *texts], verdict


def _require_options(rules: Iterable[gates.Rule], baseline: str | None, slices: Any) -> None:
    """Raise `ArgumentError` if a rule needs --baseline or --slices, and it is missing."""
    if slices and baseline is None:
        misused("--slices needs a run to compare the others with; name it with --baseline")
    for rule in rules:
        if baseline is not None and rule.is_of_mean and {*rule.where} & {*slices}:
            misused(
                f"the rule {rule.text!r} is about a mean, and slices have no interval of means; "
                "name the columns with --by instead of --slices"
            )
        if rule.column in {*differences.COLUMNS} - {*summary.COLUMNS} and baseline is None:
            misused(
                f"the rule {rule.text!r} is about comparisons; name the other run with --baseline"
            )


def _report(path: Path, inputs: Iterable[str], *, overwrite: bool) -> Any:
    """Return a new file for a report. Empty files, which build servers create, are overwritten."""
    refuse_to_replace(path, inputs)
    return new_file(path, overwrite=overwrite or (path.is_file() and not path.stat().st_size))
