"""One function per metric, a file per family."""

from typing import TYPE_CHECKING, Any

from polars_rank.metrics import (
    agreement,
    beyond_accuracy,
    discounted_gain,
    diversity,
    incomplete_judgments,
    pairwise,
    relevance,
    sets,
    subtopics,
    user_models,
)
from polars_rank.metrics.metric import REGISTER, with_help

if TYPE_CHECKING:
    from polars_rank.metrics.agreement import *
    from polars_rank.metrics.beyond_accuracy import *
    from polars_rank.metrics.discounted_gain import *
    from polars_rank.metrics.diversity import *
    from polars_rank.metrics.incomplete_judgments import *
    from polars_rank.metrics.pairwise import *
    from polars_rank.metrics.relevance import *
    from polars_rank.metrics.sets import *
    from polars_rank.metrics.subtopics import *
    from polars_rank.metrics.user_models import *

_FAMILIES = (
    agreement, beyond_accuracy, discounted_gain, diversity, incomplete_judgments, pairwise,
    relevance, sets, subtopics, user_models,
)  # fmt: skip
__all__ = [name for family in _FAMILIES for name in family.__all__]

if not TYPE_CHECKING:  # type checkers know the names from the imports above

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'polars_rank.metrics' has no attribute {name!r}")
        globals()[name] = with_help(REGISTER[name])
        return globals()[name]


def __dir__() -> list[str]:
    return __all__
