"""The commands that fuse runs into one, and that tune the fusion."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from polars_rank import _progress as bars
from polars_rank.cli import options as o
from polars_rank.cli.logs import Log, conventions_of
from polars_rank.cli.messages import misused
from polars_rank.cli.writing import put, require_parquet
from polars_rank.fusion.fuse import fuse as fused
from polars_rank.fusion.tuning import tune_fusion as tuned


@o.takes(o.FusionOptions, o.Files, o.ColumnsOfRuns)
def fuse(
    ctx: typer.Context,
    output: o.ParquetOutput,
    logs: o.Logs = [],
    method: o.FusionMethod = "rrf",
    weights: Annotated[
        list[str], o.option('Weight of a run, e.g. "bm25=0.3" (repeatable).', metavar="RUN=NUMBER")
    ] = [],
    ties: Annotated[
        Literal["doc", "doc_ascending", "input"] | None,
        o.option("Order of documents of a run with tied scores."),
    ] = None,
    name: Annotated[str, o.option("Name of the fused run.")] = "fused",
    keep_runs: Annotated[
        bool, o.option("Write the fused run beside the runs.", None, "--keep-runs")
    ] = False,
    by: o.By = [],
    overwrite: o.Overwrite = False,
    **options: Any,
) -> None:
    """Fuse the rankings of several runs into one run.

    TREC runs need no judgments.

    For example:
      polars-rank fuse log.parquet -o fused.parquet
      polars-rank fuse log.parquet -o borda.parquet --method borda --keep-runs
    """
    # The log is read twice, so the bar counts the rows that are written.
    arguments = {**locals(), **options}
    log = Log.of({**arguments, "progress": False})
    require_parquet(output)
    table = fused(
        log.opened.scan(by, splits_runs=False, needs_judgments=False), by=by,
        weights=_weights(weights), ties=ties, name=name, keep_runs=keep_runs,
        **_fusion(log, arguments, "fuse"),
    )  # fmt: skip
    put(bars.watch(table) if options["progress"] else table, "parquet", output, overwrite=overwrite)


def _fusion(log: Log, arguments: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the parameters of a fusion: how runs are fused, and the names of columns."""
    run = arguments["run"]
    if not (run is None or run):
        misused(f"{command} needs the column of the run; name it with --run")
    columns = {role: name for role, name in log.columns.items() if role != "position"}
    how = asdict(o.from_arguments(o.FusionOptions, arguments))
    return {**how, **columns}


def _weights(texts: Iterable[str]) -> dict[str, float] | None:
    """Return the weights of runs, if there are any."""
    weights: dict[str, float] = {}
    for text in texts:
        run, _, weight = text.rpartition("=")
        try:
            number = float(weight)
        except ValueError:
            run = ""
        if not run:
            misused(f'--weights must be a run and a number, e.g. "bm25=0.3"; found {text!r}')
        if run in weights:
            misused(f"--weights has the run {run!r} twice")
        weights[run] = number
    return weights or None


@o.takes(o.FusionOptions, o.Files, o.ColumnsOfRuns, o.TableOutput)
def tune_fusion(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    method: o.FusionMethod = "rrf",
    candidates: Annotated[
        str,
        o.option(
            "Step of the weights of runs, or a JSON list of parameters, "
            """e.g. '[{"k": 10}, {"k": 60}]'.""",
            metavar="STEP|JSON",
        ),
    ] = "0.1",
    folds: Annotated[int, o.option("Number of folds for cross-validation.")] = 5,
    max_candidates: Annotated[int, o.option("Maximum number of candidates.")] = 1000,
    by: o.By = [],
    cluster: o.Cluster = [],
    confidence: o.Confidence = 0.95,
    seed: o.Seed = 0,
    memory: Annotated[
        str | None,
        o.option('Memory for sorting and for evaluating, e.g. "2GB" (default: 500 MB).', o.INPUT,
                 metavar="SIZE"),
    ] = None,
    conventions: o.Conventions = "polars_rank",
    ties: Annotated[
        Literal["doc", "doc_ascending"] | None,
        o.option("Order of documents with tied scores, in runs and in their fusion.",
                 o.DEFINITIONS),
    ] = None,
    rel: o.Rel = None,
    unjudged: o.Unjudged = None,
    query_set: o.QuerySet = None,
    undefined: o.Undefined = [],
    **options: Any,
) -> None:  # fmt: skip
    """Tune a fusion of runs, and compare it on held-out queries.

    For example:
      polars-rank tune-fusion log.parquet -m ndcg@10
      polars-rank tune-fusion log.parquet -m rr --method borda --candidates 0.05
    """
    arguments = {**locals(), **options}
    log = Log.of(arguments).opened
    parameters = _fusion(log, arguments, "tune-fusion")
    if len(metrics) != 1:
        misused(f"tune-fusion needs one metric; found {len(metrics)}")
    treatment: Any = o.undefined_of(undefined)
    result = tuned(
        log.scan(by, splits_runs=False), metrics[0], candidates=_candidates(candidates),
        by=by or None, ties=ties, folds=folds, max_candidates=max_candidates,
        cluster=cluster or None, confidence=confidence, rel=rel, unjudged=unjudged,
        query_set=query_set, undefined=treatment, conventions=conventions_of(conventions),
        seed=seed, memory=memory, **parameters,
    )  # fmt: skip
    put(result, **o.output_options(arguments))


def _candidates(text: str) -> Any:
    """Return a step of weights, or the parameters in JSON."""
    try:
        return json.loads(text)
    except ValueError:
        misused(f"--candidates must be a step, such as 0.1, or a JSON list; found {text!r}")
