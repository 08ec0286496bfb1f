"""The commands `report`, which writes an HTML page, and `demo`, which runs an example."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from polars_rank.cli import options as o
from polars_rank.cli.logs import Log, changed_conventions, definitions
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
    baseline: o.AnyBaseline = None,
    by: o.By = [],
    slices: o.Slices = [],
    weight: o.Weight = None,
    cluster: o.Cluster = [],
    rule: o.Rule = [],
    rules: o.Rules = None,
    predicted_label: o.PredictedLabel = None,
    output: Annotated[Path, o.file("Write to this HTML file.", o.OUTPUT, "--output", "-o")] = Path(
        "report.html"
    ),
    overwrite: o.Overwrite = False,
    title: Annotated[str | None, o.option("Page title.", metavar="TEXT")] = None,
    show: Annotated[
        list[str], o.columns("Columns to show with queries and documents, e.g. their titles.")
    ] = [],
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
    if baseline is not None:
        value = run_value(baseline, log.run_name, schema_of(log.scan_as_is()))
    checks, verdict = rules_of(rule, rules, None) if rule or rules else (None, None)
    columns = {role: name for role, name in log.columns.items() if role != "run"}
    path = page.write_report(
        log.scan(by), metrics, run=log.columns["run"], baseline=value, by=by or None,
        slices=slices or None, weight=weight, cluster=cluster or None, rules=checks,
        undecided=verdict, predicted_label=predicted_label, path=output, overwrite=overwrite,
        title=title, show=show, source=given.files,
        conventions=changed_conventions(definitions(arguments)), columns=columns,
        progress=log.progress,
    )  # fmt: skip
    say(f"Wrote {path}")


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
