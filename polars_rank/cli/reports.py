"""The commands that tell the whole story: the report page, and a demonstration of it all."""
# ruff: noqa: B006, FBT002  (as in `evaluating`)

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from polars_rank._params import check_there
from polars_rank.cli import options as o
from polars_rank.cli.evaluating import Scores
from polars_rank.cli.lists import run_of
from polars_rank.cli.logs import Definitions, Log
from polars_rank.cli.messages import misused, say
from polars_rank.cli.running import Commands, run_command
from polars_rank.cli.statistics import RuleOption, Rules, Undecided, rules_of
from polars_rank.columns import RUN
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.names import split
from polars_rank.reporting.page import report as write_report


def report(
    log: Log,
    definitions: Definitions,
    metrics: o.Metrics = [],
    run_column: o.RunColumn = None,
    baseline: Annotated[
        str | None, typer.Option(help="The run that the others are compared with.")
    ] = None,
    by: o.By = None,
    slices: Annotated[list[str], typer.Option(help="Columns whose values are slices.")] = [],
    scores: Scores = [],
    rule: RuleOption = None,
    rules: Rules = None,
    undecided: Undecided = None,
    confidence: o.Confidence = 0.95,
    keep: Annotated[
        list[str],
        typer.Option(help="Columns shown with a list, as the words of the query."),
    ] = [],
    show: Annotated[
        list[str], typer.Option(help="Columns shown with documents, as their titles.")
    ] = [],
    worst: Annotated[int, typer.Option(help="Lists shown of each run at either end.")] = 5,
    k: Annotated[int, typer.Option(help="Documents shown of each list.")] = 10,
    title: Annotated[str | None, typer.Option(help="Of the page.")] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The HTML file.", rich_help_panel=o.OUTPUT),
    ] = Path("report.html"),
    force: o.Force = False,
) -> None:
    """Write a report: one HTML file with everything there is to say, which opens offline."""
    names, files = split(" ".join(metrics)), log.files
    log = log.opened
    if output.suffix.lower() not in (".html", ".htm"):
        misused(f"the name of --output must end in .html; found '{output}'")
    o.Written(output=output, force=force).spare([*files, *([rules] if rules else [])])
    schema = schema_of(log.scan_as_is())
    run = (RUN if run_column is None else run_column) or None
    groups = o.split_names(by or [])
    keys = [*([run] if run is not None and run in schema else []), *groups]
    value: Any = baseline
    if baseline is not None and not scores:
        check_there("run", str(run), schema)
        value = run_of(baseline, str(run), schema[str(run)])
    given, decided = rules_of(rule or [], rules, undecided) if rule or rules else (None, None)
    path = write_report(
        log.scan(keys), names, by=groups or None, run=run, baseline=value,
        slices=o.split_names(slices) or None, rules=given, undecided=decided,
        scores=o.split_names(scores) or None, keep=o.split_names(keep), show=o.split_names(show),
        confidence=confidence, worst=worst, k=k, title=title, source=files, path=output,
        overwrite=force, progress=log.progress, **log.columns, **definitions.choices,
    )  # fmt: skip
    say(f"Wrote {path}")


#: What the demonstration runs.
_STEPS = (
    "generate {log} --queries {queries} --runs 'bm25 neural'",
    "evaluate {log} --metrics 'ndcg@10 ap rr' --by run",
    "compare {log} --metrics 'ndcg@10 ap rr' --baseline bm25",
    "report {log} --metrics 'ndcg@10 ap rr' --baseline bm25 --slices country --output {page}",
)
#: The folder of the demonstration, in which it may replace what it made before.
_OWN = "polars-rank-demo"


def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help=f"Where the log and the report go; {_OWN}, written anew, by default.",
        ),
    ] = None,
    queries: Annotated[int, typer.Option(help="Number of queries of the log.")] = 1_000,
    force: o.Force = False,
) -> None:
    """Make a log of two runs, evaluate and compare them, and report: each by a command shown."""
    folder, force = (Path(_OWN), True) if folder is None else (folder, force)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "report.html"
    names = {"log": folder / "log.parquet", "page": page, "queries": queries}
    quoted = {name: shlex.quote(str(value)) for name, value in names.items()}
    for step in _STEPS:
        writes = step.startswith(("generate", "report"))
        words = shlex.split(step.format(**quoted))
        typer.echo(f"$ polars-rank {shlex.join(words)}")
        run_command(words + ["--force"] * (force and writes))
        typer.echo()
    typer.echo(f"Open the report in a browser: {page.resolve().as_uri()}")


COMMANDS: Commands = {
    report: [
        'polars-rank report log.parquet --metrics "ndcg@10 ap" --baseline run1 --slices country',
    ],
    demo: ["polars-rank demo"],
}
