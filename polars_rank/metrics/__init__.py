"""One function per metric, a file per family."""

from polars_rank.metrics import (
    agreement,
    beyond,
    cascade,
    cumulated,
    diversity,
    gains,
    intents,
    judgments,
    pairs,
    points,
    relevance,
    sets,
    shown,
    users,
)
from polars_rank.metrics.agreement import *
from polars_rank.metrics.beyond import *
from polars_rank.metrics.cascade import *
from polars_rank.metrics.cumulated import *
from polars_rank.metrics.diversity import *
from polars_rank.metrics.gains import *
from polars_rank.metrics.intents import *
from polars_rank.metrics.judgments import *
from polars_rank.metrics.pairs import *
from polars_rank.metrics.points import *
from polars_rank.metrics.relevance import *
from polars_rank.metrics.sets import *
from polars_rank.metrics.shown import *
from polars_rank.metrics.users import *

__all__: list[str] = []
__all__ += agreement.__all__
__all__ += beyond.__all__
__all__ += cascade.__all__
__all__ += cumulated.__all__
__all__ += diversity.__all__
__all__ += gains.__all__
__all__ += intents.__all__
__all__ += judgments.__all__
__all__ += pairs.__all__
__all__ += points.__all__
__all__ += relevance.__all__
__all__ += sets.__all__
__all__ += shown.__all__
__all__ += users.__all__
