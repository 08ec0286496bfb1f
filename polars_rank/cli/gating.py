"""The commands `gate` and `init`: rules about a retriever in continuous integration."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polars_rank.cli import FAILED
from polars_rank.cli.messages import misused, say, show
from polars_rank.cli.options import conventions_of, public
from polars_rank.cli.special import reports
from polars_rank.errors import short
from polars_rank.io.files import read_toml
from polars_rank.io.outputs import new_file

if TYPE_CHECKING:
    from polars_rank.cli.calls import Call

#: The default files of rules and of the baseline.
_RULES, _BASELINE = "polars-rank.toml", "baseline.jsonl"
#: The files of `init`, by their names as templates.
_FILES = {
    "golden.jsonl": "golden.jsonl", "results.jsonl": "results.jsonl", "rules.toml": _RULES,
    "workflow.yml": ".github/workflows/retrieval.yml",
    "action.yml": ".github/actions/gate/action.yml",
}  # fmt: skip


def gate(call: Call) -> None:
    """Check the results of a retriever, and exit with 1 if a rule fails."""
    # Matrices are small: further threads of NumPy would only wait, and use the processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    given = call.given
    rules, read = _config(given.get("rules"))
    options = {**rules, **call.arguments("gate")}
    results, updates = options.pop("results"), given.get("update_baseline", False)
    if "accept_loss" in given and not updates:
        misused("--accept-loss needs --update-baseline")
    path = Path(options.pop("baseline", _BASELINE))
    if not path.exists() and "baseline" in given and not updates:
        misused(f"the baseline '{path}' does not exist; write it with --update-baseline")
    reported = ("junit", "markdown", "json")
    outputs: dict[str, Path] = {name: given[name] for name in reported if name in given}
    written = {**outputs, "baseline": path} if updates else outputs
    if len({each.resolve() for each in written.values()}) < len(written):
        misused(f"{', '.join(f'--{name}' for name in written)} need different files")
    with reports(call, [path, *read], undecided="pass") as write:
        result = public("gate")(
            given["golden"], results[0] if len(results) == 1 else [*results],
            path if path.exists() else None, **options,
        )  # fmt: skip
        show(str(result))
        write(result.page)
    accepted = given.get("accept_loss")
    if not updates and not path.exists():
        say(f"No baseline '{path}': write it with --update-baseline")
    if updates and (result.passed or accepted):
        result.write_baseline(path, accept_loss=accepted)
        say(f"Wrote {path}")
    elif updates:
        say("The baseline was not written; to accept the loss, add --accept-loss REASON")
    if not result.passed and not (updates and accepted):
        raise click.exceptions.Exit(FAILED)


def _config(path: Path | None) -> tuple[dict[str, Any], list[object]]:
    """Return the table [gate] of a file of rules, and the files that are read.

    Paths in the table are relative to the file.
    """
    if path is None and not Path(_RULES).exists():
        return {}, []
    path = path or Path(_RULES)
    table = read_toml(path, "rules").get("gate")
    if not isinstance(table, dict):
        misused(f"'{path}' must have the table [gate]")
    for name in {"golden", "results"} & {*table}:
        misused(f"{name!r} in '{path}' is an argument of the command; remove it from the table")
    for name in {"baseline", "corpus"} & {*table}:
        if not isinstance(table[name], str) or not table[name]:
            misused(f"{name!r} in '{path}' must be a path; found {short(table[name])}")
        table[name] = path.parent / table[name]
    read = [path, *(table[name] for name in ("corpus", "conventions") if name in table)]
    if isinstance(table.get("conventions"), str):
        table["conventions"] = conventions_of("conventions", table["conventions"])
    return table, read


def init(call: Call) -> None:
    """Write an example of each file; existing files are kept."""
    folder: Path = call.given.get("folder", Path())
    for template, name in _FILES.items():
        path = folder / name
        if path.is_file():
            show(f"Kept   {path}")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        text = files("polars_rank.cli").joinpath("templates", template).read_text("utf-8")
        with new_file(path) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
        show(f"Wrote  {path}")
    show(files("polars_rank.cli").joinpath("templates", "next.txt").read_text("utf-8").rstrip())
