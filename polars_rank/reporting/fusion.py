"""The tuning of a fusion of the runs, with its mean on held-out queries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import ArgumentError, DataError, hint
from polars_rank.frames.tables import collected
from polars_rank.fusion.procedures import PROCEDURE, TUNED
from polars_rank.fusion.tuning import fusion_curve, tune_fusion
from polars_rank.metrics.names import direction_note, lower_is_better, output_name
from polars_rank.plot.fusion_curves import names_that_differ, parameters_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.reporting.question import Question

#: The parameter that names the run of the log that is a fusion, and its default, as in `fuse`.
_NAME, _FUSED = "name", "fused"
#: Parameters of a fusion: those of `tune_fusion` that do not depend on the log and its metrics.
_PARAMETERS = (
    *("candidates", "method", "k", "normalize", "missing", "constant", "gamma", "phi", "ddof"),
    *("window", "engine", "ties", "folds", "max_candidates", "seed", "memory", _NAME),
)
#: Parameters of a report that are parameters of `tune_fusion`, too.
_DEFINITIONS = ("rel", "unjudged", "query_set", "conventions", "ties")


@dataclass(frozen=True)
class Fusion:
    """The tuning of a fusion."""

    #: The results of `tune_fusion` and of `fusion_curve`.
    tuning: pl.DataFrame
    curve: pl.DataFrame
    #: The run of the log that is a fusion of the others; None without one.
    fused: str | None


def fusion_plans(
    log: pl.LazyFrame, metric: Any, given: Mapping[str, Any], *, run: str, **options: Any
) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Return the plans of `tune_fusion` and `fusion_curve` for the runs of a log.

    `given` are the parameters of the fusion that a user passes. A run that is a fusion of the
    others is left out.
    """
    parameters = _parameters(given)
    fused = str(parameters.pop(_NAME))
    rows = log.filter(pl.col(run).cast(pl.String).ne_missing(fused))
    options |= {"run": run, **parameters}
    try:
        return tune_fusion(rows, metric, **options), fusion_curve(rows, metric, **options)
    except ArgumentError as error:
        raise ArgumentError(f"`fusion`: {error}") from None


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a fusion; raise `ArgumentError` for unknown ones."""
    if "weights" in given:
        raise ArgumentError(
            "`fusion` has `weights`, which are what is tuned; omit them, or list dictionaries "
            "with weights to choose from in `candidates`"
        )
    for name in given:
        if name not in _PARAMETERS:
            raise ArgumentError(
                f"`fusion` has the unknown parameter {name!r}; available: "
                f"{', '.join(_PARAMETERS)}.{hint(str(name), _PARAMETERS)}"
            )
    return {_NAME: _FUSED, **given}


def check_fusion(question: Question) -> None:
    """Raise `ArgumentError` if the parameters of a fusion are invalid."""
    if question.fusion is None:
        return
    if question.run is None:
        raise ArgumentError("`fusion` needs a column of runs; set `run`")
    for name, value in (
        ("weight", question.weight), ("predicted_label", question.predicted_label)
    ):  # fmt: skip
        if value is not None:
            raise ArgumentError(f"`fusion` does not support `{name}`; omit one of them")
    _plans(question, question.cluster)


def fusion_of(question: Question, runs: Sequence[Any], cluster: Sequence[str]) -> Fusion | None:
    """Return the tuning of a fusion of the runs, if there are parameters for it."""
    if question.fusion is None:
        return None
    name = str(question.fusion.get(_NAME, _FUSED))
    has_fused = name in map(str, runs)
    if _NAME in question.fusion and not has_fused:
        raise DataError(
            f"run {name!r} (`name` of `fusion`) not found in column {question.run!r}; available: "
            f"{', '.join(map(repr, runs))}"
        )
    tuning, curve = map(collected, _plans(question, cluster))
    return Fusion(tuning, curve, name if has_fused else None)


def _plans(question: Question, cluster: Sequence[str]) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Return the plans of `tune_fusion` and `fusion_curve`, over all groups."""
    columns, log, query = question.columns, question.log, [*question.columns.query]
    if question.by:  # a struct, because groups may be null and queries may not
        groups = ", ".join(question.by)
        while groups in columns.schema:
            groups += "_"
        log = log.with_columns(pl.struct(question.by).alias(groups))
        query = [groups, *query]
    return fusion_plans(
        log, question.first, question.fusion or {}, run=str(question.run), query=query,
        doc=columns.doc, score=columns.score, label=columns.label, cluster=[*cluster] or None,
        confidence=question.confidence, undefined=question.undefined_of(question.first),
        **{name: question.options.get(name) for name in _DEFINITIONS},
    )  # fmt: skip


def fusion_context(fusion: Fusion | None, question: Question) -> dict[str, Any]:
    """Return the template variables about a fusion."""
    if fusion is None:
        return {"fusion": None}
    lower = lower_is_better(question.first)
    table = fusion.tuning.iter_rows(named=True)
    rows = [{**row, "verdict": _verdict(row, lower=lower)} for row in table]
    tuned = next(row for row in rows if row[PROCEDURE] == TUNED)
    singles = [row for row in rows if row["parameters"] is None]
    best = min(
        (row for row in singles if row["difference"] is None and row["mean"] is not None),
        key=lambda row: row["mean"] if lower else -row["mean"],
    )
    candidates = [json.loads(each) for each in fusion.curve.get_column("parameters")]
    varied = names_that_differ(candidates)
    weights = json.loads(tuned["parameters"]).get("weights", {})
    return {
        "fusion": {
            "metric": output_name(question.first),
            "direction": direction_note(question.first),
            "rows": rows,
            "tuned": tuned,
            "best": best[PROCEDURE],
            "varied": _varied(varied, [row[PROCEDURE] for row in singles]),
            "candidates": len(candidates),
            "fixed": _text({n: each for n, each in candidates[0].items() if n not in varied}),
            "chosen": _chosen(tuned["parameters"], varied),
            "folds": len(tuned["by_fold"]),
            "by_fold": Counter(_chosen(each, varied) for each in tuned["by_fold"]).most_common(),
            "without_weight": [run for run, weight in weights.items() if not weight],
        }
    }


def _verdict(row: Mapping[str, Any], *, lower: bool) -> str:
    """Return the verdict of `compare` on the difference of a procedure."""
    low, high = row["difference_low"], row["difference_high"]
    if low is None:
        return "too few"
    if low <= 0 <= high:
        return "unclear"
    return "better" if (low > 0) is not lower else "worse"


def fusion_alerts(fusion: Fusion | None) -> list[str]:
    """Return a warning about values of a fused run on queries on which it may have been tuned."""
    if fusion is None or fusion.fused is None:
        return []
    text = (
        f"The values of the run {fusion.fused} are over all queries. If its parameters were chosen "
        "on these queries, its mean is too high; the section Fusion has the mean on held-out "
        "queries."
    )
    return [text]


def _varied(names: Sequence[str], runs: Sequence[str]) -> str:
    """Return the parameters by which candidates differ, as text."""
    return ", ".join(f"weights of {', '.join(runs)}" if n == "weights" else n for n in names)


def _chosen(parameters: str, varied: Sequence[str]) -> str:
    """Return the chosen values of the parameters by which candidates differ, as text."""
    given = json.loads(parameters)
    return _text({name: given[name] for name in varied if name in given})


def _text(parameters: Mapping[str, Any]) -> str:
    return parameters_text(parameters) or "defaults"
