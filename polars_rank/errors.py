"""Errors and warnings of polars_rank; `RankError` is the base class of all errors."""

from __future__ import annotations

import copyreg
import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import FrameType

T = TypeVar("T")

__all__ = [
    "ArgumentError", "DataError", "GateFailed", "MissingExtraError", "RankError", "RankWarning",
    "SchemaError", "SourceError",
]  # fmt: skip


#: Length at which values in messages are cut off.
_LONGEST = 200

#: Minimum length of an abbreviation in a hint.
_MIN_ABBREVIATION = 3


class RankError(ValueError):
    """Base class of all errors that polars_rank raises."""

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(f"`{parameter}` {message}" if parameter else message)
        #: The parameter that the message starts with, or an empty string.
        self.parameter = parameter

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to unpickle the error: without its constructor, which may need more."""
        attributes = {name: value for name, value in vars(self).items() if name != "_details"}
        return copyreg.__newobj__, (type(self), *self.args), attributes  # type: ignore[attr-defined]


class ArgumentError(RankError):
    """A parameter has an invalid value."""

    #: The parameters of the function, if it has no parameter of the name that was passed.
    available: Sequence[str] = ()


class SchemaError(RankError):
    """A column is missing, a duplicate, or of the wrong type."""


@dataclass(frozen=True)
class Finding:
    """A problem of rows, the number of rows that have it, and one of these rows."""

    problem: str
    count: int
    example: Mapping[str, object]
    #: Number of rows of the table, if the message states it.
    rows: int | None = None
    #: What is counted.
    unit: str = "row"

    def __str__(self) -> str:
        of = "" if self.rows is None else f"{self.count:,} of "
        rows = number_of(self.count if self.rows is None else self.rows, self.unit)
        return f"{of}{rows}: {self.problem}; e.g. {self.example}"


class DataError(RankError):
    """Rows have invalid values, such as NaN, null queries, or duplicate documents."""

    #: Function that counts the rows; it may read the log, and is not pickled.
    _details: Callable[[], Sequence[Finding]] | None = None

    def __init__(
        self, message: str, *, details: Callable[[], Sequence[Finding]] | None = None
    ) -> None:
        super().__init__(message)
        self._details = details
        #: The problems of rows, if they were counted.
        self.findings: Sequence[Finding] = ()

    def explained(self) -> DataError:
        """Return the error with counts and an example; this reads the log again."""
        findings = [] if self._details is None else self._details()
        return DataError.of(findings) if findings else self

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> DataError:
        """Return the error for all findings."""
        error = cls("\n".join(map(str, findings)))
        error.findings = findings
        return error


class SourceError(RankError):
    """A file, an object store, or another engine cannot be read or written."""


class GateFailed(RankError):  # noqa: N818  (an outcome, not a malfunction)
    """At least one rule failed; `verdicts` is the table of all rules."""

    def __init__(self, message: str, verdicts: Any) -> None:
        super().__init__(message)
        self.verdicts = verdicts


class RankWarning(UserWarning):
    """Warning about a result that may mislead."""


class UnmatchedIds(RankWarning):
    """Ids of rankings and judgments that never match; commands raise it as an error."""


#: The warnings that are recorded in this context, instead of being issued.
RECORD: ContextVar[list[RankWarning] | None] = ContextVar("RECORD", default=None)
#: Whether the plan that is being built in this context may be run for the rows of other tables: it
#: may not if building it warns, or if it remembers what it finds in its table.
REUSABLE = ContextVar("REUSABLE", default=True)


#: Records of blocks that also run plans that were built before them.
_LISTENING: list[list[RankWarning]] = []


@contextmanager
def recorded_warnings(*, of_plans: bool = False) -> Iterator[list[RankWarning]]:
    """Record the warnings of a block, and of the plans that are built in it.

    With `of_plans`, those of plans that were built before are recorded, too.
    """
    record: list[RankWarning] = []
    token = RECORD.set(record)
    if of_plans:
        _LISTENING.append(record)
    try:
        yield record
    finally:
        RECORD.reset(token)
        if of_plans:
            _LISTENING[:] = [each for each in _LISTENING if each is not record]


def warn(message: str, kind: type[RankWarning] = RankWarning) -> None:
    """Issue a `RankWarning` for the line of code that called polars_rank or Polars."""
    REUSABLE.set(False)
    warning()(message, kind)


def warning() -> Callable[..., None]:
    """Return what issues the warnings of a plan that is built in this context.

    Plans run in threads of Polars, which have other contexts.
    """
    return partial(_issue, RECORD.get())


def in_this_context(function: Callable[[], T]) -> Callable[[], T]:
    """Return a function that records warnings as here when Polars calls it in another thread."""
    context = copy_context()
    return lambda: context.copy().run(function)


def _issue(
    record: list[RankWarning] | None, message: str, kind: type[RankWarning] = RankWarning
) -> None:
    """Record a warning, or issue it.

    Python shows equal warnings of a line once. The line is unknown in threads of Polars, which
    collect lazy results. There, every warning is shown; otherwise Python would attribute all of
    them to one line, and show only the first.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package(frame) in ("polars_rank", "polars"):
        frame = frame.f_back
    if record is None:
        record = RECORD.get() if frame is not None else next(iter(_LISTENING), None)
    if record is not None:
        record.append(kind(message))
    elif frame is None:  # without a registry, Python shows every warning
        warnings.warn_explicit(kind(message), None, "sys", 1)
    else:
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        file, line = frame.f_code.co_filename, frame.f_lineno
        warnings.warn_explicit(kind(message), None, file, line, registry=registry)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


class MissingExtraError(RankError, ImportError):
    """An optional dependency is not installed."""


def missing_extra(extra: str, cause: ImportError) -> MissingExtraError:
    """Return the error that names the extra to install for a failed import."""
    return MissingExtraError(
        f"package {cause.name!r} is not installed; "
        f"install it with: pip install 'polars_rank[{extra}]'"
    )


def number_of(number: float, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: "1 row", "2,000 rows", "1 query", "2 queries"."""
    return f"{number:,.0f} {noun if number == 1 else plural or noun + 's'}"


def short(value: object) -> str:
    """Return the representation of a value, shortened; for tables and functions the type."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  (a user's class, or an integer of 5,000 digits)
        text = ""
    if not text or "\n" in text or " at 0x" in text:  # a table, or a function
        return " ".join([type(value).__name__, str(getattr(value, "__name__", ""))]).rstrip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def of_all_runs(table: str, counted: str, runs: Sequence[str], keys: Sequence[str]) -> str:
    """Return code for the rows of a table of queries of which the table `counted` has all runs."""
    run, on = runs[0], keys[0] if len(keys) == 1 else [*keys]
    each = f"pl.col({run!r})" if len(runs) == 1 else f"pl.struct({runs!r})"
    return (
        f"{table}.join({counted}.group_by({on!r}).agg({each}.unique()).filter(pl.col({run!r})"
        f".list.len() == pl.col({run!r}).explode().n_unique()), on={on!r}, how='semi', "
        "nulls_equal=True)"
    )


def hint(name: str, candidates: Iterable[str]) -> str:
    """Return " Did you mean ...?" with the candidates similar to `name`, or an empty string."""
    from difflib import get_close_matches  # noqa: PLC0415  (only errors need it)

    lower = name.lower()
    folded = {each.lower(): each for each in sorted(set(candidates), reverse=True)}
    close = get_close_matches(lower, folded, n=3, cutoff=0.65)
    close = close or [each for each in folded if sorted(each) == sorted(lower)]
    # "diff" for "difference", "query_column" for "query", "fdr_bh" for "bh"
    if len(name) >= _MIN_ABBREVIATION:
        parts = [
            each
            for each in folded
            if each.startswith(lower) or lower.startswith(f"{each}_") or lower.endswith(f"_{each}")
        ]
        close = close or parts[:3]
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(folded[each]) for each in close)}?"


def __dir__() -> list[str]:
    return __all__
