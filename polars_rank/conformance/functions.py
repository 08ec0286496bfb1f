"""How the metric of a user is called: what a signature can express, and what a call returns."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from dis import opmap
from importlib import import_module
from io import StringIO
from itertools import pairwise, product
from traceback import walk_tb
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

from polars_rank.conformance.cases import Case
from polars_rank.errors import ArgumentError, short

#: What a metric can be called with, for one query.
ROLES = {
    "ids": "list of retrieved ids; the best first, if there are no scores",
    "scores": "list of the scores of `ids`, `labels` or `hits`",
    "labels": "list of the labels of retrieved documents; the best first, if there are no scores",
    "hits": "as `labels`, with 1 for relevant documents and 0 for others",
    "run": "mapping from retrieved ids to scores",
    "relevant": "set of the relevant ids",
    "grades": "mapping from judged ids to labels",
    "k": "cutoff",
}
#: The cutoff of cases that have none, for functions that need one.
_CUTOFF = 10
#: The identifier of the query in mappings of queries.
_QUERY = "q1"

#: Names of parameters: of cutoffs, and parts of names of judgments and of retrieved documents.
_CUTOFFS = re.compile(r"k|n|at|at_k|top_?[kn]|cut_?off|depth|limit|max_?rank|rank_?cutoff")
_JUDGED = re.compile(
    r"true|truth|actual|gold|relevant|target|expected|qrel|judg|grade|label|positive|reference"
    r"|relevance|^rels?$|gt"
)
_RETRIEVED = re.compile(
    r"pred|retrieve|retrieval|rank|score|recommend|^recs?|run|result|response|hits|output|docs|ids"
    r"|items|top"
)

#: Names of parameters that say what they have: ids, or scores by id.
_IDS, _RUN = re.compile(r"ids|docs|items|retrieve|retrieval|recommend"), re.compile(r"runs?")

#: Ways to call a function with judgments and retrieved documents, the first that fits best counts.
_PAIRS = (
    ("grades", "ids"), ("relevant", "ids"), ("grades", "run"), ("labels", "scores"),
    ("relevant", "run"), ("hits", "scores"),
)  # fmt: skip
#: How an argument has the queries: it is of one query, a list of queries, or a mapping of queries.
_BRACKETS = {"": "", "[": "]", "{": "}"}


class Outcome(NamedTuple):
    """What a call returns."""

    #: "value", "none", "refused", "crash", "exit" (of the process), "hang", "other" (which is not a
    #: number), or "noise" (of a process, which is not an answer).
    kind: str
    value: float | None = None
    text: str = ""


class Late(BaseException):
    """A call takes too long. Functions that catch `Exception` do not catch it."""


class Argument(NamedTuple):
    """An argument of a function."""

    role: str
    bracket: str = ""
    #: The parameter, if it is passed by name.
    name: str = ""

    def __str__(self) -> str:
        text = f"{self.bracket}{self.role}{_BRACKETS[self.bracket]}"
        return f"{self.name}={text}" if self.name else text


@dataclass(frozen=True)
class Signature:
    """The arguments of a function, such as "ids, relevant, k" or "[labels], [scores], k=k"."""

    arguments: tuple[Argument, ...]
    #: Whether lists are passed instead of sets, and arrays instead of lists of numbers.
    arrays: bool = False

    @classmethod
    def read(cls, text: str) -> Signature:
        """Return the signature of a text."""
        found = []
        for part in filter(None, map(str.strip, text.split(","))):
            match = re.fullmatch(r"(?:(\w+)=)?([\[{]?)(\w+)([\]}]?)", part)
            name, bracket, role, end = match.groups("") if match else ("", "", "", "")
            if role not in ROLES or _BRACKETS[bracket] != end:
                known = "; ".join(f"{role}: {meaning}" for role, meaning in ROLES.items())
                raise ArgumentError(
                    f"has arguments such as 'ids, relevant, k'; found {short(part)}. "
                    f"Arguments are {known}. [ids] is a list of queries, {{run}} is a mapping",
                    "signature",
                )
            found.append(Argument(role, bracket, name))
        signature = cls(tuple(found))
        is_whole = signature.has("ids", "run") and signature.has("relevant", "grades")
        if not is_whole and not signature.has("labels", "hits"):
            raise ArgumentError(
                "needs retrieved documents (ids or run) and judgments (relevant or "
                f"grades), or labels or hits; found {short(text)}",
                "signature",
            )
        return signature

    def has(self, *roles: str) -> bool:
        """Return whether one of the arguments has one of these roles."""
        return any(each.role in roles for each in self.arguments)

    def __str__(self) -> str:
        return ", ".join(map(str, self.arguments))

    @property
    def has_order(self) -> bool:
        """Whether the function ranks the documents itself."""
        return self.has("scores", "run")

    def expressed(self, case: Case, cutoff: int | None) -> Case | None:
        """Return what the arguments say of a case, or None if they cannot express it."""
        docs, scores = [doc for doc, _ in case.rows], [score for _, score in case.rows]
        rows, judgments = case.rows, case.judgments
        if len({*docs}) < len(docs) and not self.has("ids"):
            return None
        if not self.has_order:
            if len({*scores}) < len(scores):
                return None
            ranked = sorted(rows, key=lambda row: -row[1])
            rows = tuple((doc, float(-rank)) for rank, (doc, _) in enumerate(ranked))
        if self.has("labels"):
            judgments = {doc: judgments.get(doc, 0.0) for doc in docs}
        elif self.has("hits"):
            judgments = {doc: float(judgments.get(doc, 0.0) >= 1) for doc in docs}
        elif not self.has("grades"):
            judgments = {doc: 1.0 for doc, label in judgments.items() if label >= 1}
        k = (case.k or cutoff or _CUTOFF) if self.has("k") else cutoff
        return replace(case, rows=rows, judgments=judgments, k=k)

    def fields(self, case: Case) -> dict[str, Any]:
        """Return the arguments of a case by role, as values of JSON."""
        docs = [doc for doc, _ in case.rows]
        # Some tools accept integers only.
        grades = {doc: int(x) if x == int(x) else x for doc, x in case.judgments.items()}
        every = {
            "ids": docs,
            "scores": [score for _, score in case.rows],
            "labels": [grades.get(doc, 0) for doc in docs],
            "hits": [int(grades.get(doc, 0) >= 1) for doc in docs],
            "run": dict(case.rows),
            "relevant": [doc for doc, label in grades.items() if label >= 1],
            "grades": grades,
            "k": case.k,
        }
        return {role: value for role, value in every.items() if self.has(role)}

    def call(self, function: Callable[..., Any], fields: Mapping[str, Any]) -> Any:
        """Return the result of a function."""
        positional = [self._value(each, fields) for each in self.arguments if not each.name]
        named = {each.name: self._value(each, fields) for each in self.arguments if each.name}
        return function(*positional, **named)

    def _value(self, argument: Argument, fields: Mapping[str, Any]) -> Any:
        value = fields[argument.role]
        if isinstance(value, (list, dict)):
            value = value.copy()  # a function may change its arguments
        if argument.role == "relevant" and not self.arrays:
            value = {*value}
        if argument.bracket:
            value = [value] if argument.bracket == "[" else {_QUERY: value}
        if argument.role in ("labels", "hits", "scores") and self.arrays:
            value = import_module("numpy").array(value)
        return value


class Description(NamedTuple):
    """A function: its parameters, those that it needs, and those that are passed by name."""

    name: str
    parameters: Sequence[str]
    required: Sequence[str]
    keywords: Sequence[str] = ()

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Description:
        """Describe a function; built-in ones may not say what they need."""
        named = getattr(function, "func", function)  # of a partial function
        own: list[inspect.Parameter] = []
        with suppress(TypeError, ValueError):
            every = inspect.signature(function).parameters.values()
            own = [each for each in every if each.kind != each.VAR_KEYWORD]
        required = [
            each.name for each in own
            if each.default is each.empty and each.kind is not each.VAR_POSITIONAL
        ]  # fmt: skip
        keywords = [each.name for each in own if each.kind is each.KEYWORD_ONLY]
        name = getattr(named, "__name__", type(function).__name__)
        return cls(name, [each.name for each in own], required, keywords)

    def signatures(self) -> Iterator[Signature]:
        """Yield the signatures that the names of the parameters allow, the usual ones first."""
        cutoff = next((each for each in self.parameters if _CUTOFFS.fullmatch(each.lower())), None)
        others = [each for each in self.parameters if each != cutoff]
        needed = [each for each in self.required if each != cutoff] or others[:1]
        last = () if cutoff is None else (Argument("k", name=cutoff),)
        first, second = map(str.lower, [*others, "", ""][:2])
        pairs = [("labels",), ("hits",)] if len(needed) == 1 else _pairs(first, second)
        names = [each if each in self.keywords else "" for each in [*others, "", ""]]
        for bracket, pair, arrays in product(_BRACKETS, pairs, (False, True)):
            if arrays and {*pair} <= {"ids", "grades", "run"}:
                continue  # the same lists and mappings
            own = (Argument(role, bracket, name) for role, name in zip(pair, names, strict=False))
            yield Signature((*own, *last), arrays)


def _pairs(first: str, second: str) -> Sequence[tuple[str, ...]]:
    """Return the roles of two parameters in the order of what their names say."""
    is_judged = bool(_JUDGED.search(first)) + bool(_RETRIEVED.search(second))
    is_retrieved = bool(_RETRIEVED.search(first)) + bool(_JUDGED.search(second))
    retrieved = first if is_retrieved > is_judged else second
    kinds = ["ids"] if _IDS.search(retrieved) else ["run"] if _RUN.fullmatch(retrieved) else []
    pairs = [pair for pair in _PAIRS if not kinds or pair[1] in kinds]
    swapped = [pair[::-1] for pair in pairs]
    if is_judged == is_retrieved:
        return [*swapped, *pairs]
    return swapped if is_retrieved > is_judged else pairs


def outcome(call: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of a call. What it prints is discarded, and warnings are."""
    try:
        with redirect_stdout(StringIO()), catch_warnings():
            simplefilter("ignore")
            return call()
    except (KeyboardInterrupt, Late):
        raise
    except BaseException as error:  # noqa: BLE001  (of the user's function)
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        return Outcome(
            "refused" if str(error) and _is_refusal(error) else "crash", text=_line(text)
        )


def _is_refusal(error: BaseException) -> bool:
    """Return whether a function rejects its input by a statement `raise`.

    Other errors happen to it, such as `max([])` or a division by zero.
    """
    if not isinstance(error, Exception) or isinstance(error, (ArithmeticError, LookupError)):
        return False
    *_, (frame, _) = walk_tb(error.__traceback__)
    is_raised = frame.f_code.co_code[frame.f_lasti] == opmap["RAISE_VARARGS"]
    module = str(frame.f_globals.get("__name__"))
    return is_raised and module.partition(".")[0] not in sys.stdlib_module_names


def read_value(result: Any) -> Outcome:
    """Return the outcome for a result: a number, or a mapping or list with one number."""
    while isinstance(result, (Mapping, list, tuple)) and len(result) == 1:
        result = next(iter(result.values() if isinstance(result, Mapping) else result))
    if getattr(result, "shape", None) == (1,):  # an array
        result = result[0]
    is_left_out = isinstance(result, Mapping) and not result  # of a mapping of queries
    if result is None or is_left_out:
        return Outcome("none")
    number = None
    with suppress(Exception):  # an array, or an integer that is too large
        number = float(result) if hasattr(result, "__float__") else None
    if number is None:
        return Outcome("other", text=_line(short(result)))
    return Outcome("value", number) if math.isfinite(number) else Outcome("other", text=str(number))


#: Keys of answers without a value, and the kinds of their outcomes.
ANSWERS = {"error": "refused", "crash": "crash", "other": "other"}


def read_answer(line: bytes, number: int) -> Outcome:
    """Return the outcome for a line of JSON that answers the request with a number."""
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and found.get("id") == number:
            for key, kind in ANSWERS.items():
                if key in found:
                    return Outcome(kind, text=_line(str(found[key])))
            if "value" in found:
                return read_value(found["value"])
    text = line.decode("utf-8", "replace").strip()
    return Outcome("noise", text=f"not an answer: '{_line(text)}'")


def _line(text: str) -> str:
    """Return a text as one short line."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


#: Length of texts of users in reports.
_LONGEST = 120


def reordered(fields: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
    """Return the arguments with documents in another order that should not matter."""
    fixed = ("k",) if signature.has_order else ("k", "ids", "labels", "hits")
    found = dict(fields)
    for role in found.keys() - fixed:
        value = found[role]
        found[role] = dict([*value.items()][::-1]) if isinstance(value, dict) else value[::-1]
    return found


def has_ties(case: Case) -> bool:
    """Return whether documents of a case have one score, also as 32-bit floats."""
    scores = sorted(score for _, score in case.rows)
    return any(math.isclose(low, high, rel_tol=1e-6) for low, high in pairwise(scores))
