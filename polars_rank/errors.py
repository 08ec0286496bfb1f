"""The errors of polars_rank: one family, so that one `except` catches them all."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = [
    "ArgumentError",
    "DataError",
    "GateFailed",
    "MissingExtraError",
    "RankError",
    "RankWarning",
    "SchemaError",
    "SourceError",
]


class RankError(ValueError):
    """Any error that polars_rank raises on purpose."""

    def __init__(self, message: str, *parameters: str) -> None:
        super().__init__(message)
        #: The parameters at fault, which the message names in backticks.
        self.parameters = parameters


class ArgumentError(RankError):
    """A parameter has a value that it cannot have."""


class SchemaError(RankError):
    """A column is missing, is there twice, or has a type that does not fit."""


@dataclass(frozen=True)
class Finding:
    """What is wrong with how many rows, and one of them; of parts of a table they add up."""

    problem: str
    count: int
    example: Mapping[str, object]
    #: How many rows there are, where that is said.
    rows: int | None = None
    #: The parameters that the problem names in backticks.
    parameters: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = "" if self.rows is None else f"{self.count:,} of "
        rows = number_of(self.count if self.rows is None else self.rows, "row")
        return f"{of}{rows}: {self.problem}; e.g. {self.example}"


class DataError(RankError):
    """Rows hold values that cannot be evaluated: NaN, null queries, duplicates."""

    def __init__(
        self,
        message: str,
        *parameters: str,
        details: Callable[[], Sequence[Finding]] | None = None,
    ) -> None:
        super().__init__(message, *parameters)
        self._details = details
        #: What was found, once the error is explained.
        self.findings: Sequence[Finding] = ()

    def explained(self) -> DataError:
        """Return the error with counts and a row, for which the log is read again."""
        findings = [] if self._details is None else self._details()
        return DataError.of(findings) if findings else self

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> DataError:
        """Return the error that tells all findings."""
        parameters = dict.fromkeys(name for each in findings for name in each.parameters)
        error = cls("\n".join(map(str, findings)), *parameters)
        error.findings = findings
        return error


class SourceError(RankError):
    """A file cannot be read as a log."""


class GateFailed(RankError):  # noqa: N818  (what happened, not an error of the program)
    """Rules are broken; `verdicts` is the table of all of them."""

    def __init__(self, message: str, verdicts: Any) -> None:
        super().__init__(message)
        self.verdicts = verdicts


class RankWarning(UserWarning):
    """Warning about a result that may mislead."""

    def __init__(self, message: str, *parameters: str) -> None:
        super().__init__(message)
        #: The parameters that the message names in backticks.
        self.parameters = parameters


class MissingExtraError(RankError, ImportError):
    """An optional dependency is not installed."""


def missing_extra(extra: str, cause: ImportError) -> MissingExtraError:
    """Return the error that names the extra to install for a failed import."""
    message = (
        f"this needs the package {cause.name!r}, which is not installed; "
        f"install it with: pip install 'polars_rank[{extra}]'"
    )
    return MissingExtraError(message)


def number_of(number: float, noun: str, plural: str | None = None) -> str:
    """Return so many things in words: "1 row", "2,000 rows", "1 query", "2 queries"."""
    return f"{number:,.0f} {noun if number == 1 else plural or noun + 's'}"


def hint(found: str, candidates: Iterable[str]) -> str:
    """Return " Did you mean ...?" for candidates that look like `found`, or nothing."""
    names = sorted(set(candidates))
    folded = {name.lower(): name for name in reversed(names)}
    close = get_close_matches(found.lower(), folded, n=3, cutoff=0.65)
    close = close or [name for name in folded if sorted(name) == sorted(found.lower())]
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(folded[name]) for name in close)}?"


def __dir__() -> list[str]:
    return __all__
