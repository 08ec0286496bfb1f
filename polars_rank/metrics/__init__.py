"""One function per metric, a file per family."""

from typing import TYPE_CHECKING, Any

from polars_rank.metrics import (
    abstention,
    agreement,
    beyond_accuracy,
    cascade_models,
    cumulated,
    discounted_gain,
    diversity,
    incomplete_judgments,
    intent_aware,
    pairwise,
    precision_variants,
    relevance,
    sets,
    subtopic_coverage,
    subtopic_gain,
    user_models,
)
from polars_rank.metrics.metric import REGISTER, with_help

if TYPE_CHECKING:
    from polars_rank.metrics.abstention import *
    from polars_rank.metrics.agreement import *
    from polars_rank.metrics.beyond_accuracy import *
    from polars_rank.metrics.cascade_models import *
    from polars_rank.metrics.cumulated import *
    from polars_rank.metrics.discounted_gain import *
    from polars_rank.metrics.diversity import *
    from polars_rank.metrics.incomplete_judgments import *
    from polars_rank.metrics.intent_aware import *
    from polars_rank.metrics.pairwise import *
    from polars_rank.metrics.precision_variants import *
    from polars_rank.metrics.relevance import *
    from polars_rank.metrics.sets import *
    from polars_rank.metrics.subtopic_coverage import *
    from polars_rank.metrics.subtopic_gain import *
    from polars_rank.metrics.user_models import *

__all__: list[str] = []
__all__ += abstention.__all__
__all__ += agreement.__all__
__all__ += beyond_accuracy.__all__
__all__ += cascade_models.__all__
__all__ += cumulated.__all__
__all__ += diversity.__all__
__all__ += discounted_gain.__all__
__all__ += intent_aware.__all__
__all__ += subtopic_coverage.__all__
__all__ += subtopic_gain.__all__
__all__ += incomplete_judgments.__all__
__all__ += pairwise.__all__
__all__ += precision_variants.__all__
__all__ += relevance.__all__
__all__ += sets.__all__
__all__ += user_models.__all__

if not TYPE_CHECKING:  # type checkers know the names from the imports above

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'polars_rank.metrics' has no attribute {name!r}")
        globals()[name] = with_help(REGISTER[name])
        return globals()[name]


def __dir__() -> list[str]:
    return __all__
