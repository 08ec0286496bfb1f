"""Counts of pairs of grades, by cluster of queries."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from polars_rank.stats._arrays import Array, numpy

if TYPE_CHECKING:
    from polars_rank.judges.labels import Labels


def pair_counts(labels: Labels, first: int, second: int) -> Array:
    """Return the numbers of documents by cluster, grade of the first and of the second judge."""
    np = numpy()
    number = len(labels.values)
    grade = np.full(len(labels.cluster), -1, dtype=np.int16)
    grade[labels.documents[first]] = labels.grades[first]
    documents = labels.documents[second]
    both = grade[documents] >= 0
    documents = documents[both]
    cells = (labels.cluster[documents] * number + grade[documents]) * number
    clusters = len(labels.keys)
    cells += labels.grades[second][both]
    return np.bincount(cells, minlength=clusters * number**2).reshape(clusters, number, number)


def unpaired(labels: Labels, first: int, second: int, pairs: int) -> int:
    """Return the number of documents that only one of two judges labeled."""
    return len(labels.documents[first]) + len(labels.documents[second]) - 2 * pairs


def unit_sums(labels: Labels) -> tuple[Array, int, int]:
    """Return sums over the documents that several judges labeled, by cluster.

    There are two sums of tables of pairs of labels: in the first, the sum of the table of a
    document is 1; in the second, it is the number of its labels (Krippendorff's coincidences).
    Return also the number of these documents, and of those with one label.
    """
    np = numpy()
    number = len(labels.values)
    cells = np.concatenate(labels.documents).astype(np.int64)
    cells *= number
    cells += np.concatenate(labels.grades)
    cells.sort()
    bounds = np.searchsorted(labels.cluster, np.arange(len(labels.keys) + 1))
    ends = np.searchsorted(cells, bounds * number)
    sums = np.zeros((len(labels.keys), 2, number, number))
    paired = 0
    for cluster, (low, high) in enumerate(pairwise(ends)):
        first, last = bounds[cluster], bounds[cluster + 1]
        size = (last - first) * number
        counts = np.bincount(cells[low:high] - first * number, minlength=size)
        counts = counts.reshape(-1, number)
        counts = counts[counts.sum(axis=1) > 1].astype(float)
        raters = counts.sum(axis=1, keepdims=True)
        for place, weight in enumerate((1 / (raters * (raters - 1)), 1 / (raters - 1))):
            weighted = counts * weight
            sums[cluster, place] = weighted.T @ counts - np.diag(weighted.sum(axis=0))
        paired += len(counts)
    return sums, paired, len(labels.cluster) - paired
