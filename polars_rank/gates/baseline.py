"""The baseline of a gate: a text file of per-query values, which a diff shows line by line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import polars as pl

from polars_rank._pages import FORMAT_VERSION
from polars_rank._params import OWN
from polars_rank.errors import ArgumentError, DataError, SourceError, number_of, short
from polars_rank.gates.golden import Golden, digest
from polars_rank.io.fields import listed
from polars_rank.io.outputs import check_path, new_file

#: The version of the format, and the days after which a baseline is old.
_VERSION, _OLD = 2, 90
#: The first key of a file, with the version of the package that wrote it.
_WRITER = "polars_rank"
#: The column of the fingerprints of labels, because `judged` is a metric.
JUDGED = f"{OWN}judged"


def today() -> date:
    """Return the date in UTC, so that it does not depend on the machine."""
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class Baseline:
    """Per-query values with their first documents, and what they were computed from."""

    #: Columns `query`, `JUDGED` (a fingerprint of the labels), one per metric, and `docs`.
    rows: pl.DataFrame
    definitions: Mapping[str, str]
    golden: str
    corpus: str | None
    repetitions: int
    date: str
    #: The losses that were accepted, with their reasons.
    accepted: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Baseline:
        """Read a file."""
        if not isinstance(path, (str, PathLike)):
            raise ArgumentError(f"must be a path; found {short(path)}", "baseline")
        check_path(fspath(path), "baseline")
        try:
            _check_regular(path)
            # Not `splitlines`, because ids may contain U+2028.
            lines = Path(path).read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"cannot read the baseline '{fspath(path)}': {error}") from error
        parsed = [_parsed(path, number, line) for number, line in enumerate(lines, 1)]
        head, *rows = parsed
        if _WRITER not in head or FORMAT_VERSION not in head:
            raise _invalid(path, f"line 1 has no {_WRITER!r} or no {FORMAT_VERSION!r}")
        version = head[FORMAT_VERSION]
        if type(version) is not int or not 1 <= version <= _VERSION:
            raise DataError(
                f"the baseline '{fspath(path)}' has the {FORMAT_VERSION} {version!r}, and this "
                f"version of polars_rank reads up to {_VERSION}; install a later one with: pip "
                "install --upgrade polars_rank, or write a new baseline with --update-baseline"
            )
        # With its checksum, a file has what `write` writes.
        if head.pop("checksum", None) != _checksum(parsed):
            raise _invalid(path, "it was edited or cut off, as the 'checksum' in line 1 shows")
        schema: dict[str, Any] = {"query": pl.String, JUDGED: pl.String, "docs": pl.List(pl.String)}
        table = pl.DataFrame(
            [{**row, JUDGED: row["judged"], **row["values"]} for row in rows],
            schema | dict.fromkeys(head["metrics"], pl.Float64),
        )
        return cls(
            table, head["metrics"], head["golden"], head["corpus"], head["repetitions"],
            head["date"], head["accepted"],
        )  # fmt: skip

    @property
    def age(self) -> int:
        """The number of days since it was written."""
        return (today() - date.fromisoformat(self.date)).days

    def write(self, path: str | PathLike[str]) -> None:
        """Write a file: a line about all queries, and a line for each."""
        names = [*self.definitions]
        head = {
            _WRITER: sys.modules["polars_rank"].__version__, FORMAT_VERSION: _VERSION,
            "date": self.date, "queries": self.rows.height, "repetitions": self.repetitions,
            "metrics": {**self.definitions}, "golden": self.golden, "corpus": self.corpus,
            "accepted": [*self.accepted],
        }  # fmt: skip
        rows = [
            {
                "query": row["query"], "judged": row[JUDGED],
                "values": {name: row[name] for name in names}, "docs": row["docs"],
            }
            for row in self.rows.sort("query").iter_rows(named=True)
        ]  # fmt: skip
        head["checksum"] = _checksum([head, *rows])
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [head, *rows])
        _check_regular(path)
        with new_file(path, overwrite=True) as part:
            # Reasons of a command line may have bytes that are not UTF-8; JSON escapes them so.
            part.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")

    def compared(self, meanings: Mapping[str, str]) -> list[str]:
        """Return the metrics with the same definition."""
        return [name for name, text in meanings.items() if self.definitions.get(name) == text]

    def common(self, golden: Golden) -> pl.DataFrame:
        """Return the rows of the queries whose labels are the same."""
        return self.rows.join(
            golden.queries, left_on=["query", JUDGED], right_on=["query", "judged"], how="semi"
        )

    def changes(
        self, golden: Golden, corpus: str | None, meanings: Mapping[str, str]
    ) -> Iterable[str]:
        """Yield how the baseline differs from what is compared with it."""
        if self.age > _OLD:
            yield f"the baseline is {self.age} days old; update it with --update-baseline"
        if corpus is not None and self.corpus not in (None, corpus):
            yield "the corpus has changed since the baseline was written"
        others = [name for name in meanings if name not in self.compared(meanings)]
        if others:
            yield f"the baseline lacks {listed(others)} with this definition; it is not compared"
        if self.golden != golden.fingerprint:
            same, both = self.common(golden), golden.queries.join(self.rows, on="query", how="semi")
            parts = {
                "new": golden.queries.join(both, on="query", how="anti")["query"],
                "missing": self.rows.join(both, on="query", how="anti")["query"],
                "with other labels": both.join(same, on="query", how="anti")["query"],
            }
            texts = [f"{len(p):,} {name} ({listed(p, 5)})" for name, p in parts.items() if len(p)]
            common = number_of(same.height, "common query", "common queries")
            yield (
                "the golden file has changed since the baseline was written: queries "
                f"{', '.join(texts)}; {common} are compared"
            )


def _checksum(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return a fingerprint of the lines of a file, of which the first lacks its checksum."""
    return digest(pl.DataFrame({"line": [json.dumps(line) for line in lines]}))


def _check_regular(path: str | PathLike[str]) -> None:
    """Raise `SourceError` for a pipe, which may never end, or a device."""
    if Path(path).exists() and not Path(path).is_file():
        raise SourceError(f"the baseline '{fspath(path)}' is not a regular file; name a file")


def _parsed(path: Any, number: int, line: str) -> dict[str, Any]:
    """Return the object of a line."""
    with suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(line), dict):
            return found
    raise _invalid(path, f"line {number} is not a JSON object: {short(line)}")


def _invalid(path: Any, problem: str) -> DataError:
    return DataError(
        f"'{fspath(path)}' is not a baseline: {problem}; restore it, or delete it "
        "and write a new one with --update-baseline"
    )
