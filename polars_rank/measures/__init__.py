"""One function per metric, a file per family."""

from polars_rank.measures import (
    agreement,
    cascade,
    cumulated,
    gains,
    judgments,
    pairs,
    points,
    relevance,
    sets,
    shown,
    users,
)
from polars_rank.measures.agreement import *
from polars_rank.measures.cascade import *
from polars_rank.measures.cumulated import *
from polars_rank.measures.gains import *
from polars_rank.measures.judgments import *
from polars_rank.measures.metric import Metric
from polars_rank.measures.pairs import *
from polars_rank.measures.points import *
from polars_rank.measures.relevance import *
from polars_rank.measures.sets import *
from polars_rank.measures.shown import *
from polars_rank.measures.users import *

__all__ = ["Metric"]
__all__ += agreement.__all__
__all__ += cascade.__all__
__all__ += cumulated.__all__
__all__ += gains.__all__
__all__ += judgments.__all__
__all__ += pairs.__all__
__all__ += points.__all__
__all__ += relevance.__all__
__all__ += sets.__all__
__all__ += shown.__all__
__all__ += users.__all__
