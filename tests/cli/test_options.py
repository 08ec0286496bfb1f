"""Options have the names and defaults of the parameters of the library."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import needs
import polars_rank as pr
import pytest

needs.package("typer", "cli")

from polars_rank.cli import options  # noqa: E402
from polars_rank.cli.commands import app  # noqa: E402
from polars_rank.conventions import Definitions, named  # noqa: E402
from polars_rank.evaluation import parameters  # noqa: E402
from polars_rank.plot import __all__ as plots  # noqa: E402

COMMANDS = {each.name: each.callback for each in app.registered_commands}
READ = [pr.scan_log, pr.scan_judgments, pr.evaluate]
#: The functions of the library that a command calls; of a parameter of several, the first one's.
CALLED = {
    "evaluate": [*READ, pr.per_query],
    "estimate": [pr.clicks.estimate, *READ],
    "curve": [pr.rank_curve, pr.pr_curve, *READ],
    "explain": [pr.explain, pr.explain_difference, *READ],
    "metrics": [pr.list_metrics],
    "inspect": READ,
    "summarize": [pr.summarize, pr.compare, *READ],
    "compare": [pr.compare, *READ],
    "leaderboard": [pr.leaderboard, *READ],
    "movers": [pr.diagnostics.movers, *READ],
    "check": [pr.check, pr.summarize, pr.compare, *READ],
    "plot": [
        *(getattr(pr.plot, name) for name in plots),
        *(pr.summarize, pr.compare, pr.diagnostics.judgment_bounds, *READ),
    ],
    "report": [pr.report, *READ],
    "demo": [pr.datasets.search_log],
    "generate": [pr.datasets.search_log],
    "convert": [pr.scan_judgments],
    "fuse": [pr.fuse, *READ],
    "tune-fusion": [pr.tune_fusion, *READ],
}
#: What files a command reads and writes, and how.
FILES = {
    "ctx", "logs", "values", "qrels", "input_format", "missing_columns", "extra_columns",
    "engine", "master", "remote", "format", "output", "overwrite", "keep_formulas", "progress",
    "wide",
}  # fmt: skip
#: Options for which there is no parameter of the same name, and why.
_PREDICTED = {"predicted_label": "computes the values of `predictions` from the log"}
OWN = {
    "summarize": _PREDICTED,
    "compare": _PREDICTED,
    "evaluate": {"per_query": "the command is `per_query`, too"},
    "curve": {"kind": "the command is `pr_curve`, too"},
    "explain": {"versus": "the conventions `b`"},
    "metrics": {"texts": "a search"},
    "check": {
        "baseline": "of the comparison that is checked",
        "rule": "a single one of the rules",
        "junit": "`write_junit`",
        "markdown": "`write_markdown`",
        **_PREDICTED,
    },
    "plot": {
        "dark": "colors of the file that is written",
        "ecdf": "the kind of `distribution`",
        "candidates": "of the tables of `fusion`",
        "step": "of the tables of `fusion`",
        "of": "the table of `bounds`",
        "ranks": "the kind of `leaderboard`",
        "values": "the table",
        "metrics": "the metric",
        "slices": "of the table of slices",
    },
    "report": {"rule": "a single one of the rules"},
    "tune-fusion": {"metrics": "the metric"},
    "demo": {"folder": "the files of the demonstration"},
}
#: The functions of a command, of which each parameter is an option.
COMPLETE = {
    "evaluate": [pr.evaluate, pr.per_query],
    "estimate": [pr.clicks.estimate],
    "curve": [pr.rank_curve, pr.pr_curve],
    "explain": [pr.explain, pr.explain_difference],
    "metrics": [pr.list_metrics],
    "summarize": [pr.summarize, pr.evaluate],
    "compare": [pr.compare, pr.evaluate],
    "leaderboard": [pr.leaderboard, pr.evaluate],
    "movers": [pr.diagnostics.movers],
    "check": [pr.check, pr.summarize, pr.compare, pr.evaluate],
    "plot": [getattr(pr.plot, name) for name in plots],
    "report": [pr.report],
    "generate": [pr.datasets.search_log],
    "convert": [pr.scan_run, pr.scan_judgments],
    "fuse": [pr.fuse],
    "tune-fusion": [pr.tune_fusion],
}
#: Parameters that are no options of a command, or of any command, and why.
_LOG = "the argument LOG"
EXCEPTIONS = {
    **{
        ("", name): "in a file for --conventions"
        for name in (
            "counts",
            "float32_scores",
            "text_ids",
            "gain_from",
            "parameters",
            "exceptions",
        )
    },
    **{("", name): _LOG for name in ("frame", "log", "table", "path")},
    ("", "metric"): "--metrics",
    ("", "colors"): "a mapping from runs to colors",
    ("estimate", "align"): "`estimate` does not support it",
    ("explain", "a"): "--conventions",
    ("explain", "b"): "--versus",
    **{
        (command, parameter): reason
        for command in ("summarize", "compare", "leaderboard", "check", "plot")
        for parameter, reason in {
            "align": "rows of values are aligned by their queries",
        }.items()
    },
    ("check", "result"): _LOG,
    ("check", "on_fail"): "the exit code",
    ("check", "details"): "columns about estimates can be in rules",
    ("plot", "weight"): "charts of logs show means of queries that count alike",
    ("plot", "cluster"): "charts of logs show queries as the sampling unit",
    **{("plot", name): "computed from the log" for name in ("curve", "tuning")},
    **{("plot", name): "the command has no chart of judges" for name in ("judge", "reference")},
    ("report", "path"): "--output",
    ("report", "columns"): "--query, --doc, --score, --label, --position",
    ("convert", "diversity"): "subtopics are joined by `join_judgments(subtopic=)`",
}
#: None and [] stand for the default of the library, which can be told from the same value if given.
UNSET = {
    "query": [], "doc": None, "run": None, "layout": None, "score": ["score"], "label": ["label"],
}  # fmt: skip
#: Defaults that a command has for itself.
DEFAULTS = {
    ("plot", "ks"): ["1-20"],  # None is the same
    ("plot", "kind"): inspect.Parameter.empty,
    ("curve", "ks"): ["1-20"],
    ("plot", "position"): None,  # --score, except for clicks
    ("check", "rules"): None,  # there may be --rule
    ("tune-fusion", "candidates"): ["rrf"],  # one value is one method
}


@pytest.mark.parametrize("command", COMMANDS)
def test_names_and_defaults_are_those_of_the_library(command: str) -> None:
    described: dict[str, inspect.Parameter] = {}
    for function in reversed(CALLED[command]):
        described |= inspect.signature(function).parameters
        if "definitions" in described:  # fields of `Conventions`
            described |= {
                name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
                for name in Definitions.__annotations__
                if name not in described
            }
    shared = 0
    for name, option in inspect.signature(COMMANDS[command]).parameters.items():
        if name in FILES | OWN.get(command, {}).keys():
            continue
        assert name in described, name
        shared += 1
        default, expected = option.default, described[name].default
        if (command, name) in DEFAULTS:
            expected = DEFAULTS[command, name]
        elif name in UNSET:
            expected = UNSET[name]
        elif isinstance(expected, pr.Conventions):
            default = named(default)
        elif default == []:
            assert expected in (None, (), inspect.Parameter.empty), name
            continue
        elif isinstance(expected, tuple):
            expected = [*expected]
        if name in ("score", "label"):  # one or several
            default = default if isinstance(default, list) else [default]
        assert str(default) == str(expected), name
    assert shared or command == "metrics"


def parameters_of(function: Any) -> list[str]:
    """Return the parameters of a function, with those that it passes on."""
    names = []
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            group = each.annotation.removeprefix("Unpack[").removesuffix("]")
            names += getattr(parameters, group).__annotations__
        else:
            names.append(each.name)
    return names


@pytest.mark.parametrize("command", COMPLETE)
def test_each_parameter_is_an_option(command: str) -> None:
    options_of = {*inspect.signature(COMMANDS[command]).parameters}
    missing = {
        name
        for function in COMPLETE[command]
        for name in parameters_of(function)
        if name not in options_of
    }
    excepted = {name for of, name in EXCEPTIONS if of in ("", command)}
    assert missing - excepted == set()
    # No exception is out of date.
    assert {name for of, name in EXCEPTIONS if of == command} - missing == set()


def test_a_shared_option_is_one_alias() -> None:
    """What a command writes out for itself means something else than in other commands."""
    shared = {id(value) for value in vars(options).values()}
    texts = [
        hint.__metadata__[0].help
        for function in COMMANDS.values()
        for hint in typing.get_type_hints(function, include_extras=True).values()
        if typing.get_origin(hint) is typing.Annotated and id(hint) not in shared
    ]
    assert len(texts) == len({*texts})
