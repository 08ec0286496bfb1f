"""Rules about results: values that read themselves from text, and decide rows of a result."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, TypeAlias, cast

from polars_rank._params import check_types, number, number_in, one_of
from polars_rank.errors import ArgumentError, number_of, short
from polars_rank.io.files import is_utf8, read_toml
from polars_rank.stats.comparison import COMPARISON
from polars_rank.stats.result_columns import BOUND, COUNT, ESTIMATE, ResultColumn
from polars_rank.stats.summary import SUMMARY

Rules: TypeAlias = "str | PathLike[str] | Sequence[str | Mapping[str, Any] | Rule]"

#: The columns of results that are numbers, by name.
COLUMNS: dict[str, ResultColumn] = {
    each.name: each for each in (*COMPARISON, *SUMMARY) if each.dtype.is_numeric()
}
#: Columns of differences, and those of differences as shares of the baseline's mean.
_RELATIVE = {
    **{name: f"relative_{name}" for name in ("difference", "low", "high")},
    **{name: name for name in ("relative_difference", "relative_low", "relative_high")},
}
_COMPARED = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
#: The sign of the condition that a guard requires, by the sign of the loss that it names.
_OPPOSITE = {">=": "<", "<=": ">", ">": "<=", "<": ">="}
_RULE = re.compile(
    r"\s*+(?P<guard>not\s++)?(?P<subject>(?:(?P<column>[\w.-]+)\s*+\()?\s*+(?P<name>[^\s<>].*?)"
    r"\s*+\)?)(?<!=)\s*+(?P<sign>>=|<=|>|<)\s*+(?P<bound>\S+?)(?P<percent>%?)\s*+"
)
#: The end of a rule that restricts it to some rows: columns and values, which may be in quotes.
_PAIR = r'([^=,"]+)=( *"[^"]*" *|[^,"]*)'
_WHERE = re.compile(rf"(?P<rule>.+) where ?\((?P<pairs>{_PAIR}(?:,{_PAIR})*)\)")


@dataclass(frozen=True)
class Rule:
    """A condition on a column of a metric's rows in a result.

    Examples
    --------
    >>> rule = pr.Rule.read("difference(ndcg@10) >= -1%")
    >>> rule.column, rule.sign, rule.bound
    ('relative_difference', '>=', -0.01)
    >>> str(pr.Rule("ndcg@10", ">=", 0.4, where={"country": "JP"}))
    'ndcg@10 >= 0.4 where(country=JP)'

    Parameters
    ----------
    metric
        Name of the metric. None for the rows of all metrics.
    sign
        ">=", "<=", ">" or "<".
    bound
        The number that the column is compared with. For a difference as a share of the baseline's
        mean, the column is "relative_difference".
    column
        Column of the result: "mean", "difference", "relative_difference", one of their bounds, a
        count or a p-value.
    where
        Columns or slices, and the values of the rows that the rule is about.
    is_guard
        Whether the rule fails only if its opposite is shown. As text, it is "not" and the opposite:
        "not difference(rr) < 0".
    """

    metric: str | None
    sign: str
    bound: float
    column: str = "mean"
    where: Mapping[str, Any] = field(default_factory=dict, hash=False)
    is_guard: bool = False
    #: The rule as it was written, which the names of test cases of build servers have.
    _text: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        one_of("sign", self.sign, tuple(_COMPARED))
        number("bound", self.bound)
        one_of("column", self.column, tuple(COLUMNS))
        check_types(type(self).__init__, vars(self))
        if COLUMNS[self.column].kind not in (COUNT, BOUND, ESTIMATE):
            decisive = ", ".join(repr(n) for n, each in COLUMNS.items() if each.kind == ESTIMATE)
            raise ArgumentError(
                f"the rule '{self}' (`rules`) is about {self.column!r}, which has no confidence "
                f"interval; rules can be about {decisive}, their bounds, and counts"
            )

    @classmethod
    def read(cls, given: Rule | str | Mapping[str, Any]) -> Rule:
        """Return a rule from text, such as "low(ap) >= 0.3", or from a dict of TOML."""
        if isinstance(given, Rule):
            return given
        if isinstance(given, str):
            given = {"rule": given}
        unknown = set(given) - {"rule", "where"} if isinstance(given, Mapping) else {str(given)}
        if unknown or not isinstance(given.get("rule"), str):
            expected = "text, a dict of 'rule' and 'where', or a `Rule`"
            raise ArgumentError(f"a rule (`rules`) must be {expected}; found {short(given)}")
        text, where = _restricted(given["rule"].strip(), given.get("where") or {})
        found = _RULE.fullmatch(text)
        bound = None if found is None else number_in(found["bound"])
        if found is None or bound is None:
            raise ArgumentError(
                f"invalid rule {text!r} (`rules`); examples of rules: 'ndcg@10 >= 0.4', "
                "'low(ndcg@10) >= 0.38', 'difference(ndcg@10) >= -1% where(country=US)', "
                "'not difference(ndcg@10) < -0.01' or 'queries >= 1000'"
            )
        # The name of a metric may have parameters, as in "ndcg(gain='exp2')@10".
        whole = found["subject"].strip()
        metric, column = (whole, "mean") if whole not in COLUMNS else (None, whole)
        if found["column"] in COLUMNS:
            metric, column = found["name"], found["column"]
        if found["percent"]:
            if column not in _RELATIVE:
                raise ArgumentError(
                    f"the rule {text!r} (`rules`) has a percentage, which is a share of the "
                    "baseline's mean: write it for a difference, e.g. 'difference(ndcg@10) >= -1%'"
                )
            column, bound = _RELATIVE[column], bound / 100
        sign, is_guard = found["sign"], found["guard"] is not None
        rule = cls(metric, _OPPOSITE[sign] if is_guard else sign, bound, column, where, is_guard)
        object.__setattr__(rule, "_text", text)
        return rule

    @property
    def condition(self) -> str:
        """The rule as text, without the rows that it is about."""
        if self._text:
            return self._text
        name, bound = self.column, repr(self.bound + 0.0).removesuffix(".0")
        percent = f"{100 * self.bound + 0.0:.12g}"
        if name == "relative_difference" and float(percent) / 100 == self.bound:
            name, bound = "difference", f"{percent}%"
        if self.metric is not None:
            name = self.metric if name == "mean" else f"{name}({self.metric})"
        sign = _OPPOSITE[self.sign] if self.is_guard else self.sign
        return f"{'not ' * self.is_guard}{name} {sign} {bound}"

    def __str__(self) -> str:
        texts = {name: text_of(value) for name, value in self.where.items()}
        pairs = [f'{n}="{text}"' if "," in text else f"{n}={text}" for n, text in texts.items()]
        return f"{self.condition} where({', '.join(pairs)})" if pairs else self.condition

    def is_about(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has the metric, and the groups or the slice, of the rule."""
        if self.metric not in (None, row["metric"]):
            return False
        row = {**row, str(row.get("slice")): row.get("value")} if self.where else row
        return all(name in row and _is_equal(row[name], each) for name, each in self.where.items())

    def interval(self, row: Mapping[str, Any]) -> tuple[float | None, float | None]:
        """Return the interval that decides: that of the row; a count or a bound is its own."""
        low, high = COLUMNS[self.column].bounds or (self.column, self.column)
        return row.get(low), row.get(high)

    def decide(self, row: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the verdict on a row, and that of `compare` or why there is no number.

        It is "pass" if the rule holds for the whole interval of the row, "fail" if for no part.
        Otherwise, and without an interval, it is "undecided". A guard passes then, and so does a
        rule without `where` in a slice.
        """
        if not row["queries"]:
            return "fail", "no queries"
        kind, is_unknown = COLUMNS[self.column].kind, row[self.column] is None
        is_share = self.column == "relative_difference"  # of a mean that may be 0
        if is_unknown and kind != BOUND and not is_share:
            return "fail", "the value is null"
        ends = [each for each in self.interval(row) if each is not None]
        kept = {_COMPARED[self.sign](each, self.bound) for each in ends if len(ends) == 2}
        is_guard = self.is_guard or (row.get("slice") is not None and not self.where)
        verdict = "pass" if is_guard else "undecided"
        if len(kept) == 1:
            verdict = "pass" if True in kept else "fail"
        if is_share and is_unknown:
            return verdict, "the baseline's mean is 0"
        if not kept:
            return verdict, "too few"
        if "difference" not in row:
            return verdict, "unclear" if len(kept) > 1 else None
        if row["difference"] == 0 and not row.get("wins") and not row.get("losses"):
            return verdict, f"equal in all {number_of(row['queries'], 'query', 'queries')}"
        return verdict, None if kind == COUNT else row.get("verdict")


def _restricted(text: str, where: Any) -> tuple[str, Any]:
    """Return a rule without its `where(...)`, and the columns and values of either `where`."""
    if found := _WHERE.fullmatch(text):
        text = found["rule"].strip()
        every = re.findall(_PAIR, found["pairs"])
        pairs = {n.strip(): v.strip() for n, v in every}
        if len(pairs) < len(every):
            raise ArgumentError(f"the rule {short(text)} (`rules`) names a column of `where` twice")
        own = {n: None if v == "null" else v.strip('"') for n, v in pairs.items()}
        where = {**own, **where}
    return text, where


def read_rules(rules: Rules, undecided: str | None = None) -> tuple[list[Rule], str]:
    """Return the rules of a list or file, and the verdict for undecided ones."""
    if isinstance(rules, (str, PathLike)):
        content = read_toml(rules, "rules")
        if {*content} - {"rules", "undecided"} or not isinstance(content.get("rules"), list):
            expected = "must have [[rules]] and optionally `undecided`"
            raise ArgumentError(f"{fspath(rules)!r} {expected}; found {sorted(content)}")
        rules = cast("Rules", content["rules"])
        undecided = content.get("undecided") if undecided is None else undecided
    undecided = "fail" if undecided is None else undecided
    one_of("undecided", undecided, ("pass", "fail"))
    if not isinstance(rules, Sequence):
        raise ArgumentError(f"must be a list or the path of a file; found {short(rules)}", "rules")
    read = [Rule.read(each) for each in rules]
    for each in map(str, read):
        if not is_utf8(each):
            raise ArgumentError(f"the rule {each!a} (`rules`) is not valid Unicode")
    if not read:
        raise ArgumentError("is empty; pass at least one rule", "rules")
    return read, undecided


def text_of(value: Any) -> str:
    """Return a value of a row as text; the text "null" is in quotes, null is not."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return '"null"' if value == "null" else str(value)


def _is_equal(value: Any, named: Any) -> bool:
    """Return whether a row has a value that a rule names, also as text."""
    if named is None or value is None:
        return value is None and named in (None, "null")  # TOML has no null
    if isinstance(value, bool) or isinstance(named, bool):
        return str(value).lower() == str(named).lower()
    numbers = [number_in(str(each)) for each in (value, named)]
    is_number = None not in numbers and not (isinstance(value, str) and isinstance(named, str))
    return numbers[0] == numbers[1] if is_number else str(value) == str(named)
