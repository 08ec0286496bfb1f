"""Rules about tables of results, as they are written in Python and TOML."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, TypeAlias

from polars_rank._params import number_in, one_of
from polars_rank.errors import ArgumentError, SourceError, short
from polars_rank.io.files import read_toml
from polars_rank.stats.comparison import COMPARISON
from polars_rank.stats.results import BOUND, COUNT, ESTIMATE, ResultColumn
from polars_rank.stats.summary import SUMMARY

Rules: TypeAlias = "str | PathLike[str] | Sequence[str | Mapping[str, Any] | Rule]"

#: The columns of results that are numbers, by name.
COLUMNS: dict[str, ResultColumn] = {
    each.name: each for each in (*COMPARISON, *SUMMARY) if each.dtype.is_numeric()
}
_COMPARED = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
#: The sign of the condition that a guard requires, by the sign of the loss that it names.
_OPPOSITE = {">=": "<", "<=": ">", ">": "<=", "<": ">="}
_RULE = re.compile(
    r"\s*+(?P<guard>not\s++)?(?:(?P<column>[\w.-]+)\s*+\()?\s*+(?P<name>[^\s<>].*?)\s*+\)?\s*+"
    r"(?P<sign>>=|<=|>|<)\s*+(?P<bound>\S+)\s*+"
)
#: The end of a rule that restricts it to some rows: columns and values, which may be in quotes.
_PAIR = r'([^=,"]+)=( *"[^"]*" *|[^,"]*)'
_WHERE = re.compile(rf"(?P<rule>.+) where ?\((?P<pairs>{_PAIR}(?:,{_PAIR})*)\)")
#: Invalid signs in rules, and the valid ones.
_MISWRITTEN = {"=>": ">=", "=<": "<=", "\N{GREATER-THAN OR EQUAL TO}": ">=",
               "\N{LESS-THAN OR EQUAL TO}": "<="}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """A rule: a column of a metric's rows, a sign and a bound."""

    text: str
    column: str | None
    metric: str | None
    sign: str
    bound: float
    #: Whether the rule fails only if its opposite is shown.
    is_guard: bool = False
    where: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Rule | str | Mapping[str, Any]) -> Rule:
        """Parse a rule as it is written in Python or TOML."""
        if isinstance(given, Rule):
            return given
        if isinstance(given, str):
            given = {"rule": given}
        unknown = set(given) - {"rule", "where"} if isinstance(given, Mapping) else {str(given)}
        if unknown or not isinstance(given.get("rule"), str):
            raise ArgumentError(
                "a rule (`rules`) must be text or a dict of 'rule' and 'where'; "
                f"found {short(given)}"
            )
        text, where = _restricted(given["rule"].strip(), given.get("where"))
        # Invalid bytes of a command line are surrogates.
        if re.search("[\ud800-\udfff]", "".join(map(str, (text, *where.values())))):
            raise ArgumentError(
                f"the rule {text!r} (`rules`) has characters that are not Unicode; write valid text"
            )
        if wrong := [sign for sign in _MISWRITTEN if sign in text]:
            raise ArgumentError(
                f"invalid sign {wrong[0]!r} in the rule {text!r} (`rules`); use "
                f"{_MISWRITTEN[wrong[0]]!r}"
            )
        match = _RULE.fullmatch(text)
        bound = None if match is None else number_in(match["bound"])
        if match is None or bound is None:
            raise ArgumentError(
                f"invalid rule {text!r} (`rules`); examples of rules: 'ndcg@10 >= 0.4', "
                "'low(ndcg@10) >= 0.38', 'difference(ndcg@10) >= -0.01 where(country=US)', "
                "'not difference(ndcg@10) < -0.01' or 'queries >= 1000'"
            )
        column, metric = match["column"], match["name"]
        if column is not None and column not in COLUMNS:
            # A metric with parameters, as in "ndcg(gain='exp2')@10".
            start = match.end("guard") if match["guard"] else 0
            column, metric = None, text[start : match.start("sign")].strip()
        if column is None and metric in COLUMNS:
            column, metric = metric, None
        if column is not None and COLUMNS[column].kind not in (COUNT, BOUND, ESTIMATE):
            decisive = ", ".join(repr(n) for n, each in COLUMNS.items() if each.kind == ESTIMATE)
            raise ArgumentError(
                f"the rule {text!r} (`rules`) is about {column!r}, which has no confidence "
                f"interval; rules can be about {decisive}, their bounds, and counts"
            )
        guard, sign = match["guard"] is not None, match["sign"]
        return cls(text, column, metric, _OPPOSITE[sign] if guard else sign, bound, guard, where)

    def holds(self, value: float) -> bool:
        """Return whether a number is on the right side of the bound."""
        return bool(_COMPARED[self.sign](value, self.bound))


def read_rules(rules: Rules, undecided: str | None = None) -> tuple[list[Rule], str]:
    """Return the rules of a list or file, and the verdict for undecided ones."""
    one_of("undecided", undecided, (None, "pass", "fail"))
    if isinstance(rules, (str, PathLike)):
        rules, in_file = _rules_in(rules)
        undecided = in_file if undecided is None else undecided
    undecided = "fail" if undecided is None else undecided
    one_of("undecided", undecided, ("pass", "fail"))
    if isinstance(rules, bytes) or not isinstance(rules, Sequence):
        raise ArgumentError(
            f"`rules` must be a list of rules or the path of a file; found {short(rules)}"
        )
    read = [Rule.read(each) for each in rules]
    if not read:
        raise ArgumentError("`rules` is empty; pass at least one rule")
    return read, undecided


def _rules_in(path: str | PathLike[str]) -> tuple[list[Any], Any]:
    """Return the rules of a TOML file, and its verdict for undecided ones."""
    try:
        content = read_toml(path, "rules")
    except SourceError as error:
        if _RULE.fullmatch(fspath(path)) is None:
            raise
        raise SourceError(
            f"`rules` {fspath(path)!r} is not a file; pass rules as a list"
        ) from error
    unknown = set(content) - {"rules", "undecided"}
    if unknown or not isinstance(content.get("rules"), list):
        raise ArgumentError(
            f"{fspath(path)!r} must have [[rules]] and optionally `undecided`; "
            f"found {sorted(content)}"
        )
    return content["rules"], content.get("undecided")


def _restricted(text: str, where: Any) -> tuple[str, Mapping[str, Any]]:
    """Return a rule without its `where(...)`, and the columns and values of either `where`."""
    if where is not None and not isinstance(where, Mapping):
        raise ArgumentError(
            "`where` of a rule (`rules`) must be a dict of columns and values; "
            f"found {short(where)}"
        )
    match = _WHERE.fullmatch(text)
    if match is None:
        return text, where or {}
    values = {name.strip(): text.strip() for name, text in re.findall(_PAIR, match["pairs"])}
    texts = {name: None if text == "null" else text.strip('"') for name, text in values.items()}
    return match["rule"].strip(), {**texts, **(where or {})}
