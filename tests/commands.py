"""Commands of polars-rank, run in the process of the tests."""

from __future__ import annotations

from typing import Any

import needs

testing = needs.package("click.testing", "cli")

from polars_rank.cli.commands import app  # noqa: E402


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
