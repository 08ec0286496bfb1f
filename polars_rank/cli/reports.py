"""The commands `report`, which writes an HTML page, and `demo`, which runs an example."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from polars_rank.cli import options as o
from polars_rank.cli.logs import Log, definitions
from polars_rank.cli.messages import misused, say, show
from polars_rank.cli.per_query import run_value
from polars_rank.cli.statistics import rules_of
from polars_rank.frames.tables import schema_of
from polars_rank.reporting import page


@o.takes(o.Files, o.Columns, o.Definitions)
def report(
    ctx: typer.Context,
    logs: o.Logs = [],
    metrics: o.Metrics = [],
    predicted_label: o.PredictedLabel = None,
    baseline: o.AnyBaseline = None,
    by: o.By = [],
    slices: o.Slices = [],
    weight: o.Weight = None,
    cluster: o.Cluster = [],
    rule: o.Rule = [],
    rules: o.Rules = None,
    undecided: o.Undecided = None,
    confidence: o.Confidence = 0.95,
    keep: o.Keep = [],
    show: Annotated[list[str], o.columns("Columns of documents to show, e.g. their titles.")] = [],
    url: Annotated[
        str | None,
        o.option("Template of document addresses, e.g. https://example.org/{doc}.", metavar="URL"),
    ] = None,
    meta: Annotated[
        list[str], o.option("Value to show on the page, e.g. commit=1a2b3c.", metavar="NAME=VALUE")
    ] = [],
    fusion: o.Fusion = None,
    n: o.N = 5,
    k: Annotated[int, o.option("Number of documents to show for each query.")] = 10,
    title: Annotated[str | None, o.option("Page title.", metavar="TEXT")] = None,
    items: o.Items = None,
    history: o.History = None,
    output: Annotated[Path, o.file("Write to this HTML file.", o.OUTPUT, "--output", "-o")] = Path(
        "report.html"
    ),
    overwrite: o.Overwrite = False,
    **options: Any,
) -> None:
    """Write a report as one HTML file that works offline.

    For example:
      polars-rank report log.parquet -m ap --baseline bm25 --slices country
    """
    arguments = {**locals(), **options}
    given = Log.of(arguments)
    log = given.opened
    if output.suffix.lower() not in (".html", ".htm"):
        misused(f"--output must end in .html; found '{output}'")
    value: Any = baseline
    if baseline is not None and len(log.scores) == 1:
        value = run_value(baseline, log.run_name, schema_of(log.scan_as_is()))
    checks, verdict = rules_of(rule, rules, undecided) if rule or rules else (None, None)
    path = page.report(
        log.scan(by), metrics, by=by or None, baseline=value, slices=slices or None,
        weight=weight, cluster=cluster or None, rules=checks, undecided=verdict, keep=keep,
        show=show, url=url, meta=_meta(meta), confidence=confidence, n=n, k=k, title=title,
        source=given.files, path=output, overwrite=overwrite, progress=log.progress,
        predicted_label=predicted_label,
        fusion=None if fusion is None else o.parameters_of_fusion(fusion),
        **log.columns, **log.attributes, **definitions(arguments),
    )  # fmt: skip
    say(f"Wrote {path}")


def _meta(values: list[str]) -> dict[str, str]:
    for value in values:
        if "=" not in value:
            misused(f"--meta must be NAME=VALUE; found '{value}'")
    return {name: text for name, _, text in (value.partition("=") for value in values)}


#: The commands that `demo` runs.
_STEPS = (
    "generate {log} --queries {queries} --runs 'bm25 neural'",
    "evaluate {log} --metrics 'ndcg@10 ap rr'",
    "compare {log} --metrics 'ndcg@10 ap rr' --baseline bm25",
    "report {log} --metrics 'ndcg@10 ap rr' --baseline bm25 --slices country --output {page}",
)
#: The default folder of `demo`, whose files it overwrites.
_DEMO_FOLDER = "polars-rank-demo"


def demo(
    ctx: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help=f"Folder for the log and the report (default: {_DEMO_FOLDER}, overwritten).",
        ),
    ] = None,
    queries: o.Queries = 1_000,
    overwrite: o.Overwrite = False,
) -> None:
    """Generate a log, compare its two runs, and write a report.

    For example:
      polars-rank demo
    """
    folder, overwrite = (Path(_DEMO_FOLDER), True) if folder is None else (folder, overwrite)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        misused(f"cannot create the folder '{folder}': {error.strerror}")
    page = folder / "report.html"
    names = {"log": folder / "log.parquet", "page": page, "queries": queries}
    quoted = {name: shlex.quote(str(value)) for name, value in names.items()}
    for step in _STEPS:
        writes = step.startswith(("generate", "report"))
        words = shlex.split(step.format(**quoted))
        show(f"$ polars-rank {shlex.join(words)}")
        words += ["--overwrite"] * (overwrite and writes)
        code = ctx.find_root().command.main(words, prog_name="polars-rank", standalone_mode=False)
        if code:
            raise typer.Exit(code)
        show()
    show(f"Open the report in a browser: {page.resolve().as_uri()}")
