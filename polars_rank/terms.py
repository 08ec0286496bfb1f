"""The vocabulary of metrics of one's own: terms of documents, and their reductions to a value.

A metric is a function decorated with `define_metric`. It selects documents, such as the first k
with `top`; reduces a term of them to a value per ranking, such as a sum; and does arithmetic with
values.
"""

from polars_rank.metrics import vocabulary
from polars_rank.metrics.vocabulary import *

__all__: list[str] = []
__all__ += vocabulary.__all__


def __dir__() -> list[str]:
    return __all__
