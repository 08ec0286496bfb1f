"""`referee`: the definition behind a metric function, and its defects."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import polars as pl

from polars_rank._params import positive, public
from polars_rank.conformance.cases import CASES, Case
from polars_rank.conformance.fitting import Asked, Fit, copied, same
from polars_rank.conformance.functions import Signature, has_ties, reordered
from polars_rank.conformance.processes import Imported, Local, Process
from polars_rank.conformance.referee_page import KINDS, SCHEMA, Referee, RefereeFinding
from polars_rank.conformance.reference import GRADED, METRICS, RefusedError
from polars_rank.conventions import TREC_EVAL, Conventions, ConventionsLike, named
from polars_rank.definitions import ALTERNATIVES, change_text, words
from polars_rank.errors import ArgumentError, number_of, short
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import find, naming, read

#: What a command is asked with, if its signature is not stated.
_FIELDS = "ids, scores, grades, k"
#: Calls without an answer after which nothing more is asked.
_MAX_LOST = 5
#: Shares of cases that a definition must explain: for no other signature to be tried (and that must
#: have values, for another metric to be named), and for none of several queries; and by how much a
#: less usual signature must be better.
_FITS, _MAY_FIT, _MARGIN = 0.9, 0.75, 0.1
#: Cases with which the signature is guessed.
_TRIED = 12
#: Definitions that are off by one, or the other definition that they are.
_NOTES = {
    ("discount", "jarvelin"): (
        "This is the discount of Järvelin and Kekäläinen (2002), or it is off by one."
    ),
    ("discount", "log2(rank + 2)"): "It is off by one.",
}
#: What differs between texts of the same problem.
_VARIABLE = re.compile(r"'.*'|\".*\"|[\[({].*[\])}]|-?[\d.]+|float ")
#: Kinds of outcomes without an answer, and of the findings about outcomes.
_LOST = ("hang", "exit")
_OUTCOMES = {
    "crash": "crash", "exit": "crash", "hang": "hang", "other": "number", "noise": "number",
}  # fmt: skip


@public
def referee(
    function: Any = None,
    *,
    command: str | Sequence[str] | None = None,
    metric: str | None = None,
    signature: str | None = None,
    expect: ConventionsLike | None = None,
    timeout: float = 10,
) -> Referee:
    """Return which definition a metric function of your own has, and its defects.

    Examples
    --------
    >>> from math import log2
    >>> def ndcg(retrieved, relevant, k):
    ...     hits = [doc in relevant for doc in retrieved[:k]]
    ...     dcg = sum(hit / log2(i + 2) for i, hit in enumerate(hits))
    ...     best = range(min(k, len(relevant)))
    ...     return dcg / sum(1 / log2(i + 2) for i in best)
    >>> result = pr.referee(ndcg)
    >>> result.metric, result.presets[0], result.passed
    ('ndcg@k', 'trec_eval 10', False)
    >>> for text in result.findings["text"][:2]:
    ...     print(text)
    value above 1 for copies
    ZeroDivisionError: float division by zero

    Parameters
    ----------
    function
        Function that returns the value of one query, or its import path, such as "my_eval:ndcg" or
        "my_eval.py:ndcg", which runs in a process of its own.
    command
        Program that answers requests in JSON, instead of `function`.
    metric
        Metric that it should compute, such as "ndcg" or "ndcg@10". Default: by the name of the
        function, or the one that fits best.
    signature
        Arguments, such as "ids, relevant, k". Default: the usual ones are tried.
    expect
        Conventions that it should have. Others are then defects.
    timeout
        Seconds for each answer.

    Returns
    -------
    Referee
        `passed`, `metric`, `definition` (in words), `presets` (which fit best), `findings` (a row
        per defect or convention), and `cases` (a row per case). It prints as a report.

    Raises
    ------
    ArgumentError
        The function cannot be called with any usual signature, or the metric is unknown.
    SourceError
        The function cannot be imported, or the program cannot be run.

    Notes
    -----
    Defects are values outside the range of the metric, crashes, hangs, results that are not
    numbers, values that depend on the order of the input, and values that no single definition
    explains. Conventions are choices that differ from those of trec_eval, or of `expect`.

    An error that the function raises with a message is a refusal, which is a convention, and a
    defect if it refuses most cases. Other errors, such as a division by zero, are crashes. What
    gains of negative labels lead to is a convention, too: tools have no common definition of it.

    A function that is passed as an object is interrupted after `timeout` seconds in the main thread
    on Unix. Elsewhere, in compiled code, and if it catches every exception in a loop, it is not:
    pass its import path. Its process is then killed.
    """
    positive("timeout", timeout)
    if (function is None) == (command is None):
        raise ArgumentError("pass either `function` or `command`")
    is_strict = expect is not None and not (isinstance(expect, dict) and not expect)
    base = named(expect, "expect") if is_strict else TREC_EVAL  # type: ignore[arg-type]
    stated = None if metric is None else _stated(metric, base)
    arguments = None if signature is None else Signature.read(signature)
    if command is not None:
        try:
            program = shlex.split(command) if isinstance(command, str) else [*command]
        except ValueError:  # a quote is not closed
            program = []
        if not program:
            raise ArgumentError(
                f"must be a program with its arguments; found {short(command)}", "command"
            )
        with Process(program, timeout) as process:
            run = _Run(process, arguments or Signature.read(_FIELDS), stated, base)
            if {outcome.kind for _, outcome in run.asked} <= {"refused", "none"}:
                raise ArgumentError(
                    f"returns no numbers: {run.asked[0].outcome.text or 'null'} (sent "
                    f"{run.signature})",
                    "command",
                )
            return run.result(shlex.join(program), is_strict=is_strict)
    if isinstance(function, str):
        if not re.fullmatch(r"[^\0]+:[\w.]+", function):
            raise ArgumentError(
                "must be written like 'my_eval:ndcg', a module and a function; "
                f"found {short(function)}",
                "function",
            )
        with Imported(function, timeout) as imported:
            run = _fitting(imported, arguments, stated, base)
            return run.result(imported.description.name, is_strict=is_strict)
    if not callable(function):
        raise ArgumentError(
            f"must be a function or its import path; found {short(function)}", "function"
        )
    local = Local(function, timeout)
    run = _fitting(local, arguments, stated, base)
    return run.result(local.description.name, is_strict=is_strict)


class _Named(NamedTuple):
    """The name of a metric without its cutoff, and the cutoff."""

    name: str
    k: int | None


def _stated(name: str, base: Conventions) -> _Named:
    """Return the metric of a name; raise an error if the reference does not have it."""
    with naming("metric"):
        found = read(name, base.name)
    if found.parts or found.function.__name__ not in METRICS:
        raise ArgumentError(
            f"must be one of {', '.join(METRICS)}, or one of their other names; "
            f"found {short(name)}",
            "metric",
        )
    k = found.arguments.get("k")
    return _Named(str(found if k is None else found.but(k=None)), k)


def guessed(name: str) -> _Named | None:
    """Return the metric that the name of a function means, such as "compute_ndcg_at_10"."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("avg", "average")
    cutoff = re.search(r"(?:@|_at_|_)?(\d+)$", plain)
    plain = plain[: cutoff.start()] if cutoff else plain
    words = re.sub(r"(_?at_?k|_k|(?<!ran)k|_?at)$", "", plain).split("_")  # but not that of "rank"
    spans = combinations(range(len(words) + 1), 2)
    for first, end in sorted(spans, key=lambda span: span[0] - span[1]):  # the longest first
        name = "_".join(words[first:end])
        function, parameters = find(name) if len(name) > 1 or len(words) == 1 else (None, {})
        if function in METRICS and not parameters:
            return _Named(function, int(cutoff[1]) if cutoff else None)
    return None


def _fitting(
    function: Local | Imported, arguments: Signature | None, stated: _Named | None,
    base: Conventions,
) -> _Run:  # fmt: skip
    """Return the run with the signature for which a definition explains most of a few cases.

    If no signature has different values, return the run of one that has the same value for all
    cases, or no answers.
    """
    description = function.description
    stated = stated or guessed(description.name)
    has_grades = stated is not None and stated.name in GRADED
    usual = (each for each in description.signatures() if not (has_grades and each.has("hits")))
    candidates = usual if arguments is None else (arguments, replace(arguments, arrays=True))
    most, lost, problem = 0.0, 0, ""
    best: Signature | None = None
    other: Signature | None = None
    for signature in candidates:
        of_queries = any(each.bracket for each in signature.arguments)
        if most >= _FITS or lost >= _MAX_LOST or (of_queries and most > _MAY_FIT):
            break
        run = _Run(function, signature, stated, base, is_trial=True)
        lost += run.lost
        values = {each.outcome.value for each in run.asked if each.outcome.kind == "value"}
        other = other or (signature if run.lost or values else None)
        is_read = len(values) > 1 and not run.ignores_labels()
        if is_read and (best is None or run.share > most + _MARGIN):
            best, most = signature, run.share
        problem = problem or f"{run.asked[0].outcome.text or 'None'} (called with {signature})"
    best = best or other
    if best is None:
        call = f"{description.name}({', '.join(description.parameters)})"
        advice = "state `signature`, or " if arguments is None else ""
        raise ArgumentError(
            f"{call} returns no numbers: {problem}; {advice}pass a function that calls "
            "it and returns one number",
            "function",
        )
    return _Run(function, best, stated, base)


class _Run:
    """The cases with the outcomes of a function, and the metric and definition that fit best."""

    def __init__(
        self, function: Local | Process, signature: Signature, stated: _Named | None,
        base: Conventions, *, is_trial: bool = False,
    ) -> None:  # fmt: skip
        self.function, self.signature, self.base = function, signature, base
        self.k = None if stated is None else stated.k
        self.asked: list[Asked] = []
        self.is_trial = is_trial
        # The cases that the signature can express, without repetitions.
        found: dict[str, Case] = {}
        for case in CASES:
            expressed = signature.expressed(case, self.k)
            if expressed is not None:
                found.setdefault(repr(signature.fields(expressed)), expressed)
        self.left_out = len(CASES) - len(found)
        cases = _spread([*found.values()])[:_TRIED] if is_trial else [*found.values()]
        self.lost = 0  # calls without an answer
        for case in cases:
            if self.lost >= (1 if is_trial else _MAX_LOST):
                break
            outcome = function.ask(signature.fields(case), signature)
            self.lost += outcome.kind in _LOST
            self.asked.append(Asked(case, outcome))
        self.untried = len(cases) - len(self.asked)
        names = METRICS if stated is None else (stated.name,)
        self.fits = [Fit(name, self.asked, base, signature) for name in names]

    def ignores_labels(self) -> bool:
        """Return whether a mapping of judgments is read as the set of its ids."""
        return self.signature.has("grades") and all(
            self.function.ask(self.signature.fields(case.unlabeled), self.signature) == outcome
            for case, outcome in self.asked
        )

    @cached_property
    def _best(self) -> tuple[Fit, dict[str, Any]]:
        """The metric that fits best, and its definition."""
        pairs = not self.is_trial and len(self.fits) == 1
        found = [(fit, fit.best(pairs=pairs)) for fit in self.fits]
        fit, choices = max(found, key=lambda each: each[0].score(each[1]))
        return fit, choices if pairs or self.is_trial else fit.best()

    @property
    def fit(self) -> Fit:
        """The metric that fits best."""
        return self._best[0]

    @cached_property
    def choices(self) -> dict[str, Any]:
        """The definition that fits best, without differences from the base that cases contradict.

        A case contradicts a choice if the definition explains it with the choice of the base only.
        """
        fit, choices = self._best
        while contradicted := [
            key for key, other in fit.base.items()
            if choices[key] != other
            and not fit.explained({**choices, key: other}) < fit.explained(choices)
        ]:  # fmt: skip
            choices = {**choices, contradicted[0]: fit.base[contradicted[0]]}
        return choices

    @cached_property
    def _values(self) -> list[int]:
        """The places of cases with a value that definitions explain."""
        return [
            place for place, (case, outcome) in enumerate(self.asked)
            if outcome.kind == "value" and not self._has_penalty(case)
        ]  # fmt: skip

    @cached_property
    def _other(self) -> str | None:
        """Another metric that explains all values, if the stated one does not."""
        asked = [self.asked[place] for place in self._values]
        is_explained = {*self._values} <= self.explained
        if len(self.fits) > 1 or len(asked) < _FITS * len(self.asked) or is_explained:
            return None
        scores = {name: 0.0 for name in METRICS if name != self.fit.function}
        # All metrics with a few values, and those that explain them with all.
        for some in (asked[:: max(len(asked) // _TRIED, 1)], asked):
            fits = [Fit(name, some, self.base, self.signature) for name in scores]
            best = {fit: fit.best(pairs=False) for fit in fits}
            scores = {
                fit.metric: fit.score(choices) for fit, choices in best.items()
                if len(fit.explained(choices)) == len(some)
            }  # fmt: skip
        return max(scores, key=lambda name: scores[name], default=None)

    @cached_property
    def explained(self) -> frozenset[int]:
        """The places of the cases that the definition explains."""
        return self.fit.explained(self.choices)

    @property
    def share(self) -> float:
        """The share of cases that the best definition explains, less if it is a rare one."""
        fit, choices = self._best
        return fit.score(choices) / len(self.asked)

    def result(self, name: str, *, is_strict: bool) -> Referee:
        """Return the findings, sorted by what hurts."""
        severity = "defect" if is_strict else "convention"
        findings = [
            *self._problems(severity), *self._order(), *self._conventions(severity)
        ]  # fmt: skip
        findings.sort(key=lambda each: (each.severity != "defect", [*KINDS].index(each.kind)))
        presets, explained = self.fit.closest()
        own = {
            key: ", or ".join(words(key, value) for value in values)
            for key, each in self.choices.items()
            if each is not None
            and each is not False
            # No other value explains a case that this one does not.
            and not any(
                self.fit.explained({**self.choices, key: other}) - self.explained
                for other in ALTERNATIVES.get(key, ())
            )
            and (values := self.fit.alternatives(self.choices, key))
        }
        return Referee(
            name, self._metric, str(self.signature), own, presets,
            len(self.asked) - len(explained),
            pl.DataFrame(findings, schema=SCHEMA, orient="row"), self._table(), self.left_out,
        )  # fmt: skip

    @property
    def _metric(self) -> str:
        if len(self.fits) > 1 and not self.explained:
            return "unknown metric"
        return self._at_cutoff(self.fit.metric)

    def _at_cutoff(self, metric: str) -> str:
        k = "k" if self.signature.has("k") else self.k
        return metric if k is None else f"{metric}@{k}"

    def _expected(self, place: int, choices: Mapping[str, Any] | None = None) -> float | None:
        found = self.fit.expected(place, choices or self.choices)
        return None if isinstance(found, RefusedError) or not self.explained else found

    def _table(self) -> pl.DataFrame:
        rows = [
            {
                "case": case.name, "outcome": outcome.kind, "given": outcome.value,
                "expected": self._expected(place), "explained": place in self.explained,
                "message": outcome.text,
                "arguments": json.dumps(self.signature.fields(case), ensure_ascii=False),
            }
            for place, (case, outcome) in enumerate(self.asked)
        ]  # fmt: skip
        schema = {"given": pl.Float64, "expected": pl.Float64}
        return pl.DataFrame(rows, schema_overrides=schema)

    def _problems(self, severity: str) -> Iterator[RefereeFinding]:
        """Yield a finding for each problem, with its first case.

        Problems are the same if they differ in numbers, quoted text and brackets only.
        """
        alike: dict[tuple[str, str], list[int]] = {}
        for place in range(len(self.asked)):
            kind, problem, _ = self._problem(place)
            alike.setdefault((kind, _VARIABLE.sub("", problem)), []).append(place)
        refused = sum(len(places) for (kind, _), places in alike.items() if kind == "refusal")
        # A function that refuses most cases is not tested.
        is_tested = 2 * refused <= len(self.asked)
        severities = {"convention": severity, "refusal": "convention" if is_tested else "defect"}
        for (kind, _), places in alike.items():
            if not kind:
                continue
            _, problem, text = self._problem(places[0])
            topics = ", ".join(dict.fromkeys(self.asked[each].case.subject for each in places))
            case, outcome = self.asked[places[0]]
            has_value = outcome.kind == "value" and kind != "range"
            yield RefereeFinding(
                severities.get(kind, "defect"), kind, text.format(problem=problem, topics=topics),
                case.name, len(places), outcome.value,
                self._expected(places[0]) if has_value else None,
            )  # fmt: skip
        if self.untried:
            is_hang = any(outcome.kind == "hang" for _, outcome in self.asked)
            text = (
                f"{number_of(self.untried, 'case')} not tried after {_MAX_LOST} calls without an "
                "answer"
            )
            yield RefereeFinding("defect", "hang" if is_hang else "crash", text, None, self.untried)

    def _problem(self, place: int) -> tuple[str, str, str]:
        """Return the kind of finding for a case, if any, its problem, and the text of the finding.

        The range of a metric holds for labels of 0 or more.
        """
        case, (kind, value, text) = self.asked[place]
        low, high = REGISTER[self.fit.function].low, REGISTER[self.fit.function].high
        if kind in _OUTCOMES:
            return _OUTCOMES[kind], text, "{problem}"
        if value is not None and not self._has_penalty(case):
            if high is not None and value > high and not same(value, high):
                return "range", f"value above {high:g}", "{problem} for {topics}"
            if low is not None and value < low and not same(value, low):
                return "range", f"value below {low:g}", "{problem} for {topics}"
        if place in self.explained:
            return "", "", ""
        if kind == "none":
            return "number", "no value, where the metric has one", "{problem}"
        if kind == "refused":
            return "refusal", text, "refuses {topics}: {problem}"
        if not self._has_penalty(case):
            return "mixture", "", self._mixture
        if self.explained:
            return "convention", "", "negative labels: not by the definition of the other labels"
        return "", "", ""

    @property
    def _mixture(self) -> str:
        """The text of a finding about values that the definition does not explain."""
        if self._other is not None:
            return (
                f"{self._at_cutoff(self._other)} explains the values of all "
                f"{number_of(len(self._values), 'case')}; {self._metric} does not"
            )
        if 2 * len(self.explained) > len(self.asked):
            return "the cases of {topics} follow another definition than the others"
        return "no definition explains the value"

    def _has_penalty(self, case: Case) -> bool:
        """Return whether a label is a negative gain, for which tools have no common definition."""
        return "gain" in self.choices and min(case.judgments.values(), default=0) < 0

    def _order(self) -> Iterator[RefereeFinding]:
        """Yield a finding if values change with the order of the input, or in a second call."""
        texts_of = ("another value in a second call", "the value depends on the order of the input")
        changed: dict[str, list[tuple[str, float | None, float | None]]] = {}
        for case, outcome in self.asked:
            fields = self.signature.fields(case)
            if outcome.kind != "value" or self.lost >= _MAX_LOST:
                continue
            orders = [fields]
            if not copied(case) and not (self.signature.has_order and has_ties(case)):
                orders.append(reordered(fields, self.signature))
            for text, other in zip(texts_of, orders, strict=False):
                again = self.function.ask(other, self.signature)
                self.lost += again.kind in _LOST
                if again.kind != "value" or not same(again.value, outcome.value):
                    changed.setdefault(text, []).append((case.name, outcome.value, again.value))
                    break
        for text, cases in changed.items():
            name, value, other_value = cases[0]
            yield RefereeFinding("defect", "order", text, name, len(cases), value, other_value)

    def _conventions(self, severity: str) -> Iterator[RefereeFinding]:
        for key, own in self.choices.items():
            other = self.fit.base.get(key)
            if own == other:
                continue
            changed = {**self.choices, key: other}
            places = [place for place in self.explained if not self.fit.explains(place, changed)]
            place = min(places)
            text = f"{change_text(key, own)}; in {self.base.name}: {words(key, other)}"
            note = _NOTES.get((key, own), "")
            yield RefereeFinding(
                severity, "convention", f"{text}. {note}" if note else text,
                self.asked[place].case.name, len(places), self.asked[place].outcome.value,
                self._expected(place, changed),
            )  # fmt: skip


def _spread(cases: Sequence[Case]) -> list[Case]:
    """Return cases with the first of each topic first."""
    topics = [case.topic for case in cases]
    numbers = [topics[:place].count(topic) for place, topic in enumerate(topics)]
    return [case for _, case in sorted(zip(numbers, cases, strict=True), key=lambda each: each[0])]
