"""Commands that do more than call one function: check, explain, report, and commands for files."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import polars as pl

from polars_rank._pages import Page
from polars_rank._texts import displayed
from polars_rank.cli import FAILED
from polars_rank.cli.messages import misused, say, show
from polars_rank.cli.options import parameters_of, public
from polars_rank.cli.sources import refuse_to_replace
from polars_rank.conventions import POLARS_RANK, Definitions
from polars_rank.errors import hint
from polars_rank.frames.tables import collected
from polars_rank.io.outputs import new_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polars_rank.cli.calls import Call
    from polars_rank.gates.rules import Rule


def explain(call: Call) -> None:
    """Explain a metric, or the difference of two conventions."""
    given = call.given
    metric = given["metric"]
    definitions = {name: given[name] for name in {*Definitions.__annotations__} & {*given}}
    conventions = [given.get("conventions", POLARS_RANK).but(**definitions)]
    conventions += [given["versus"]] if "versus" in given else []
    if not call.files:
        texts = "\n\n".join(public("explain")(metric, each) for each in conventions)
        call.put(pl.LazyFrame(), notes=texts.split("\n"))
        return
    if "versus" not in given:
        misused("name the conventions to compare with: --versus")
    options = call.arguments("explain_difference")
    options |= dict(zip("ab", conventions, strict=True))
    call.put(public("explain_difference")(call.scan(), **{**options, "metric": metric}))


def identify(call: Call) -> None:
    """Find the definitions that reproduce the numbers of another tool."""
    given = call.given
    if ("value" in given) == ("per_query" in given):
        misused("give --value, the number of the other tool, or --per-query, its values of queries")
    value = call.table("per_query") if "per_query" in given else given["value"]
    if isinstance(value, dict) and "*" in value:
        misused("--value must be a number, or a number for each run: bm25=0.31 dense=0.35")
    found = call.call(call.scan(), value=value)
    if not found.get_column("fits").any():
        say("none: nearest are")
    call.put(found, after=["", *found.get_column("code").drop_nulls()])  # lines to be copied


def metrics(call: Call) -> None:
    """List the metrics whose names or definitions contain all texts."""
    from polars_rank.metrics.metric import REGISTER  # noqa: PLC0415

    table = public("list_metrics")()
    parts = ("metric", "definition", pl.col("aliases").list.join(" "))
    searched, texts = pl.concat_str(*parts, separator=" "), call.given.get("texts", ())
    for text in texts:
        table = table.filter(searched.str.contains(f"(?i){re.escape(text)}"))
    if table.is_empty():
        misused(f"no metric contains {' '.join(texts)!r}.{hint(texts[-1], REGISTER)}")
    if call.form != "json":
        ends = pl.col("low", "high").cast(pl.String).str.strip_suffix(".0")
        table = table.with_columns(ends, pl.col("aliases").list.join("; ")).select(
            "metric", "parameters", pl.format(
                "[{}, {}]", pl.col("low").fill_null("-inf"), pl.col("high").fill_null("inf")
            ).alias("range"), "definition", "aliases",
        )  # fmt: skip
    call.put(table)


def robustness(call: Call) -> None:
    """Show what becomes of the verdicts, and the choices."""
    rows = call.scan()
    table = collected(call.call(rows, **call.baseline(rows)).lazy())
    run, *_, headline = table.columns
    texts = table.select(run, headline).drop_nulls(headline).rows()
    call.put(table, notes=[f"{displayed(str(name))}: {text}" for name, text in texts])


def check(call: Call) -> None:
    """Check rules, write the verdicts, and exit with 1 if one fails."""
    from polars_rank.stats import verdict_files as outputs  # noqa: PLC0415
    from polars_rank.stats.value_columns import is_run  # noqa: PLC0415

    rules, undecided = _rules(call)
    is_compared = "baseline" in call.given
    with reports(call, undecided=undecided) as write:
        table, arguments = call.values(
            "compare" if is_compared else "summarize",
            metrics=[rule.metric for rule in rules if rule.metric],
        )
        table = table.collect().lazy()  # both functions read it
        known = {*parameters_of("summarize")} & {*arguments}
        options = {name: arguments[name] for name in known}
        tables = [public("summarize")(table, details=True, **options).collect()]
        if is_compared:  # rules on means are about the other runs
            run, baseline = arguments["run"], arguments["baseline"]
            tables = [tables[0].filter(~is_run(run, tables[0].schema[run], baseline))]
            tables.append(public("compare")(table, details=True, **arguments).collect())
        verdicts = public("check")(tables, rules, undecided=undecided, on_fail="return").sort(
            pl.col("verdict").cast(pl.Enum(outputs.WORST_FIRST)), maintain_order=True
        )
        call.put(verdicts)
        write(outputs.page_of_verdicts(verdicts))
    failed = verdicts.get_column("verdict").is_in(outputs.failing(undecided)).sum()
    if failed:
        say(f"{failed} of {verdicts.height} checks failed")
        raise click.exceptions.Exit(FAILED)


def _rules(call: Call) -> tuple[list[Rule], Any]:
    """Return the rules of --rule and --rules, and the verdict for undecided rules."""
    from polars_rank.gates.rules import Rule, read_rules  # noqa: PLC0415  (slow to import)

    texts, file, undecided = (call.given.get(name) for name in ("rule", "rules", "undecided"))
    if not texts and file is None:
        misused('give a rule, e.g. --rule "ndcg@10 >= 0.4", or a file of rules with --rules')
    in_file, verdict = ([], undecided or "fail") if file is None else read_rules(file, undecided)
    return [*in_file, *map(Rule.read, texts or ())], verdict


def referee(call: Call) -> None:
    """Show the findings about a function or a program, and exit with 1 if one is a defect."""
    given = call.given
    if ("target" in given) == ("command" in given):
        misused("pass either FUNCTION, such as my_eval:ndcg, or --command")
    with reports(call) as write:
        result = public("referee")(given.get("target"), **call.arguments("referee"))
        show(str(result))
        write(result.page)
    if not result.passed:
        raise click.exceptions.Exit(FAILED)


@contextmanager
def reports(
    call: Call, inputs: Sequence[object] = (), *, undecided: str = "fail"
) -> Iterator[Callable[[Page], object]]:
    """Open the files that options name; the result is a function that writes a page to all.

    They are opened first: if one cannot be written, no time is spent on the evaluation. Empty
    files, which build servers create, are overwritten.
    """
    texts: dict[str, Callable[[Page], str]] = {
        "json": Page.json, "markdown": Page.markdown, "junit": lambda page: page.junit(undecided),
    }  # fmt: skip
    outputs = {name: call.given[name] for name in texts if name in call.given}
    options = {**call.ctx.find_root().params, **call.ctx.params}
    others = [options[name] for name in ("conventions", "corpus") if options.get(name)]
    for path in outputs.values():
        refuse_to_replace(path, map(str, [*call.files, *others, *inputs]))
    overwrite = call.given.get("overwrite", False)
    with ExitStack() as stack:
        files = []
        for name, path in outputs.items():
            replaces = overwrite or (path.is_file() and not path.stat().st_size)
            files.append((texts[name], stack.enter_context(new_file(path, overwrite=replaces))))
        yield lambda page: [file.write_text(text(page), "utf-8") for text, file in files]


def report(call: Call) -> None:
    """Write a report as one HTML file."""
    from polars_rank.reporting.page import write_report  # noqa: PLC0415  (slow to import)

    given = call.given
    output: Path = given.get("output", Path("report.html"))
    if output.suffix.lower() not in (".html", ".htm"):
        misused(f"--output must end in .html; found '{output}'")
    rules, undecided = _rules(call) if {"rule", "rules"} & {*given} else (None, None)
    rows = call.scan()
    options = {name: default for name, (_, default) in parameters_of("report").items()}
    options |= call.arguments("report") | call.baseline(rows) | {
        "rules": rules, "undecided": undecided, "path": output,
        "progress": given.get("progress", True),
        "source": [*given.get("logs", ()), *given.get("run_file", ()), *given.get("judgments", ())],
    }  # fmt: skip
    del options["log"]
    say(f"Wrote {write_report(rows, **options)}")


def demo(call: Call) -> None:
    """Run the commands of the demonstration; files of its default folder are overwritten."""
    given, program = call.given, call.ctx.find_root().command
    folder: Path = given.get("folder", Path("polars-rank-demo"))
    folder.mkdir(parents=True, exist_ok=True)
    log, page = str(folder / "log.parquet"), folder / "report.html"
    metrics = ("--metrics", "ndcg@10 ap rr")
    compared = (log, *metrics, "--baseline", "bm25")
    replaces = ["--overwrite"] * ("folder" not in given or given.get("overwrite", False))
    queries = str(given.get("queries", 1_000))
    for words in (
        ("generate", log, "--queries", queries, "--runs", "bm25 neural"),
        ("evaluate", log, *metrics),
        ("compare", *compared),
        ("report", *compared, "--slices", "country", "--output", str(page)),
    ):
        show(f"$ polars-rank {shlex.join(words)}")
        more = replaces if words[0] in ("generate", "report") else ()
        if code := program.main([*words, *more], prog_name="polars-rank", standalone_mode=False):
            raise click.exceptions.Exit(code)
        show()
    show(f"Open the report in a browser: {page.resolve().as_uri()}")


def convert(call: Call) -> None:
    """Convert TREC runs and judgments to one Parquet file."""
    if not call.files:
        misused("give results (LOG or --run-file), --judgments, or both")
    call.given["verbose"] = True
    found = call.files_read
    frames = [found[kind].table for kind in ("run", "judgments") if kind in found]
    table = frames[0] if len(frames) == 1 else public("join_judgments")(*frames)
    keys = pl.selectors.by_name("run", "query", require_all=False)
    call.put(table.sort(keys, maintain_order=True))
