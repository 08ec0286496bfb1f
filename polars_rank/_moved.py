"""Names that moved, and what to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

_RECIPE = "a few lines of Altair, in the gallery of the guide"
#: What to use instead of a name, by module.
MOVED: dict[str, dict[str, str]] = {
    "": {
        "fusion_curve": "pr.tune_fusion(..., curve=True)",
        "slices": "pr.compare(values, slices=...)",
    },
    "catalog": {"merge": "pr.merge"},
    "clicks": {
        "clicked": "pr.clicks.labels(log, 'clicked')",
        "satisfied": "pr.clicks.labels(log, 'satisfied')",
        "graded": "pr.clicks.labels(log, 'graded')",
        "graded_dwell": "pr.clicks.labels(log, 'dwell')",
        "last_click": "pr.clicks.preferences(log, 'last')",
        "skip_above": "pr.clicks.preferences(log)",
    },
    "diagnostics": {
        "rbo": "pr.diagnostics.overlap(a, b, 'rbo')",
        "churn": "pr.diagnostics.overlap(log, measure='churn', baseline=...)",
    },
    "judges": {"plan": "pr.power(values, predictions=..., n=...)"},
    "plot": dict.fromkeys(
        ("gain", "interpolated", "run_colors", "scatter", "style", "tradeoff"), _RECIPE
    ),
    "stats": {
        "compare_all": "pr.compare(values)",
        "scan_moments": "pl.scan_parquet",
        "write_moments": "moments.write_parquet(path)",
        **{name: f"pr.{name}" for name in ("leaderboard", "merge", "power")},
    },
    "trec": {"scan_run": "pr.scan_run", "scan_qrels": "pr.scan_judgments"},
}


def missing(module: str) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module, whose error says where a name moved."""

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        instead = MOVED[module].get(name)
        raise AttributeError(
            f"module 'polars_rank.{module}' has no attribute {name!r}"
            + (f"; use {instead}" if instead else "")
        )

    return __getattr__
