"""The table of commands: public functions, what they read and write, and examples."""

from __future__ import annotations

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
    examples: tuple[str, ...]
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


# fmt: off
EVALUATION: Mapping[str, Command] = {
    "evaluate": Command("evaluate", "log", (
        'log.parquet -m "ndcg@10 ap rr"',
        "run.txt --judgments qrels.txt -m ap",
        "log.parquet -m ap --conventions trec_eval",
    )),
    "per-query": Command("per_query", "log", ("log.parquet -m ap -o values.parquet",)),
    "rank": Command("rank", "log", ("log.parquet -o ranked.parquet",)),
    "explain": Command("explain", "log", (
        "ndcg@10 --conventions lightgbm", "ndcg@10 log.parquet --versus lightgbm",
    ), about="Explain how a metric is computed, or why conventions differ.",
        also=("explain_difference",), without=("metric", "a", "b"),
        own=(click.Argument(["metric"]), "versus"), runs="special:explain"),
    "identify": Command("identify", "log", (
        "run.txt --judgments qrels.txt -m ndcg@10 --value 0.5772",
        "log.parquet --metric ndcg@10 --value bm25=0.5772",
    ), without=("value",), own=("value", "per_query"), runs="special:identify",
        minor=("queries", "code"), folds=True),
    "metrics": Command("list_metrics", "", ("precision", "--format csv"),
        about="List the metrics that contain a text: parameters, range, definition, other names.",
        own=(click.Argument(["texts"], nargs=-1, metavar="[TEXT]..."),), runs="special:metrics",
        folds=True),
    "referee": Command("referee", "", (
        "my_eval:ndcg", "my_eval:ndcg --signature grades,run --expect trec_eval",
    ), about="Find the definition and the defects of a metric function; exit with 1 for defects."
        "\n\nFUNCTION is an import path, such as my_eval:ndcg or my_eval.py:ndcg.",
        writes="folder", without=("function",),
        own=(click.Argument(["target"], metavar="[FUNCTION]", required=False),
             "markdown", "junit"), runs="special:referee"),
}
STATISTICS: Mapping[str, Command] = {
    "summarize": Command("summarize", "values", ('log.parquet -m "ndcg@10 ap" --by country',),
        result="summary:SUMMARY"),
    "compare": Command("compare", "values", (
        'log.parquet -m "ndcg@10 rr" --baseline bm25',
        "log.parquet -m ndcg@10 --slices country --margin 2%",
    ), result="comparison:COMPARISON"),
    "leaderboard": Command("leaderboard", "values", (
        'log.parquet -m "ndcg@10 ap"', "log.parquet -m ndcg@10 --by country -o table.md",
    ), about="Rank runs by their means, with intervals of ranks.",
        result="leaderboards:LEADERBOARD"),
    "power": Command("power", "values", ("log.parquet -m ndcg@10 --difference 0.02",),
        result="planning:POWER"),
    "check": Command("check", "values", (
        'log.parquet --baseline bm25 --rule "difference(ap) >= 0"',
    ), about="Check rules on means and differences; exit with 1 if one fails.\n\nWith --baseline, "
        "rules on mean, low and high apply to the means of the other runs, and rules on "
        "difference, p_value and the like to the comparison.",
        also=("compare",), without=("on_fail", "details"),
        own=("rule", "rules", "junit", "markdown"), runs="special:check",
        result="summary:SUMMARY", minor=("queries",)),
    "init": Command("", "", ("",), writes="folder",
        about="Write examples of a golden file, results, rules and a workflow for gate.\n\n"
        "Existing files are kept.",
        without=("overwrite",), runs="gating:init",
        own=(_path("folder", "[FOLDER]", required=False),)),
    "gate": Command("gate", "", (
        "golden.jsonl results.jsonl", "golden.jsonl results.jsonl --update-baseline",
    ), about="Check the results of a retriever on a golden file; exit with 1 if a rule fails.\n\n"
        "The rules are in [gate] of polars-rank.toml. Several RESULTS are repetitions.",
        writes="folder",
        without=("judgments", "results", "floors", "max_drop", "margin", "latency"),
        own=(_path("golden", "GOLDEN", str),
             _path("results", "RESULTS...", str, nargs=-1, required=True), "rules",
             "baseline", "corpus", "update_baseline", "accept_loss", "markdown", "junit", "json"),
        runs="gating:gate"),
    "movers": Command("diagnostics.movers", "log", (
        "log.parquet -m ndcg@10 --baseline bm25 --n 5",
    ), result="comparison:COMPARISON"),
    "robustness": Command("diagnostics.robustness", "log", (
        "log.parquet -m ndcg@10 --baseline bm25",
    ), runs="special:robustness", result="comparison:COMPARISON", minor=("headline",)),
}
FILES: Mapping[str, Command] = {
    "fuse": Command("fuse", "runs", (
        "log.parquet -o fused.parquet", "log.parquet -o borda.parquet --method borda --keep-runs",
    ), writes="parquet"),
    "tune-fusion": Command("tune_fusion", "runs", (
        "log.parquet -m ndcg@10", "log.parquet -m rr --candidates borda --step 0.05",
    ), result="comparison:COMPARISON",
        minor=("difference_low", "difference_high", "by_fold")),
    "join-spans": Command("join_spans", "runs", (
        "chunks.parquet --gold spans.parquet -o judged.parquet",
    ), writes="parquet"),
    "convert": Command("scan_judgments", "log", ("run.txt --judgments qrels.txt -o both.parquet",),
        about="Convert results, judgments or both to one Parquet file.", writes="parquet",
        without=("diversity", "format", "layout", "memory", "input_format", "missing_columns",
                 "extra_columns", "progress"), runs="special:convert"),
    "generate": Command("datasets.search_log", "", ("log.parquet --queries 500",),
        writes="parquet", own=(_path("output", "OUTPUT"),)),
}
REPORTS: Mapping[str, Command] = {
    "report": Command("report", "log", ("log.parquet -m ap --baseline bm25 --slices country",),
        writes="page", also=("evaluate",), without=("path",),
        own=("rule", "rules"), runs="special:report"),
    "demo": Command("datasets.search_log", "", ("",), writes="folder",
        about="Generate a log, compare its two runs, and write a report.",
        without=("docs_per_query", "runs", "seed", "string_ids"), runs="special:demo",
        own=(_path("folder", "[FOLDER]", required=False),)),
}
# fmt: on
