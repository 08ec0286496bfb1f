"""The table of commands: public functions, what they read and write, and examples."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from polars_rank.cli.options import of_function, own, texts

if TYPE_CHECKING:
    from polars_rank.stats.result_columns import ResultColumn

#: Options of commands that read a log.
_READING = (
    "judgments", "run_file", "verbose", "input_format", "missing_columns", "extra_columns"
)  # fmt: skip
_OF_READERS = {"layout", "memory", "fields", "fractional", "negative"}
#: Options of commands that write a table, a Parquet file, a page, or a folder.
_OUTPUTS = {
    "table": ("format", "keep_formulas", "wide", "overwrite"),
    **dict.fromkeys(("parquet", "page", "folder"), ("overwrite",)),
}


class Command(NamedTuple):
    """A public function as a command, what it reads, and what it writes."""

    #: Its name; empty for a command that calls none.
    function: str
    #: A log, a log whose runs belong together, or per-query values.
    reads: Literal["log", "runs", "values", ""]
    examples: Sequence[str] = ()
    #: The help, if it is not the first line of the docstring.
    about: str = ""
    writes: Literal["table", "parquet", "page", "folder"] = "table"
    #: Functions whose parameters are options, too.
    also: tuple[str, ...] = ()
    #: Parameters that are not options.
    without: tuple[str, ...] = ()
    #: Names of options that are not parameters, and arguments.
    own: tuple[str | click.Argument, ...] = ()
    #: The function that runs the command, if it is special.
    runs: str = ""
    #: The columns of the result in `polars_rank.stats`, as module:NAME.
    result: str = ""
    #: Further columns of the result that tables leave out without --wide.
    minor: tuple[str, ...] = ()
    #: Whether long texts are wrapped.
    folds: bool = False

    @property
    def columns(self) -> Sequence[ResultColumn]:
        """The columns of the result; their modules are slow to import."""
        module, _, name = self.result.partition(":")
        return vars(import_module(f"polars_rank.stats.{module}"))[name] if name else ()

    @property
    def text(self) -> str:
        """The help of the command."""
        line = texts().get(self.function, {}).get("", "")
        return self.about or re.sub(r"^Return ", "Show ", line)

    def parameters(self) -> list[click.Parameter]:
        """Return the arguments and the options."""
        special = [own(each) if isinstance(each, str) else each for each in self.own]
        options = [own("progress")] if self.reads or self.writes == "parquet" else []
        # The first parameter of a function is the table that it reads.
        options += [*of_function(self.function)][bool(self.reads) :] if self.function else []
        for name in (*self.also, *["per_query"] * (self.reads == "values")):
            options += (each for each in [*of_function(name)][1:] if each.name != "keep")
        if self.reads:
            readers = (*of_function("scan_log"), *of_function("scan_judgments"))
            options += map(own, ["values"] * (self.reads == "values") + [*_READING])
            options += (each for each in readers if each.name in _OF_READERS)
        options += map(own, _OUTPUTS[self.writes])
        if self.writes != "folder":
            options.append(own("output", required=self.writes == "parquet"))
        known: dict[Any, Any] = {each.name: each for each in special}
        for each in options:
            if each.name not in self.without:
                known.setdefault(each.name, each)
        if "metric" in known:
            known.pop("metrics", None)
        if self.reads:
            known["logs"] = click.Argument(["logs"], nargs=-1, metavar="[LOG]...")
        return [*known.values()]


def _path(name: str, metavar: str, kind: type = Path, **options: Any) -> click.Argument:
    """Return an argument that is a path; as text, an empty one is an error of the function."""
    return click.Argument([name], type=click.Path(path_type=kind), metavar=metavar, **options)


def _described(commands: Mapping[str, Command]) -> Mapping[str, Command]:
    """Return commands with their examples, and their helps if there are some."""
    texts = json.loads(Path(__file__).with_name("commands.json").read_text("utf-8"))
    return {name: each._replace(**texts[name]) for name, each in commands.items()}


# fmt: off
EVALUATION = _described({
    "evaluate": Command("evaluate", "log"),
    "per-query": Command("per_query", "log"),
    "rank": Command("rank", "log"),
    "explain": Command("explain", "log", also=("explain_difference",),
        without=("metric", "a", "b"), own=(click.Argument(["metric"]), "versus"),
        runs="special:explain"),
    "identify": Command("identify", "log", without=("value",), own=("value", "per_query"),
        runs="special:identify", minor=("queries", "code"), folds=True),
    "metrics": Command("list_metrics", "", runs="special:metrics", folds=True,
        own=(click.Argument(["texts"], nargs=-1, metavar="[TEXT]..."),)),
    "referee": Command("referee", "", writes="folder", without=("function",),
        own=(click.Argument(["target"], metavar="[FUNCTION]", required=False),
             "markdown", "junit"), runs="special:referee"),
})
STATISTICS = _described({
    "summarize": Command("summarize", "values", result="summary:SUMMARY"),
    "compare": Command("compare", "values", result="comparison:COMPARISON"),
    "leaderboard": Command("leaderboard", "values", result="leaderboards:LEADERBOARD"),
    "power": Command("power", "values", result="planning:POWER"),
    "check": Command("check", "values", also=("compare",), without=("on_fail", "details"),
        own=("rule", "rules", "junit", "markdown"), runs="special:check",
        result="summary:SUMMARY", minor=("queries",)),
    "init": Command("", "", writes="folder", without=("overwrite",), runs="gating:init",
        own=(_path("folder", "[FOLDER]", required=False),)),
    "gate": Command("gate", "", writes="folder", runs="gating:gate",
        without=("judgments", "results", "floors", "max_drop", "margin", "latency"),
        own=(_path("golden", "GOLDEN", str),
             _path("results", "RESULTS...", str, nargs=-1, required=True), "rules",
             "baseline", "corpus", "update_baseline", "accept_loss", "markdown", "junit", "json")),
    "movers": Command("diagnostics.movers", "log", result="comparison:COMPARISON"),
    "robustness": Command("diagnostics.robustness", "log", runs="special:robustness",
        result="comparison:COMPARISON", minor=("headline",)),
})
FILES = _described({
    "fuse": Command("fuse", "runs", writes="parquet"),
    "tune-fusion": Command("tune_fusion", "runs", result="comparison:COMPARISON",
        minor=("difference_low", "difference_high", "by_fold")),
    "join-spans": Command("join_spans", "runs", writes="parquet"),
    "convert": Command("scan_judgments", "log", writes="parquet", runs="special:convert",
        without=("diversity", "format", "layout", "memory", "input_format", "missing_columns",
                 "extra_columns", "progress")),
    "generate": Command("datasets.search_log", "", writes="parquet",
        own=(_path("output", "OUTPUT"),)),
})
REPORTS = _described({
    "report": Command("report", "log", writes="page", also=("evaluate",), without=("path",),
        own=("rule", "rules"), runs="special:report"),
    "demo": Command("datasets.search_log", "", writes="folder", runs="special:demo",
        without=("docs_per_query", "runs", "seed", "string_ids"),
        own=(_path("folder", "[FOLDER]", required=False),)),
})
# fmt: on
