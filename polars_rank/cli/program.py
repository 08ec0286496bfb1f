"""The program: its commands with their help, and errors about usage."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from typing import Any

import click

from polars_rank.cli import BROKEN_PIPE, MISUSED
from polars_rank.cli.calls import Call
from polars_rank.cli.commands import EVALUATION, FILES, REPORTS, STATISTICS, Command
from polars_rank.cli.messages import discard_output, exit_code, one_message, printing, say
from polars_rank.cli.options import MAY_BE_EMPTY, OUTPUT, PANELS, Option
from polars_rank.errors import hint
from polars_rank.frames.tables import schema_of

#: The last lines of the help.
_EXIT_CODES = (
    "Exit codes: 0 success; 1 a rule of check or gate failed, or referee found a defect; 2 any "
    "other error; 130 Ctrl-C; 141 closed pipe; 143 SIGTERM."
)


#: What a command reads, in its help.
_READS = (
    "Parquet, CSV, NDJSON or Arrow files, directories, glob patterns or URLs; TREC runs with "
    "--judgments; - for standard input."
)


class Leaf(click.Command):
    """A command of the table. It exits with one message if it fails."""

    def __init__(self, name: str, command: Command) -> None:
        super().__init__(
            name, help=command.text, params=command.parameters(),
            no_args_is_help=name not in ("metrics", "demo", "init"),
        )  # fmt: skip
        self.command = command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, what the command reads, and the options by panel."""
        with formatter.section("Examples"):
            for example in self.command.examples:
                formatter.write(f"  $ {ctx.command_path} {example}".rstrip() + "\n")
        if self.command.reads:
            values = "Log or per-query values. " if self.command.reads == "values" else ""
            with formatter.section("Input files"):
                formatter.write_dl([("LOG", values + _READS)], col_max=26)
        for panel in (None, *PANELS):
            options = [
                each.get_help_record(ctx) for each in self.get_params(ctx)
                if isinstance(each, click.Option) and getattr(each, "panel", OUTPUT) == panel
            ]  # fmt: skip
            if options:
                with formatter.section(panel or "Options"):
                    formatter.write_dl([each for each in options if each], col_max=26)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; raise an error for an empty one, which would be ignored."""
        options = {
            name: each
            for each in self.params if isinstance(each, Option) and not each.is_flag
            for name in each.opts
        }  # fmt: skip
        for before, text in pairwise(["", *args]):
            if text and not (text.endswith("=") and text[:-1] in options):
                continue
            name = text[:-1] or before  # of "--by=" or "--by", ""
            if name not in options:
                ctx.fail("an argument is empty; name a file, or omit it")
            if options[name].name not in MAY_BE_EMPTY:
                ctx.fail(f"{name} is empty; give it a value, or omit it")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        """Run the command: call its function with its options, and write the result."""
        command = self.command
        with one_message(ctx):
            call = Call(ctx, command)
            if command.runs:
                module, _, name = command.runs.partition(":")
                import_module(f"polars_rank.cli.{module}").__dict__[name](call)
                return
            if not command.reads:
                result = call.call()
            elif command.reads == "values":
                table, arguments = call.values(command.function)
                result = call.call(table, **arguments)
            else:
                rows = call.rows()
                baseline = {} if call.on_spark else call.baseline(schema_of(rows))
                result = call.call(rows, **baseline)
            call.put(result)


class Program(click.Group):
    """The program, whose commands are rows of tables, which are built when they are used.

    It exits with one message, even if the options cannot be parsed.
    """

    def __init__(self, panels: Mapping[str, Mapping[str, Command]], **options: Any) -> None:
        super().__init__(no_args_is_help=True, **options)
        self.panels = panels

    def rows(self) -> dict[str, Command]:
        """Return the commands by name."""
        return {name: each for rows in self.panels.values() for name, each in rows.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands."""
        return [*self.rows()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command."""
        name = cmd_name.replace("_", "-")
        if name not in self.commands and name in (rows := self.rows()):
            self.commands[name] = Leaf(name, rows[name])
        return self.commands.get(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the first line about each command, by panel."""
        for panel, rows in self.panels.items():
            with formatter.section(panel):
                formatter.write_dl(
                    [(name, each.text.partition("\n")[0]) for name, each in rows.items()]
                )

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return a command and its arguments; raise an error that suggests a name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            close = hint(name, self.list_commands(ctx))
            ctx.fail(f"no such command: {name!r}.{close}")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and end the process; return with `standalone_mode=False`."""
        standalone = options.pop("standalone_mode", True)
        options["standalone_mode"] = False
        if not standalone:
            return super().main(*args, **options)
        stdout = sys.stdout
        try:
            with printing():  # the help, or the version
                code = super().main(*args, **options)
        except SystemExit as end:  # Click wraps standard output if a pipe is closed
            code = end.code
            if code and sys.stdout is not stdout:
                discard_output()
                code = BROKEN_PIPE
            elif code:  # an unknown kind of completion
                code = MISUSED
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = MISUSED
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = "polars-rank" if context is None else context.command_path
            message = re.sub(r"'-\w' / ", "", error.format_message())
            stop = "" if message.endswith((".", "?")) else "."
            say(f"Error: {message}{stop} Try: {path} --help")
            code = MISUSED
        except BaseException as error:  # noqa: BLE001  (e.g. invalid options in a file)
            code = exit_code(error)
        sys.exit(code)


app: Program = Program(
    {"Evaluation": EVALUATION, "Statistics": STATISTICS, "Reports": REPORTS,
     "Files and fusion": FILES},
    name="polars-rank", help="Evaluate search and recommendation rankings.", epilog=_EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[click.Option(["--debug"], is_flag=True, help="Show the traceback of an error.")],
)  # fmt: skip
click.version_option(package_name="polars_rank", message="%(version)s")(app)
