"""Metrics inside other tools: sentence-transformers, ir_measures, MTEB and MLflow.

Experimental: names and results may change in a minor version without a deprecation.
"""

from polars_rank.integrations import ir_measures, mlflow, mteb, sentence_transformers

__all__ = ["ir_measures", "mlflow", "mteb", "sentence_transformers"]


def __dir__() -> list[str]:
    return __all__
