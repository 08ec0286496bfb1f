"""Options of commands, from the parameters of public functions.

A parameter becomes an option with its name. The annotation decides how the text is read, and the
first sentence of the docstring about the parameter, which `help.json` has, is its help.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from inspect import Parameter, signature, unwrap
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import click

from polars_rank._params import OPTIONS, number_in
from polars_rank.cli import writing
from polars_rank.conventions import Conventions, Definitions, Duplicates, named
from polars_rank.errors import ArgumentError
from polars_rank.io.files import read_toml
from polars_rank.io.formats import TableFormat
from polars_rank.metrics.names import split

#: Panels of the help in their order, after the options without a panel.
PANELS = INPUT, DEFINITIONS, OUTPUT = "Input", "Definitions", "Output"
#: Parameters in panels; other parameters are in none.
_PANEL_OF = {
    **dict.fromkeys(("fractional", "negative", "fields", "layout", "memory"), INPUT),
    **dict.fromkeys(("query", "doc", "score", "position", "label", "run", "weight"), INPUT),
    **dict.fromkeys(("conventions", *Definitions.__annotations__), DEFINITIONS),
}
#: Short names of options.
_SHORT = {"metrics": ["-m"], "metric": ["-m"], "output": ["-o"]}
#: Options whose value may be empty: no column, a run without a name, or no title.
_MAY_BE_EMPTY = {"doc", "run", "baseline", "title"}


class Kind(NamedTuple):
    """How the text of an option becomes the value of a parameter."""

    metavar: str
    #: Returns the value from the name of the parameter and the text, or several texts.
    read: Callable[[str, Any], Any] = lambda _, value: value
    several: bool = False
    type: Any = click.STRING
    choices: tuple[str, ...] = ()


def split_names(texts: Iterable[str]) -> list[str]:
    """Split names at spaces and commas, but not inside brackets.

    Examples
    --------
    >>> split_names(["country, device", "day"])
    ['country', 'device', 'day']
    """
    return split(" ".join(texts), lists=False)


def _one_or_several(_: str, texts: Sequence[str]) -> str | list[str]:
    names = split_names(texts)
    return names[0] if len(names) == 1 else names


def _integers(name: str, texts: Sequence[str]) -> int | list[int]:
    """Return one integer, or the integers in a list of numbers and ranges, e.g. "1-3, 10"."""
    numbers: list[int] = []
    for text in split_names(texts):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", text, re.ASCII)
        if ends is None or int(ends[1]) > int(ends[2] or ends[1]):
            raise ArgumentError(f"must be whole numbers or ranges, e.g. 1-20; found {text!r}", name)
        numbers += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return numbers[0] if len(numbers) == 1 else numbers


def _number_or_names(_: str, texts: Sequence[str]) -> int | list[str]:
    names = split_names(texts)
    is_number = len(names) == 1 and names[0].lstrip("+-").isdecimal()
    return int(names[0]) if is_number else names


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ArgumentError(f"must be JSON; found {text!r}", name) from None


def _metric(name: str, text: str) -> str:
    if len(metrics := split(text)) != 1:
        raise ArgumentError(f"must be one metric; found {', '.join(metrics)}", name)
    return metrics[0]


def _fields(name: str, texts: Sequence[str]) -> dict[str, str | None]:
    """Return fields by role, from ROLE=FIELD; without a field there is none."""
    pairs = [text.partition("=") for text in split_names(texts)]
    fields = {role: field or None for role, _, field in pairs}
    if not all(role and equals for role, equals, _ in pairs) or len(fields) < len(pairs):
        raise ArgumentError(
            f"must be ROLE=FIELD, e.g. label=relevancy, with each role once; "
            f"found {' '.join(texts)!r}",
            name,
        )
    return fields


def _by_name(_: str, texts: Sequence[str]) -> str | Mapping[str, str]:
    """Return one value for all, or values by the name of a metric or a run."""
    pairs = (text.rpartition("=") for text in split_names(texts))
    values = {name or "*": value for name, _, value in pairs}
    return values["*"] if [*values] == ["*"] else values


def conventions_of(_: str, text: str) -> Conventions:
    """Return the conventions with the name of a preset, or those in a TOML file.

    The keys of a file are fields of `Conventions`. The key `base` names the preset that the other
    keys change.
    """
    if not text.lower().endswith(".toml"):
        return named(text)
    fields = read_toml(text, "conventions")
    name = fields.pop("name", Path(text).stem)
    return named(fields).but(name=name)


def _choices(choices: tuple[str, ...]) -> Kind:
    return Kind("CHOICE", type=click.Choice(choices), choices=choices)


_COLUMN = Kind("COLUMN")
_COLUMNS = Kind("COLUMNS", _one_or_several, several=True)
_METRICS = Kind("METRICS", lambda _, texts: split(" ".join(texts)), several=True)
_TABLE = Kind("FILE", lambda _, texts: [*texts], several=True)
_CONVENTIONS = Kind("PRESET|FILE", conventions_of)
_TEXT, _JSON = Kind("TEXT"), Kind("JSON", _json)
_TEXTS = Kind("TEXT", lambda _, texts: texts[0] if len(texts) == 1 else [*texts], several=True)
_FILES = _TABLE._replace(metavar="[NAME=]FILE")
_VALUES = Kind("[RUN=]NUMBER", _by_name, several=True)
_INSERT, _IGNORE = _choices(("raise", "insert")), _choices(("raise", "ignore"))
_FLAG = Kind("", type=click.BOOL)
_PATH = Kind("FILE", lambda _, text: Path(text))
_SHARE = Kind(
    "NUMBER|PERCENT", lambda _, text: text if number_in(text) is None else number_in(text)
)
#: Kinds of types. The names of aliases in annotations stand for classes.
_ALIASES = {
    name: (type(name, (), {}), kind)
    for name, kind in {
        "Names": _COLUMNS, "Score": _COLUMN, "Label": _COLUMN, "Metrics": _METRICS,
        "Table": _TABLE, "ConventionsLike": _CONVENTIONS, "Candidates": _TEXTS,
        "FieldNames": Kind("ROLE=FIELD,...", _fields, several=True),
    }.items()
}  # fmt: skip
_KINDS: dict[Any, Kind] = {
    **dict(_ALIASES.values()), bool: _FLAG, int: Kind("INTEGER", type=click.INT),
    float: Kind("NUMBER", type=click.FLOAT), str: _COLUMN,
}  # fmt: skip
#: Parameters whose annotation does not say what they are.
_BY_NAME = {
    **dict.fromkeys(("name", "title", "method", "memory"), _TEXT), "signature": Kind("ARGUMENTS"),
    "command": Kind("PROGRAM"), "baseline": Kind("RUN"), "metrics": _METRICS,
    "metric": Kind("METRIC", _metric),
    "runs": Kind("NAMES|INTEGER", _number_or_names, several=True),
    "undefined": Kind("[METRIC=]VALUE", _by_name, several=True),
}  # fmt: skip


@cache
def public(name: str) -> Any:
    """Return a public function by its name, such as "clicks.coec"."""
    return attrgetter(name)(sys.modules["polars_rank"])


@cache
def parameters_of(name: str) -> Mapping[str, tuple[Any, Any]]:
    """Return the annotations and defaults of the parameters of a public function, by name."""
    function = unwrap(public(name))
    # Names that modules import for type checking only: aliases, and classes of options.
    known = {
        **vars(abc), **{alias: each for alias, (each, _) in _ALIASES.items()},
        **{each: type(each, (), {}) for each in OPTIONS},
        "Duplicates": Duplicates, "PathLike": os.PathLike, "Rules": Any, "Unpack": Union, "os": os,
    }  # fmt: skip
    hints = get_type_hints(function, localns=known)
    found: dict[str, tuple[Any, Any]] = {}
    for each in signature(function).parameters.values():
        if each.kind is not each.VAR_KEYWORD:
            found[each.name] = hints[each.name], each.default
            continue
        shared = {} if name == "evaluate" else parameters_of("evaluate")
        fields = get_type_hints(Definitions)
        for option in OPTIONS.get(hints[each.name].__name__, ()):
            found[option] = shared.get(option) or (fields[option], None)
    return found


def kind_of(name: str, annotation: Any) -> Kind:
    """Return the kind of a parameter."""
    is_union = get_origin(annotation) in (Union, UnionType)
    members = [*get_args(annotation)] if is_union else [annotation]
    choices = next((get_args(each) for each in members if get_origin(each) is Literal), ())
    if name in _BY_NAME:
        return _BY_NAME[name]._replace(choices=choices)
    if choices:
        return _choices(choices)
    if any(int in get_args(each) for each in members):
        return Kind("INTEGERS|RANGE", _integers, several=True)
    if {float, str} <= {*members}:
        return _SHARE
    return next((kind for each, kind in _KINDS.items() if each in members), _JSON)


class Option(click.Option):
    """An option with a kind and a panel."""

    kind: Kind
    panel: str | None
    is_on: bool

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the value; raise an error for an empty one, which would be ignored."""
        value = super().process_value(ctx, value)
        is_empty = value and "" in value if self.multiple else value == ""
        if is_empty and self.name not in _MAY_BE_EMPTY:
            ctx.fail(f"{self.opts[-1]} is empty; give it a value, or omit it")
        return value

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help; a column of negations would take the space of texts."""
        record = super().get_help_record(ctx)
        if record is None or not self.secondary_opts:
            return record
        return self.opts[-1].replace("--", "--[no-]" if self.is_on else "--", 1), record[1]


def make(
    name: str, kind: Kind, help: str, panel: str | None = None, *, default: Any = None,
    required: bool = False,
) -> Option:  # fmt: skip
    """Return an option. A default is only shown: the function itself has it."""
    flag = f"--{name.replace('_', '-')}"
    choices = f" [{', '.join(kind.choices)}]" if kind.choices else ""
    shown = isinstance(default, (int, float, str)) and not isinstance(default, bool)
    text = f"{help}{choices}" + (f" [default: {default}]" if shown and default != "" else "")
    unset: Any = {"default": None} if kind is _FLAG else {}  # neither on nor off
    option = Option(
        [name, *_SHORT.get(name, ()), f"{flag}/--no-{flag[2:]}" if kind is _FLAG else flag],
        help=text, metavar=kind.metavar or None, multiple=kind.several, type=kind.type,
        required=required, **unset,
    )  # fmt: skip
    option.kind, option.panel, option.is_on = kind, panel, default is True
    return option


@cache
def texts() -> Mapping[str, Mapping[str, str]]:
    """Return the help of functions and their parameters, which a test keeps up to date."""
    return json.loads(files("polars_rank.cli").joinpath("help.json").read_text("utf-8"))  # type: ignore[no-any-return]


def of_function(name: str) -> Iterator[Option]:
    """Yield the options of a function."""
    sources = [texts().get(each, {}) for each in (name, "evaluate", "Conventions")]
    for parameter, (annotation, default) in parameters_of(name).items():
        help_ = next((each[parameter] for each in sources if parameter in each), "")
        required = default is Parameter.empty
        yield make(
            parameter, kind_of(parameter, annotation), help_, _PANEL_OF.get(parameter),
            default=None if required else default, required=required,
        )  # fmt: skip


#: Options that are not parameters of a function: panel, kind, help, and default that is shown.
_OWN: dict[str, tuple[Any, ...]] = {
    "versus": (None, _CONVENTIONS, "Conventions to compare with."),
    "value": (None, _VALUES, "Value of another tool, or one per run."),
    "per_query": (None, _TABLE, "Values of queries by another tool, instead of --value."),
    "rule": (None, Kind("RULE", several=True), 'Rule, e.g. "ndcg@10 >= 0.4" (repeatable).'),
    "rules": (None, _PATH, "TOML file of rules."),
    "baseline": (None, _PATH, "Baseline file.", "baseline.jsonl"),
    "corpus": (None, _PATH, "Corpus, to find unknown ids in the golden file."),
    "update_baseline": (OUTPUT, _FLAG, "Write the baseline, if no rule fails."),
    "accept_loss": (OUTPUT, _TEXT, "Reason for writing the baseline although a rule fails."),
    "values": (None, _TABLE, "Per-query values, instead of LOG."),
    "judgments": (INPUT, _TABLE, "Judgments: TREC, BEIR, JSON, CSV, Parquet and others."),
    "run_file": (INPUT, _FILES, "Results, instead of LOG: TREC, JSON, CSV, Parquet and others."),
    "verbose": (INPUT, _FLAG, "Show what was read from which field of judgments and results."),
    "input_format": (INPUT, _choices(get_args(TableFormat)), "Input format (default: by content)."),
    "missing_columns": (INPUT, _INSERT, "What to do if a Parquet file lacks columns.", "raise"),
    "extra_columns": (INPUT, _IGNORE, "What to do if a Parquet file has more columns.", "raise"),
    "progress": (OUTPUT, _FLAG, "Show progress bars in a terminal.", True),
    "format": (OUTPUT, _choices(get_args(writing.Format)), "Format (default: by --output)."),
    "output": (OUTPUT, _PATH, "Write to a file."),
    "overwrite": (OUTPUT, _FLAG, "Overwrite an existing output file."),
    "keep_formulas": (OUTPUT, _FLAG, "In CSV, keep text that spreadsheets run as formulas."),
    "wide": (OUTPUT, _FLAG, "Show all columns and rows of a table."),
    "json": (OUTPUT, _PATH, "Write JSON to a file."),
    "junit": (OUTPUT, _PATH, "Write JUnit XML to a file."),
    "markdown": (OUTPUT, _PATH, "Write Markdown to a file."),
}


def own(name: str, *, required: bool = False) -> Option:
    """Return an option that is not a parameter of a function."""
    panel, kind, help_, *default = _OWN[name]
    return make(name, kind, help_, panel, default=next(iter(default), None), required=required)
