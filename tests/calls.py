"""A valid call of each public function, made from its signature.

The functions are those of the public snapshot. A new function needs a valid argument for each of
its required parameters in `ARGUMENTS`; unusual values that are valid are in `ALLOWED` and `MORE`.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr

ONE = pl.DataFrame({
    "query": [1, 1, 2, 2, 3, 3], "session": 1, "doc": [1, 2, 1, 2, 1, 3],
    "score": [2.0, 1.0, 1.0, 2.0, 3.0, 1.0], "label": [1, 0, 0, 1, 1, 0],
    "position": [1, 2, 1, 2, 1, 2], "click": [1, 0, 0, 1, 1, 1],
    "dwell": [40.0, None, None, 1.0, 50.0, None], "time": [1, 2, 1, 2, 1, 2],
    "country": ["a", "a", "b", "b", "a", "a"], "propensity": [1.0, 0.5, 1.0, 0.5, 1.0, 0.5],
    "reward": [1, 0, 0, 1, 1, 1], "traffic": [1.0, 1.0, 2.0, 2.0, 1.0, 1.0],
    "group": ["g", "h", "g", "h", "g", "h"],
})  # fmt: skip
LOG = pl.concat(
    ONE.with_columns(score=pl.col("score") * sign, run=pl.lit(run))
    for run, sign in (("a", 1), ("b", -1))
)
VALUES = pr.per_query(LOG, ["ndcg@2", "rr"], by="run", keep=["country", "traffic"])
JUDGMENTS, RANKINGS = ONE.select("query", "doc", "label"), ONE.select("query", "doc", "score")
JUDGED = pl.concat(
    ONE.select("query", "doc", "label", "country", judge=pl.lit(name)) for name in "ab"
)
OF_JUDGES = pl.concat(VALUES.with_columns(judge=pl.lit(name)) for name in "ab")
CHUNKS = RANKINGS.with_columns(start=0, end=10)


@cache
def tables() -> dict[str, Any]:
    """Return results of functions that other functions take as input."""
    needs.package("altair", "plot")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = pr.summarize(VALUES)
        days = VALUES.with_columns(day=pl.lit(date(2026, 1, 1)))
        return {
            "check.result": summary,
            "flat.result": summary,
            "plot.fidelity.table": pr.diagnostics.fidelity(
                RANKINGS, RANKINGS.with_columns(latency=1.0), 1, details=True
            ),
            "plot.bounds.table": pr.diagnostics.tie_bands(LOG, "rr", by="run"),
            "plot.intervals.table": summary,
            "plot.leaderboard.table": pr.leaderboard(VALUES),
            "plot.over_time.table": pr.summarize(days, by="day"),
            "plot.slices.table": pr.compare(
                VALUES, "rr", slices="country", baseline="a", min_queries=1
            ),
            "verdicts": pr.check(summary, ["rr >= 0"], on_fail="return"),
        }


#: Valid arguments of required parameters, and of others that a function needs for a result. The
#: arguments of "function.parameter" come before those of "parameter".
ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("a", "b", "exact", "rankings", "gate.results"), RANKINGS),
    "approximate": RANKINGS,
    **{"baseline": "a", "doc": "doc", "slices": "country", "time": "time"},
    **{"metric": "rr", "metrics": "rr", "name": "rr", "rules": ["rr >= 0"], "runs": ["a", "b"]},
    **{"k": 2, "ks": [1, 2], "lowest": 1, "max_grade": 1, "n_items": 10, "n_sampled": 1},
    **{"labels": [1, 0], "scores": [0.5, 0.2], "value": 0.5, "gains": {0: 0, 1: 1}},
    **{"label": pl.col("label"), "rank": pl.col("rank"), "path": "written", "paths": "log.parquet"},
    **{"frame": ONE, "judgments": JUDGMENTS, "table": VALUES, "values": VALUES},
    **{"gold": CHUNKS.drop("score"), "history": pl.DataFrame({"query": [1], "doc": [2]})},
    "catalog.sampled.metrics": "ndcg@2",
    "clicks.labels.log": ONE.drop("label"),
    **dict.fromkeys(("diagnostics.movers.frame", "diagnostics.robustness.frame"), LOG),
    "diagnostics.stages.frame": ONE.with_columns(stage=1),
    "explain_difference.a": "trec_eval",
    "explain_difference.b": "sklearn",
    "from_dicts.judgments": {"q": {"d": 1}},
    "from_dicts.rankings": {"q": {"d": 1.0}},
    **dict.fromkeys(("fuse.log", "tune_fusion.log", "report.log"), LOG),
    "from_lists.frame": pl.DataFrame({"query": [1], "shown": [[1, 2]], "bought": [[1]]}),
    "join_spans.retrieved": CHUNKS,
    **dict.fromkeys(("judges.agreement.judgments", "judges.confusion.judgments"), JUDGED),
    **{f"judges.estimate.{name}": VALUES for name in ("human", "predicted")},
    "judges.system_agreement.reference": "a",
    "judges.system_agreement.values": OF_JUDGES,
    **{"plot.at_k.metric": "ndcg", "rank_curve.metrics": "ndcg"},
    **{"scan_judgments.path": "qrels.txt", "scan_run.path": "run.txt"},
    "training.catboost.groups": [2],
}
#: The same for optional parameters.
OPTIONS: dict[str, dict[str, Any]] = {
    "diagnostics.fidelity": {"k": 1},
    "diagnostics.overlap": {"b": RANKINGS},
    "from_arrays": {"groups": [2]},
    "tune_fusion": {"folds": 2, "step": 0.5},
    "from_lists": {"retrieved": "shown", "relevant": "bought"},
    **{
        f"plot.{name}": {"metric": "rr"}
        for name in ("differences", "distribution", "leaderboard", "over_time")
    },
    "datasets.search_log": {"queries": 2},
    "referee": {"function": lambda ids, relevant: float(bool({*ids} & {*relevant}))},
    **dict.fromkeys(("report", "trec.write_qrels", "trec.write_run"), {"overwrite": True}),
    **dict.fromkeys(("stats.write_junit", "stats.write_markdown"), {"overwrite": True}),
}  # fmt: skip

#: Values of types that most parameters do not accept.
WRONG: dict[str, Any] = {
    "None": None, "-1": -1, "True": True, "''": "", "text": "nothing\0", "bytes": b"x", "[]": [],
    "{}": {}, "nan": math.nan, "huge": 10**400, "[[1]]": [[1]], "lambda": lambda value: value,
    "expression": pl.col("nothing"), "surrogate": "a\udcff",
}  # fmt: skip
#: Values with the same meaning as the default None, if they are valid.
EMPTY = ("[]", "{}")
#: The values that a part of an annotation may accept.
ALLOWED = {
    "None": "None", "bool": "True", "pl.Expr": "expression", "Discount": "lambda",
    "Gain": "lambda", "Names": "[]", "Sequence": "[]", "Mapping": "{}", "FieldNames": "{}",
    "ConventionsLike": "{}",
}  # fmt: skip
#: Other values that a parameter, or one of a function, may allow. A string names a column of a
#: table that the function does not have, or one that is not read.
MORE = {
    **dict.fromkeys(("a", "b", "c", "d", "gain_from", "grade", "lowest", "rel", "single"), "-1"),
    **{"min_grade": "-1", "seed": "-1 huge", "colors": "{}", "from_dicts.judgments": "{}"},
    **{"fuse.name": "'' text", "identify.value": "-1 huge surrogate", "referee.function": "lambda"},
    **{"define_metric.low": "-1", "define_metric.high": "-1", "report.title": "'' text"},
    **{"training.catboost.groups": "[[1]]", "gate.corpus": "surrogate"},
    "gate.baseline": "surrogate",
    **dict.fromkeys(("path", "paths"), "surrogate"),
}
#: Parameters of tables whose columns other parameters name.
TABLES = {
    *("a", "approximate", "b", "exact", "frame", "judgments", "log", "pairs"),
    *("rankings", "result", "table", "tables", "values", "verdicts"),
}
#: Parameters that a function passes on under another name.
PASSED_ON = {f"diagnostics.{name}.metric": "metrics" for name in ("movers", "robustness", "stages")}


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions of the snapshot.

    Those of terms take nodes, and those of integrations need other packages.
    """
    snapshot = (Path(__file__).parent / "public_names.txt").read_text("utf-8")
    for name in re.findall(r"^pr\.([\w.]+)\(", snapshot, re.MULTILINE):
        if not name.startswith(("terms.", "integrations.")):
            yield name, attrgetter(name)(pr)
    yield from {"Conventions": pr.Conventions, "Fusion": pr.Fusion}.items()


FUNCTIONS = dict(_functions())


@cache
def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function, except `**options`."""
    described = inspect.signature(function).parameters
    return {name: each for name, each in described.items() if each.kind is not each.VAR_KEYWORD}


def arguments_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return valid arguments of a function."""
    given = dict(OPTIONS.get(name, {}))
    known = {**ARGUMENTS, **tables()}
    for parameter, described in parameters_of(function).items():
        if described.default is described.empty:
            key = f"{name}.{parameter}"
            assert key in known or parameter in known, f"{key} needs a valid argument"
            given[parameter] = known.get(key, known.get(parameter))
    return given


def applied(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Return the result of a function."""
    keywords = dict(arguments)
    positional = [
        keywords.pop(name)
        for name, each in parameters_of(function).items()
        if each.kind is each.POSITIONAL_ONLY and name in keywords
    ]
    return function(*positional, **keywords)


def call(function: Callable[..., Any], arguments: dict[str, Any], engine: str = "auto") -> Any:
    """Return the result of a function: a collected table, a chart as a dictionary, or a value."""
    result = applied(function, arguments)
    if isinstance(result, pl.LazyFrame):
        return result.collect(engine=engine)
    return result.to_dict() if type(result).__module__.startswith("altair") else result


def allowed(name: str, parameter: str, described: inspect.Parameter, has_table: bool) -> set[str]:
    """Return the descriptions of values that a parameter may accept."""
    labels = set(MORE.get(f"{name}.{parameter}", MORE.get(parameter, "")).split())
    if described.default is None:
        labels.add("None")
    annotation = str(described.annotation)
    for part in re.split(r"\[|\]|,|\|", annotation):
        labels |= {*ALLOWED.get(part.strip(), "").split()}
    if not has_table and ("str" in annotation or "Names" in annotation):
        labels |= {"''", "text"}
    return labels | {"surrogate"} if "text" in labels else labels


#: Columns for parameters whose default does not name one.
_COLUMNS = {
    **dict.fromkeys(("by", "cluster", "slices", "keep", "sample", "swap"), "country"),
    "weight": "traffic",
}
#: Parameters with names that do not name columns.
_NO_COLUMNS = ("actions", "event", "metric", "name", "tag", "title", "undecided", "url", "x", "y")
_KINDS = {"str", "str | None", "Names", "Names | None", "Score", "str | pl.Expr"}


def columns_of(name: str, function: Callable[..., Any]) -> dict[str, str]:
    """Return a column of a table for each parameter of a function that names columns."""
    arguments, found = arguments_of(name, function), {}
    for parameter, each in parameters_of(function).items():
        if str(each.annotation) in _KINDS and parameter not in _NO_COLUMNS:
            given = arguments.get(parameter, each.default)
            column = given if isinstance(given, str) else _COLUMNS.get(parameter)
            found[parameter] = column or parameter
    return found


@contextlib.contextmanager
def files(folder: Path) -> Iterator[None]:
    """Write the files that functions read, in a folder that becomes the working directory."""
    needs.package("jinja2", "report")
    with contextlib.chdir(folder):
        ONE.select(pl.all(), pl.all().name.suffix("_2")).write_parquet("log.parquet")
        Path("run.txt").write_text("1 Q0 d 1 0.5 tag\n", "utf-8")
        Path("qrels.txt").write_text("1 0 d 1\n", "utf-8")
        yield
