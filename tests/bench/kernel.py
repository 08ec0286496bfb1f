"""A lower bound: the same metrics as one compiled loop over arrays, on all cores."""

from __future__ import annotations

from typing import Any


def compiled() -> Any:
    """Return the kernel, whose machine code is cached on disk."""
    import numba
    import numpy as np

    @numba.njit(parallel=True, cache=True)
    def measure(starts, score, doc, label, cutoffs, discount, values):  # type: ignore
        """Fill `values`: per query NDCG, P and recall at each cutoff, then AP and RR."""
        n_cutoffs = len(cutoffs)
        grades = label.max() + 1
        gain = np.exp2(np.arange(grades)) - 1
        for query in numba.prange(len(starts) - 1):
            first, last = starts[query], starts[query + 1]
            n = last - first
            order = np.argsort(score[first:last])[::-1] + first
            start = 0
            while start < n:  # tied scores: document id, descending
                end = start + 1
                while end < n and score[order[end]] == score[order[start]]:
                    end += 1
                if end - start > 1:
                    tied = order[start:end].copy()
                    order[start:end] = tied[np.argsort(doc[tied])[::-1]]
                start = end

            count = np.zeros(grades, np.int64)  # integer grades: the ideal list needs no sort
            for row in range(first, last):
                count[label[row]] += 1
            relevant = n - count[0]
            hits, cut, best = 0, 0, grades - 1
            dcg = ideal = ap = rr = 0.0
            for i in range(n):
                while best > 0 and count[best] == 0:
                    best -= 1
                count[best] -= 1
                ideal += gain[best] * discount[i]
                grade = label[order[i]]
                if grade > 0:
                    hits += 1
                    dcg += gain[grade] * discount[i]
                    ap += hits / (i + 1)
                    if hits == 1:
                        rr = 1 / (i + 1)
                while cut < n_cutoffs and (cutoffs[cut] == i + 1 or i + 1 == n):
                    values[query, cut] = dcg / ideal if ideal > 0 else 0
                    values[query, n_cutoffs + cut] = hits / cutoffs[cut]
                    values[query, 2 * n_cutoffs + cut] = hits / relevant if relevant > 0 else 0
                    cut += 1
            values[query, -2] = ap / relevant if relevant > 0 else 0
            values[query, -1] = rr

    return measure
