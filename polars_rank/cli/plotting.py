"""The commands `plot`: charts of logs, per-query values and results of other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_rank.cli.messages import misused, say
from polars_rank.cli.options import public
from polars_rank.columns import Columns
from polars_rank.frames.tables import schema_of
from polars_rank.io.outputs import new_file
from polars_rank.plot.drawing import styled

if TYPE_CHECKING:
    from polars_rank.cli.calls import Call

#: Supported endings of --output.
_ENDINGS = (".png", ".svg", ".html", ".json")
#: Colors of the background, without and with --dark.
_BACKGROUND = {False: "white", True: "#16181d"}
#: Charts that also draw results of other commands, and columns of these results.
_RESULTS = {
    "plot.at_k": ("k", "queries"),
    "plot.pr_curve": ("threshold", "precision", "recall"),
    "plot.answerability": ("threshold", "false_answers", "auroc"),
    "plot.bounds": ("metric", "tied_rankings"),
    "plot.intervals": ("metric", "low", "high"),
    "plot.slices": ("contribution", "low", "high"),
    "plot.over_time": ("metric", "low", "high"),
    "plot.leaderboard": ("metric", "rank_low", "best"),
}


def plot(call: Call) -> None:
    """Draw a chart, and write it to a file."""
    output, is_dark = call.given["output"], call.given.get("dark", False)
    ending = output.suffix.lower()
    if ending not in _ENDINGS:
        misused(f"--output must end in {', '.join(_ENDINGS)}; found '{output}'")
    picture = _drawn(call)
    with new_file(output, overwrite=call.given.get("overwrite", False)) as part:
        scale = {"scale_factor": 2} if ending == ".png" else {}
        picture = styled(picture, dark=is_dark).properties(background=_BACKGROUND[is_dark])
        picture.save(str(part), format=ending[1:], **scale)
    say(f"Wrote {output}")


def _drawn(call: Call) -> Any:
    """Return the chart of a log, of per-query values, or of the result of another command."""
    function = call.command.function
    table = call.input()
    schema = schema_of(table)
    columns = _RESULTS.get(function, ())
    if columns and {*columns} <= {*schema}:
        return call.call(table, run=Columns.find(schema, {"run": call.run}).run)
    if function == "plot.fusion":
        rows = call.scan()
        options = call.arguments("tune_fusion")
        tuning, curve = (
            public("tune_fusion")(rows, **options, curve=each) for each in (False, True)
        )
        return call.call(curve, tuning=tuning)
    if call.command.reads == "log" and call.command.also:
        (name,) = call.command.also
        if function == "plot.bounds" and call.given.get("of", "ties") == "ties":
            name = "diagnostics.tie_bands"
        result = public(name)(call.scan(), **call.arguments(name))
        every = {"metrics": None} if function == "plot.bounds" else {}
        return call.call(
            result, run=Columns.find(schema_of(result), {"run": call.run}).run, **every
        )
    if call.command.reads == "log":
        rows = call.scan()
        return call.call(rows, **call.baseline(schema_of(rows)))
    if not call.command.also:
        values, arguments = call.values(function)
        return call.call(values, **arguments)
    return _of_statistics(call, schema)


def _of_statistics(call: Call, schema: Any) -> Any:
    """Return the chart of the result of a statistic, which is computed from the input."""
    chart, (statistic,) = call.command.function, call.command.also
    if chart == "plot.intervals" and "baseline" not in call.given:
        statistic = "summarize"
    if chart == "plot.slices" and not {"slices", "baseline"} <= {*call.given}:
        misused("name the columns of slices with --slices, and the other run with --baseline")
    by = []
    if chart == "plot.over_time":
        by = [call.given.get("time", "day")]
        if by[0] not in schema:
            misused(f"column {by[0]!r} (--time) not found; available: {', '.join(schema)}")
    values, arguments = call.values(statistic, by=by)
    result = public(statistic)(values, **{**arguments, "details": True})
    drawn = call.arguments(chart)
    for name in ("metrics", "baseline") if chart == "plot.intervals" else ():
        drawn.pop(name, None)
    return public(chart)(result, **{**drawn, "run": arguments["run"]})
