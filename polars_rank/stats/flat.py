"""Results as a dictionary of numbers."""

from __future__ import annotations

import re

import polars as pl

from polars_rank._params import public
from polars_rank.errors import DataError
from polars_rank.frames.tables import collected, lazy


@public
def flat(result: pl.DataFrame | pl.LazyFrame, *, safe: bool = False) -> dict[str, float]:
    """Return the numbers of a result as a dictionary, for tools that track experiments.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2, 2],
    ...     "score": [2.0, 1.0, 2.0, 1.0],
    ...     "label": [1, 0, 0, 1],
    ... })
    >>> pr.evaluate(log, ["precision@1", "mrr@10"]).pipe(pr.flat)
    {'queries': 2, 'precision@1': 0.5, 'mrr@10': 0.75}

    Parameters
    ----------
    result
        Result with a column per metric, such as that of `evaluate`, or with a column `metric`, such
        as that of `summarize` or `compare`.
    safe
        Replace the characters that MLflow and Weights & Biases do not accept in names: "ndcg@10"
        becomes "ndcg_at_10".

    Returns
    -------
    dict
        The number of each column and row. In a result with a column `metric`, the mean has the name
        of the metric, and other columns follow after a slash, as in "ndcg@10/low". The values of
        `by` and `run` come first, as in "neural/ndcg@10". Text and null values are left out.

    Raises
    ------
    DataError
        If two numbers have the same name.
    """
    frame = collected(lazy(result, "result"))
    keys = _keys(frame)
    found: dict[str, float] = {}
    for row in frame.iter_rows(named=True):
        parts = [str(row[key]) for key in keys if row[key] is not None]
        metric = [row["metric"]] if "metric" in row else []
        for column, value in row.items():
            if column in keys or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            last = [] if metric and column == "mean" else [column]
            names = [*parts, *metric, *last]
            name = "/".join(map(_safe, names) if safe else names)
            if name in found:
                raise DataError(
                    f"two numbers of the result have the name {name!r}; select rows with "
                    "`filter`, or rename values"
                )
            found[name] = value
    return found


def _keys(frame: pl.DataFrame) -> list[str]:
    """Return the columns that tell rows apart, without `metric`."""
    names = frame.columns
    if "metric" in names:
        values = [dtype.is_numeric() or dtype == pl.Boolean for dtype in frame.dtypes]
        texts = [i for i, is_value in enumerate(values) if not is_value]
        front = [i for i in texts if all(not dtype.is_float() for dtype in frame.dtypes[:i])]
        return [name for name in names[: max(front) + 1] if name not in ("metric", "baseline")]
    floats = [i for i, dtype in enumerate(frame.dtypes) if dtype.is_float()]
    end = names.index("queries") if "queries" in names else min(floats, default=len(names))
    return names[:end]


def _safe(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9.-]+", "_", name.replace("@", "_at_")).strip("_")
