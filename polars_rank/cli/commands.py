"""The program: the table of its commands, their options and help, and errors about usage."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version as installed
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click

from polars_rank.cli import BROKEN_PIPE, MISUSED
from polars_rank.cli.calls import Call
from polars_rank.cli.config import options_for
from polars_rank.cli.messages import discard_output, one_message, printing, say, show
from polars_rank.cli.options import (
    MAY_BE_EMPTY,
    OUTPUT,
    PANELS,
    Option,
    of_function,
    own,
    parameters_of,
    texts,
)
from polars_rank.errors import RankError, hint
from polars_rank.frames.tables import schema_of

#: The last lines of the help.
_EXIT_CODES = (
    "Exit codes: 0 success; 1 a rule of check failed; 2 invalid usage or input; 70 internal error; "
    "130 Ctrl-C; 141 closed pipe; 143 SIGTERM."
)


#: Options of commands that write a table, a Parquet file, another file, a page, or a folder.
_OUTPUTS = {
    "table": ("format", "keep_formulas", "wide", "overwrite"),
    **dict.fromkeys(("parquet", "file", "page", "folder"), ("overwrite",)),
}


class Command(NamedTuple):
    """A public function as a command, what it reads, and what it writes."""

    function: str
    #: A log, a log whose runs belong together, per-query values, or several tables.
    reads: Literal["log", "runs", "values", "tables", ""]
    examples: tuple[str, ...]
    #: The help, if it is not the first line of the docstring.
    about: str = ""
    writes: Literal["table", "parquet", "file", "page", "folder"] = "table"
    #: Functions whose parameters are options, too.
    also: tuple[str, ...] = ()
    #: Parameters that are not options.
    without: tuple[str, ...] = ()
    #: Names of options that are not parameters, and arguments.
    own: tuple[str | click.Argument, ...] = ()
    #: The function that runs the command, if it is special.
    runs: str = ""
    spark: bool = False
    #: Columns of the result that tables leave out without --wide.
    minor: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The help of the command."""
        line = texts().get(self.function, {}).get("", "")
        return self.about or re.sub(r"^Return ", "Show ", line)

    @property
    def needs_labels(self) -> bool:
        """Whether rankings without judgments are not enough."""
        parameters = parameters_of(self.function)
        return self.reads != "runs" or bool({"metric", "metrics"} & {*parameters})

    def parameters(self) -> list[click.Parameter]:
        """Return the arguments, and the options in the order of their panels."""
        known: dict[str, Any] = {}
        for special in self.own:
            option: Any = own(special) if isinstance(special, str) else special
            known[option.name] = option
        for each in self._options():
            if each.name not in self.without:
                known.setdefault(str(each.name), each)
        if "metric" in known:
            known.pop("metrics", None)
        if self.reads:
            known["logs"] = click.Argument(["logs"], nargs=-1, metavar="LOG...")
        return sorted(known.values(), key=_place)

    def _options(self) -> Iterator[Option]:
        """Yield the options of the command, some of which may have the same name."""
        is_log = self.reads not in ("", "tables")
        if is_log or self.writes == "parquet":
            yield own("progress")
        yield from _of(self.function, skip_first=bool(self.reads))
        for name in (*self.also, *(("per_query",) if self.reads == "values" else ())):
            yield from (each for each in _of(name, skip_first=True) if each.name != "keep")
        if self.reads == "values":
            yield own("values")
            if self.also or "predictions" in parameters_of(self.function):
                yield from (each for each in _of("report") if each.name == "predicted_label")
        if is_log:
            yield from map(own, ("qrels", "input_format", "missing_columns", "extra_columns"))
            files = {"layout", "memory", "fractional", "negative"}
            readers = (*_of("scan_log"), *_of("scan_judgments"))
            yield from (each for each in readers if each.name in files)
        yield from map(own, _OUTPUTS[self.writes])
        if self.spark:
            yield from map(own, ("engine", "master", "remote"))
        if self.writes != "folder":
            yield own("output", required=self.writes in ("parquet", "file"))

    def run(self, call: Call) -> None:
        """Run the command."""
        if self.runs:
            module, _, name = self.runs.partition(":")
            import_module(f"polars_rank.cli.{module}").__dict__[name](call)
            return
        if not self.reads:
            result = call.call()
        elif self.reads == "values":
            table, arguments = call.values(self.function)
            result = call.call(table, **arguments)
        elif self.reads == "tables":
            result = call.call(call.tables())
        else:
            rows = call.rows()
            result = call.call(rows, **({} if call.on_spark else call.baseline(schema_of(rows))))
        call.put(result)


def _of(function: str, *, skip_first: bool = False) -> list[Option]:
    """Return the options of a function, without the table that it reads if it comes first."""
    return [*of_function(function)][skip_first:]


def _place(parameter: click.Parameter) -> int:
    panel = getattr(parameter, "panel", None)
    return PANELS.index(panel) if panel in PANELS else -1


EVALUATION: Mapping[str, Command] = {
    "evaluate": Command(
        "evaluate", "log",
        (
            'log.parquet -m "ndcg@10 ap rr"',
            "run.txt --qrels qrels.txt -m ap --conventions trec_eval",
            "log.parquet -m novelty@5 --items items.parquet",
        ),
        spark=True,
    ),
    "per-query": Command("per_query", "log", ("log.parquet -m ap -o values.parquet",), spark=True),
    "rank": Command("rank", "log", ("log.parquet --wide",)),
    "rank-curve": Command("rank_curve", "log", ("log.parquet -m ndcg --ks 1-10",)),
    "pr-curve": Command("pr_curve", "log", ("log.parquet --format csv",)),
    "estimate": Command(
        "clicks.estimate", "log",
        (
            "clicks.parquet -m dcg@10 --query session --score new",
            'clicks.parquet -m dcg --query session --score "old new" --baseline old',
        ),
        without=("align",), spark=True,
    ),
    "explain": Command(
        "explain", "log",
        (
            "ndcg@10 --conventions lightgbm",
            "ndcg@10 log.parquet --versus lightgbm",
        ),
        about="Explain how a metric is computed, or why conventions differ.",
        also=("explain_difference",), without=("metric", "a", "b"),
        own=(click.Argument(["metric"]), "versus"), runs="special:explain",
    ),
    "metrics": Command(
        "list_metrics", "", ("precision", "--format csv"),
        about="List the metrics that contain a text: parameters, range, definition, other names.",
        own=(click.Argument(["texts"], nargs=-1, metavar="TEXT..."),), runs="special:metrics",
    ),
    "inspect": Command(
        "evaluate", "log", ("log.parquet",),
        about="Show the columns, counts and invalid rows of a log.\n\nThe last line is the command "
        "to run next. The exit code is 2 if there are errors.",
        without=(
            "metrics", "weight", "align", "items", "history", "conventions", "ties", "undefined",
            "query_set", "unjudged", "duplicates", "counts", "float32_scores", "text_ids",
            "gain_from", "parameters", "exceptions",
        ),
        runs="inspecting:inspect",
    ),
}  # fmt: skip
STATISTICS: Mapping[str, Command] = {
    "summarize": Command("summarize", "values", ('log.parquet -m "ndcg@10 ap" --by country',)),
    "compare": Command(
        "compare", "values",
        (
            'log.parquet -m "ndcg@10 rr" --baseline bm25',
            "log.parquet -m ndcg@10 --slices country --margin 2%",
        ),
    ),
    "leaderboard": Command(
        "leaderboard", "values",
        ('log.parquet -m "ndcg@10 ap"', "log.parquet -m ndcg@10 --by country -o table.tex"),
        about="Rank runs by their means, with intervals of ranks.\n\nMarkdown and LaTeX have one "
        "row per run and one column per metric. In LaTeX, runs that share a letter cannot be told "
        'apart; "a" is a group with the best run.',
        runs="papers:leaderboard",
    ),
    "power": Command("power", "values", ("log.parquet -m ndcg@10 --difference 0.02",)),
    "moments": Command(
        "moments", "values", ("log.parquet -m ndcg@10 -o monday.parquet",), writes="parquet",
    ),
    "merge": Command(
        "merge", "tables", ("monday.parquet tuesday.parquet -o days.parquet",), writes="parquet"
    ),
    "check": Command(
        "check", "values", ('log.parquet --baseline bm25 --rule "difference(ap) >= 0"',),
        about="Check rules on means and differences; exit with 1 if one fails.\n\nWith --baseline, "
        "rules on mean, low and high apply to the means of the other runs, and rules on "
        "difference, p_value and the like to the comparison.",
        also=("compare",), without=("on_fail", "details"),
        own=("rule", "rules", "junit", "markdown"), runs="special:check", minor=("queries",),
    ),
    "movers": Command(
        "diagnostics.movers", "log", ("log.parquet -m ndcg@10 --baseline bm25 --n 5",)
    ),
    "overlap": Command("diagnostics.overlap", "runs", ("log.parquet --baseline bm25",)),
}  # fmt: skip
FILES: Mapping[str, Command] = {
    "fuse": Command(
        "fuse", "runs",
        (
            "log.parquet -o fused.parquet",
            "log.parquet -o borda.parquet --method borda --keep-runs",
        ),
        writes="parquet",
    ),
    "tune-fusion": Command(
        "tune_fusion", "runs",
        (
            "log.parquet -m ndcg@10",
            "log.parquet -m rr --candidates borda --step 0.05",
        ),
        minor=(
            "difference_low", "difference_high", "queries", "unjudged", "reversible", "by_fold",
        ),
    ),
    "convert": Command(
        "join_judgments", "log", ("run.txt --qrels qrels.txt -o both.parquet",),
        about="Convert TREC runs, judgments or both to one Parquet file.", writes="parquet",
        without=(
            "judgments", "run", "by", "query", "doc", "score", "label", "subtopic", "layout",
            "memory", "input_format", "missing_columns", "extra_columns", "progress",
        ),
        runs="special:convert",
    ),
    "generate": Command(
        "datasets.search_log", "", ("log.parquet --queries 500",), writes="parquet",
        own=(click.Argument(["output"], type=click.Path(path_type=Path)),),
    ),
}  # fmt: skip
REPORTS: Mapping[str, Command] = {
    "report": Command(
        "report", "log", ("log.parquet -m ap --baseline bm25 --slices country",), writes="page",
        also=("evaluate",), without=("path", "columns", "align", "items", "history"),
        own=("rule", "rules"), runs="special:report",
    ),
    "demo": Command(
        "datasets.search_log", "", ("",), writes="folder",
        about="Generate a log, compare its two runs, and write a report.",
        without=("docs_per_query", "runs", "seed", "string_ids"),
        own=(click.Argument(["folder"], required=False, type=click.Path(path_type=Path)),),
        runs="special:demo",
    ),
}  # fmt: skip


def _chart(
    function: str, reads: Literal["log", "runs", "values"], example: str, **how: Any
) -> Command:
    how = {**how, "own": ("dark", *how.get("own", ()))}
    examples = (f"log.parquet {example}".strip() + " -o chart.png",)
    return Command(f"plot.{function}", reads, examples, writes="file", runs="plotting:plot", **how)


PLOTS: Mapping[str, Command] = {
    "at-k": _chart("at_k", "log", "--metric ndcg"),
    "pr-curve": _chart("pr_curve", "log", ""),
    "click-through": _chart("click_through", "log", "--k 5"),
    "bounds": _chart(
        "bounds", "log", "-m ndcg@10", also=("diagnostics.judgment_bounds",), own=("of",)
    ),
    "fusion": _chart("fusion", "runs", "-m ap", also=("tune_fusion",), without=("tuning", "curve")),
    "distribution": _chart("distribution", "values", "-m ap"),
    "differences": _chart("differences", "values", "-m ap --baseline bm25"),
    "intervals": _chart("intervals", "values", "-m ap", also=("compare",), without=("details",)),
    "slices": _chart(
        "slices", "values", "-m ap --baseline bm25 --slices country", also=("compare",),
        without=("details",),
    ),
    "over-time": _chart(
        "over_time", "values", "-m ap --time day", also=("summarize",), without=("details",)
    ),
    "leaderboard": _chart(
        "leaderboard", "values", "-m ap --kind ranks", also=("leaderboard",), without=("details",)
    ),
    "power": _chart("power", "values", "-m ap --baseline bm25"),
}  # fmt: skip


_LOG = (
    "Parquet, CSV, NDJSON or Arrow files, directories, glob patterns or URLs; TREC runs with "
    "--qrels; - for standard input."
)
#: What a command reads, in its help.
_READS = {
    "log": _LOG, "runs": _LOG, "values": f"Log, per-query values, or moments. {_LOG}",
    "tables": "Results of the same command for different parts.",
}  # fmt: skip


class Leaf(click.Command):
    """A command of the table. It exits with one message if it fails."""

    def __init__(self, name: str, command: Command) -> None:
        super().__init__(
            name, help=command.text, params=command.parameters(),
            no_args_is_help=name not in ("metrics", "demo"),
        )  # fmt: skip
        self.command = command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, what the command reads, and the options by panel."""
        with formatter.section("Examples"):
            for example in self.command.examples:
                formatter.write(f"  $ {ctx.command_path} {example}".rstrip() + "\n")
        if self.command.reads:
            with formatter.section("Input files"):
                formatter.write_dl([("LOG", _READS[self.command.reads])], col_max=26)
        for panel in (None, *PANELS):
            options = [
                each.get_help_record(ctx) for each in self.get_params(ctx)
                if isinstance(each, click.Option) and getattr(each, "panel", OUTPUT) == panel
            ]  # fmt: skip
            if options:
                with formatter.section(panel or "Options"):
                    formatter.write_dl([each for each in options if each], col_max=26)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; raise an error for an empty one, which would be ignored."""
        options = {
            name: each
            for each in self.params if isinstance(each, Option) and not each.is_flag
            for name in each.opts
        }  # fmt: skip
        for before, text in pairwise(["", *args]):
            if text and not (text.endswith("=") and text[:-1] in options):
                continue
            name = text[:-1] or before  # of "--by=" or "--by", ""
            if name not in options:
                ctx.fail("an argument is empty; name a file, or omit it")
            if options[name].name not in MAY_BE_EMPTY:
                ctx.fail(f"{name} is empty; give it a value, or omit it")
        if args and not ctx.resilient_parsing:
            ctx.default_map = options_for(self, ctx.find_root().params.get("config"))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        """Run the command."""
        with one_message(ctx):
            self.command.run(Call(ctx, self.command))


class Group(click.Group):
    """A group whose commands are rows of tables, which are built when they are used."""

    def __init__(self, panels: Mapping[str, Mapping[str, Command]], **options: Any) -> None:
        super().__init__(no_args_is_help=True, **options)
        self.panels = panels

    def rows(self) -> dict[str, Command]:
        """Return the commands by name."""
        return {name: each for rows in self.panels.values() for name, each in rows.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands."""
        return [*self.rows(), *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command."""
        name = cmd_name.replace("_", "-")
        if name not in self.commands and name in (rows := self.rows()):
            self.commands[name] = Leaf(name, rows[name])
        return self.commands.get(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the first line about each command, by panel."""
        for panel, rows in self.panels.items():
            with formatter.section(panel):
                lines = [(name, each.text.partition("\n")[0]) for name, each in rows.items()]
                if "report" in rows:
                    lines.insert(0, ("plot", PLOT.help or ""))
                formatter.write_dl(lines)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return a command and its arguments; raise an error that suggests a name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            close = hint(name, self.list_commands(ctx))
            ctx.fail(f"no such command: {name!r}.{close}")
        return super().resolve_command(ctx, args)


PLOT = Group(
    {"Kinds of charts": PLOTS}, name="plot",
    help="Draw a chart of a log, of per-query values, or of the result of another command.",
)  # fmt: skip


class Program(Group):
    """The program. It exits with one message, even if the options cannot be parsed."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and end the process; return with `standalone_mode=False`."""
        standalone = options.pop("standalone_mode", True)
        options["standalone_mode"] = False
        if not standalone:
            return super().main(*args, **options)
        try:
            with printing():  # the help, or the version
                code = super().main(*args, **options)
        except SystemExit as end:  # Click exits with 1 if a pipe is closed
            code = end.code
            if code == 1:
                discard_output()
                code = BROKEN_PIPE
        except RankError as error:  # invalid options in a file, or standard output is closed
            say(f"Error: {error}")
            code = MISUSED
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = MISUSED
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = "polars-rank" if context is None else context.command_path
            message = re.sub(r"'-\w' / ", "", error.format_message())
            stop = "" if message.endswith((".", "?")) else "."
            say(f"Error: {message}{stop} Try: {path} --help")
            code = MISUSED
        sys.exit(code)


def _version(ctx: click.Context, _: click.Parameter, show_version: bool) -> None:  # noqa: FBT001
    if show_version and not ctx.resilient_parsing:
        show(installed("polars_rank"))
        ctx.exit()


app = Program(
    {"Evaluation": EVALUATION, "Statistics": STATISTICS, "Charts and reports": REPORTS,
     "Files and fusion": FILES},
    name="polars-rank", help="Evaluate search and recommendation rankings.", epilog=_EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--config"], type=click.Path(path_type=Path), metavar="FILE",
            help="TOML file of options (default: [tool.polars-rank] of pyproject.toml).",
        ),
        click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version,
            help="Show the version.",
        ),
    ],
)  # fmt: skip
app.add_command(PLOT)
