"""The command `referee`: the definition and the defects of a metric function."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from polars_rank.cli import FAILED
from polars_rank.cli.gating import check_outputs
from polars_rank.cli.messages import misused, show
from polars_rank.cli.options import public
from polars_rank.cli.special import report_file

if TYPE_CHECKING:
    from polars_rank.cli.calls import Call


def referee(call: Call) -> None:
    """Show the findings about a function or a program, and exit with 1 if one is a defect."""
    from polars_rank.conformance import verdict_texts as texts  # noqa: PLC0415  (rarely needed)

    given = call.given
    if ("target" in given) == ("command" in given):
        misused("pass either FUNCTION, such as my_eval:ndcg, or --command")
    writers = {"junit": texts.junit, "markdown": texts.markdown, "badge": texts.badge}
    chosen = [name for name in writers if name in given]
    check_outputs({name: given[name] for name in chosen}, [])
    with ExitStack() as stack:
        reports = {name: stack.enter_context(report_file(given[name], call)) for name in chosen}
        result = public("referee")(given.get("target"), **call.arguments("referee"))
        show(str(result))
        for name, report in reports.items():
            report.write_text(writers[name](result), encoding="utf-8")
    if not result.passed:
        raise click.exceptions.Exit(FAILED)
