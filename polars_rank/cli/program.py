"""The program: its commands with their help, and errors about usage."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from itertools import chain
from operator import itemgetter
from typing import Any

import click

from polars_rank.cli import BROKEN_PIPE, MISUSED
from polars_rank.cli.calls import Call
from polars_rank.cli.commands import EVALUATION, FILES, REPORTS, STATISTICS, Command
from polars_rank.cli.messages import discard_output, exit_code, one_message, printing, say, show
from polars_rank.cli.options import DEFINITIONS, INPUT, OUTPUT, PANELS
from polars_rank.errors import hint

#: The last lines of the help.
_EPILOG = (
    "polars-rank help input and polars-rank help definitions list options of many commands.\n\n"
    "Exit codes: 0 success; 1 a rule of check or gate failed, or referee found a defect; 2 any "
    "other error; 130 Ctrl-C; 141 closed pipe; 143 SIGTERM."
)


_LOG = (
    "LOG is Parquet, CSV, NDJSON or Arrow files, directories, glob patterns or URLs; TREC runs "
    "with --judgments; - for standard input. These options say how it is read."
)
_CHOICES = "These options change definitions of metrics, which differ between tools."
#: Topics of the help: a panel of options, and what they are about, in one line and in the topic.
TOPICS = {
    "input": (INPUT, "formats, judgments and names of columns", _LOG),
    "definitions": (DEFINITIONS, "ties, undefined values and others", _CHOICES),
}


class Leaf(click.Command):
    """A command of the table. It exits with one message if it fails."""

    def __init__(self, name: str, command: Command) -> None:
        super().__init__(
            name, help=command.text, params=command.parameters(),
            no_args_is_help=name not in ("metrics", "demo", "init"),
        )  # fmt: skip
        self.command = command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, and the options by panel: first those of the examples."""
        examples = self.command.examples
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"  $ {ctx.command_path} {example}".rstrip() + "\n")
        words = " ".join(examples).replace("=", " ").split()
        panels: dict[str, list[Any]] = {panel: [] for panel in ("Options", *PANELS)}
        for each in self.get_params(ctx):
            places = [words.index(name) for name in each.opts if name in words]
            panel = "Options" if places else getattr(each, "panel", OUTPUT) or "Options"
            if isinstance(each, click.Option) and (record := each.get_help_record(ctx)):
                panels[panel].append((min(places, default=len(words)), record))
        program = ctx.find_root().command_path
        topics = [
            (panel, f"{about}: {program} help {topic}")
            for topic, (panel, about, _) in TOPICS.items() if panels.pop(panel)
        ]  # fmt: skip
        for panel, options in panels.items():
            if options:
                with formatter.section(panel):
                    ordered = sorted(options, key=itemgetter(0))
                    formatter.write_dl([record for _, record in ordered], col_max=26)
        if topics:
            with formatter.section("More options"):
                formatter.write_dl(topics)

    def invoke(self, ctx: click.Context) -> None:
        """Run the command: call its function with its options, and write the result."""
        command = self.command
        with one_message(ctx):
            call = Call(ctx, command)
            if command.runs:
                module, _, name = command.runs.partition(":")
                import_module(f"polars_rank.cli.{module}").__dict__[name](call)
                return
            if command.reads == "values":
                table, arguments = call.values(command.function)
                result = call.call(table, **arguments)
            elif command.reads:
                rows = call.scan()
                result = call.call(rows, **call.baseline(rows))
            else:
                result = call.call()
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
        return [*self.rows(), "help"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a command."""
        name = cmd_name.replace("_", "-")
        if name == "help":
            topic = click.Argument(["topic"], required=False, metavar="[COMMAND|TOPIC]")
            text = "Show the help of a command, or of a topic: input or definitions."
            return click.Command(name, params=[topic], callback=self.help_of, help=text)
        if name not in self.commands and name in (rows := self.rows()):
            self.commands[name] = Leaf(name, rows[name])
        return self.commands.get(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the first line about each command, by panel."""
        for panel, rows in self.panels.items():
            with formatter.section(panel):
                formatter.write_dl([(name, row.text.split("\n")[0]) for name, row in rows.items()])

    def help_of(self, topic: str | None) -> None:
        """Print the help of the program, of a command, or of a topic."""
        ctx = click.get_current_context().find_root()
        if topic not in TOPICS:
            name, command, _ = self.resolve_command(ctx, [topic]) if topic else ("", self, [])
            sub = click.Context(command, parent=ctx, info_name=name) if topic else ctx
            show(command.get_help(sub))
            return
        panel, _, text = TOPICS[topic]
        formatter = ctx.make_formatter()
        formatter.write_text(text)
        options: dict[Any, Any] = {}
        for each in chain.from_iterable(row.parameters() for row in self.rows().values()):
            if getattr(each, "panel", None) == panel:
                options.setdefault(each.name, each.get_help_record(ctx))
        with formatter.section("Options"):
            formatter.write_dl([*options.values()], col_max=26)
        show(formatter.getvalue().rstrip())

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return a command and its arguments; raise an error that suggests a name."""
        if self.get_command(ctx, name := args[0]) is None and not name.startswith("-"):
            ctx.fail(f"no such command: {name!r}.{hint(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and end the process; return with `standalone_mode=False`."""
        standalone = options.pop("standalone_mode", True)
        options["standalone_mode"] = False
        if not standalone:
            return super().main(*args, **options)
        stdout, code = sys.stdout, MISUSED
        try:
            with printing():  # the help, or the version
                code = super().main(*args, **options)
        except SystemExit as end:  # also for an unknown kind of completion
            code = MISUSED if end.code else 0
            if end.code and sys.stdout is not stdout:  # Click wraps it if a pipe is closed
                discard_output()
                code = BROKEN_PIPE
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = "polars-rank" if context is None else context.command_path
            message = re.sub(r"'-\w' / ", "", error.format_message())
            stop = "" if message.endswith((".", "?")) else "."
            say(f"Error: {message}{stop} Try: {path} --help")
        except BaseException as error:  # noqa: BLE001  (e.g. invalid options in a file)
            code = exit_code(error)
        sys.exit(code)


app: Program = Program(
    {"Evaluation": EVALUATION, "Statistics": STATISTICS, "Reports": REPORTS,
     "Files and fusion": FILES},
    name="polars-rank", help="Evaluate search and recommendation rankings.", epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[click.Option(["--debug"], is_flag=True, help="Show the traceback of an error.")],
)  # fmt: skip
click.version_option(package_name="polars_rank", message="%(version)s")(app)
