"""Commands of polars-rank, run in the process of the tests."""

from __future__ import annotations

import io
import re
from typing import Any

import needs
import pytest

testing = needs.package("click.testing", "cli")

from polars_rank.cli.program import app  # noqa: E402


def invoke(*arguments: object, stdin: bytes | None = None, **options: Any) -> testing.Result:
    """Return the result of a command; an exception that it does not catch is raised."""
    words = [str(argument) for argument in arguments]
    result = testing.CliRunner().invoke(app, words, input=stdin, prog_name="polars-rank", **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run(*arguments: object, stdin: bytes | None = None) -> tuple[int, str, str]:
    """Return how a command ends, and what it writes to standard output and error."""
    result = invoke(*arguments, stdin=stdin)
    return result.exit_code, result.stdout, result.stderr


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, *arguments: object) -> str:
    """Return what a command shows on a terminal with these columns."""
    terminal = _Terminal()
    for name, value in {"COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout", terminal)
    with pytest.raises(SystemExit) as end:
        app([*map(str, arguments)], prog_name="polars-rank")
    assert end.value.code in (None, 0, 1)
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
