"""One function per metric, a file per family."""

from polars_rank.metrics import gains, pairs, relevance, users
from polars_rank.metrics.gains import *
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.pairs import *
from polars_rank.metrics.relevance import *
from polars_rank.metrics.users import *

__all__ = ["Metric", *gains.__all__, *pairs.__all__, *relevance.__all__, *users.__all__]
