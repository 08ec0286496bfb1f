"""Options are named as the parameters of the library, and have their defaults."""

from __future__ import annotations

import inspect
import typing

import needs
import polars_rank as pr
import pytest

needs.package("typer", "cli")

from polars_rank.cli import options  # noqa: E402
from polars_rank.cli.commands import app  # noqa: E402
from polars_rank.conventions import named  # noqa: E402
from polars_rank.plot import __all__ as plots  # noqa: E402

COMMANDS = {each.callback.__name__: each.callback for each in app.registered_commands}
READ = [pr.scan_log, pr.trec.scan_qrels, pr.evaluate]
#: The functions of the library that a command calls; of a parameter of several, the first one's.
CALLED = {
    "evaluate": [*READ, pr.per_query],
    "estimate": [pr.clicks.estimate, *READ],
    "curve": [pr.rank_curve, *READ],
    "explain": [pr.explain, pr.explain_difference, *READ],
    "metrics": [pr.list_metrics],
    "inspect": READ,
    "summarize": [pr.summarize, pr.compare, *READ],
    "compare": [pr.compare, *READ],
    "movers": [pr.diagnostics.movers, *READ],
    "slices": [pr.slices, *READ],
    "check": [pr.check, pr.summarize, pr.compare, pr.slices, *READ],
    "plot": [pr.summarize, *READ, *(getattr(pr.plot, name) for name in plots)],
    "report": [pr.report, *READ],
    "demo": [pr.datasets.search_log],
    "generate": [pr.datasets.search_log],
    "convert": [pr.trec.scan_qrels],
}
#: What files a command reads and writes, and how.
FILES = {
    "ctx", "logs", "values", "qrels", "input_format", "missing_columns", "extra_columns",
    "engine", "master", "remote", "format", "output", "overwrite", "progress", "wide",
}  # fmt: skip
#: Options for which there is no parameter of the same name.
OWN = {
    "evaluate": {"per_query"},
    "curve": {"kind"},
    "explain": {"versus"},
    "metrics": {"texts"},
    "slices": {"slices"},
    "inspect": {"run"},  # looked for
    "check": {"baseline", "rule", "slices", "junit", "markdown"},
    "plot": {"ecdf", "of", "slices", "values", "metrics"},
    "report": {"rule", "n", "meta"},
    "demo": {"folder"},
}
#: None and [] stand for the default of the library, which can be told from the same value if given.
UNSET = {"query": [], "doc": None, "run": None, "layout": None}
#: Defaults that a command has for itself.
DEFAULTS = {
    ("plot", "ks"): ["1-20"],  # None is the same
    ("plot", "kind"): inspect.Parameter.empty,
    ("curve", "ks"): ["1-20"],
    ("check", "rules"): None,  # there may be --rule
}


@pytest.mark.parametrize("command", COMMANDS)
def test_names_and_defaults_are_those_of_the_library(command: str) -> None:
    parameters: dict[str, inspect.Parameter] = {}
    for function in reversed(CALLED[command]):
        parameters |= inspect.signature(function).parameters
    shared = 0
    for name, option in inspect.signature(COMMANDS[command]).parameters.items():
        if name in FILES | OWN.get(command, set()):
            continue
        assert name in parameters, name
        shared += 1
        default, expected = option.default, parameters[name].default
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
        assert str(default) == str(expected), name
    assert shared or command == "metrics"


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
