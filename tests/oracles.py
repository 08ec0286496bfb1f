"""Every metric again in plain Python: the truth that the Polars expressions are tested against.

One query is a list of `Doc`. A null score means judged but not retrieved, a null label retrieved
but not judged; an unjudged document is not relevant, has gain 0 and keeps its rank. An undefined
value is `None`, never NaN. Equal scores keep the order in which documents are given, which is for
callers to choose. Options have the type of their defaults. Nothing here imports the package under
test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, combinations, groupby, pairwise, permutations, product
from statistics import fmean
from typing import NamedTuple, TypeAlias


class Doc(NamedTuple):
    """One document of one query."""

    doc: str | int
    score: float | None
    label: float | None


Docs: TypeAlias = Sequence[Doc]
Gain: TypeAlias = Callable[[float], float]
Discount: TypeAlias = Callable[[int], float]
#: Grades by subtopic, of each document.
Covers: TypeAlias = Mapping[Hashable, Mapping]

# -- Lists ----------------------------------------------------------------------------------------


def score(d: Doc) -> float:
    """Score of a retrieved document."""
    assert d.score is not None
    return d.score


def retrieved(docs: Docs) -> list[Doc]:
    """Documents with a score, in the order given."""
    return [d for d in docs if d.score is not None]


def ranked(docs: Docs) -> list[Doc]:
    """Retrieved documents by score descending, equal scores in the order given."""
    return sorted(retrieved(docs), key=score, reverse=True)  # stable, also in reverse


def scored_labels(docs: Docs) -> list[tuple[float, float]]:
    """(score, label) of the documents that are both retrieved and judged."""
    return [(d.score, d.label) for d in docs if d.score is not None and d.label is not None]


def judged_docs(docs: Docs) -> list[Doc]:
    """Documents with a label."""
    return [d for d in docs if d.label is not None]


def is_relevant(d: Doc, rel: float = 1) -> bool:
    """Judged, and label >= rel."""
    return d.label is not None and d.label >= rel


def is_nonrelevant(d: Doc, rel: float = 1) -> bool:
    """Judged and 0 <= label < rel: to trec_eval a negative label is in the pool, not judged."""
    return d.label is not None and 0 <= d.label < rel


def relevant(docs: Docs, rel=1) -> list[Doc]:
    """Judged documents with label >= rel, retrieved or not."""
    return [d for d in docs if is_relevant(d, rel)]


def ideal_labels(docs: Docs, ideal="judged") -> list[float]:
    """Labels in ideal order: descending over all judged documents, or over the retrieved ones."""
    docs = retrieved(docs) if ideal == "retrieved" else docs
    return sorted((d.label for d in docs if d.label is not None), reverse=True)


def flags(docs: Docs, k: int | None, rel: float) -> list[bool]:
    """Relevant or not, for the first k documents in rank order."""
    return [is_relevant(d, rel) for d in ranked(docs)[:k]]


def ratio(a: float, b: float) -> float | None:
    """The quotient a / b; undefined where b is 0."""
    return a / b if b else None


# -- Gains and discounts --------------------------------------------------------------------------


def linear(label: float) -> float:
    """Gain = label, negative labels being penalties; Järvelin & Kekäläinen 2002."""
    return label


def exp2(label: float) -> float:
    """Gain = 2^label - 1; Burges et al. 2005."""
    return float(2.0**label - 1)


def binary(label: float) -> float:
    """Gain = 1 for a label of 1 or more, else 0."""
    return float(label >= 1)


def mapping(gains: Mapping[float, float]) -> Gain:
    """Gain = gains[label], and 0 for a label that is not a key."""
    return lambda label: gains.get(label, 0.0)


def log2(rank: int) -> float:
    """Discount = 1 / log2(rank + 1)."""
    return 1 / math.log2(rank + 1)


def log(base: float = math.e) -> Discount:
    """Discount = 1 / log_base(rank + 1)."""
    return lambda rank: math.log(base) / math.log(rank + 1)


def jarvelin(base: float = 2) -> Discount:
    """Discount = 1 for rank < base, then 1 / log_base(rank); Järvelin & Kekäläinen 2002."""
    return lambda rank: 1.0 if rank < base else math.log(base) / math.log(rank)


def reciprocal(rank: int) -> float:
    """Discount = 1 / rank."""
    return 1 / rank


# -- Gain family ----------------------------------------------------------------------------------


def cg(docs: Docs, k=None, *, gain=linear) -> float:
    """CG@k = sum_{i<=k} gain_i; Järvelin & Kekäläinen 2002."""
    return dcg(docs, k, gain=gain, discount=lambda _: 1.0)


def dcg(docs: Docs, k=None, *, gain=linear, discount=log2, irrelevant=None) -> float | None:
    """DCG@k = sum_{i<=k} gain_i * discount(i); Järvelin & Kekäläinen 2002."""
    top = enumerate(ranked(docs)[:k], 1)
    if irrelevant == "null" and not any(d.label is not None and gain(d.label) > 0 for d in docs):
        return None
    return math.fsum(gain(d.label) * discount(i) for i, d in top if d.label is not None)


def ideal_dcg(
    docs: Docs, k=None, *, gain=linear, discount=log2, ideal="judged", depth=None
) -> float:
    """IDCG@k = DCG@k of the labels in descending order; Järvelin & Kekäläinen 2002."""
    if ideal == "full":
        n = len(retrieved(docs))
        last = n if k is None else min(k, n) if depth == "retrieved" else k
        return math.fsum(discount(i) for i in range(1, last + 1))
    labels = ideal_labels(docs, ideal)[: None if ideal == "all" else k]
    labels = labels[: len(retrieved(docs))] if depth == "retrieved" else labels
    return math.fsum(gain(label) * discount(i) for i, label in enumerate(labels, 1))


def ndcg(
    docs: Docs, k=None, *, gain=linear, discount=log2, ideal="judged", depth=None
) -> float | None:
    """NDCG@k = DCG@k / IDCG@k, undefined unless IDCG@k > 0; Järvelin & Kekäläinen 2002."""
    best = ideal_dcg(docs, k, gain=gain, discount=discount, ideal=ideal, depth=depth)
    found = dcg(
        docs, k, gain=gain, discount=discount,
        irrelevant="null" if ideal == "full" else None,
    )  # fmt: skip
    return found / best if best > 0 and found is not None else None


# -- Precision family -----------------------------------------------------------------------------


def precision(docs: Docs, k=None, *, depth="k", short=None, irrelevant=None, rel=1) -> float | None:
    """P@k = hits@k / k, or / min(k, n); over the n retrieved without k; van Rijsbergen 1979."""
    n = len(retrieved(docs))
    if k is not None and short == "null" and n < k:
        return None
    if irrelevant == "null" and not relevant(docs, rel):
        return None
    length = n if k is None else min(k, n) if depth == "retrieved" else k
    return ratio(sum(flags(docs, k, rel)), length)


def recall(docs: Docs, k=None, *, rel=1) -> float | None:
    """R@k = hits@k / R, undefined without a relevant document; van Rijsbergen 1979."""
    return ratio(sum(flags(docs, k, rel)), len(relevant(docs, rel)))


def fbeta(docs: Docs, k=None, *, beta=1.0, rel=1) -> float | None:
    """F_beta@k = (1 + beta^2) P R / (beta^2 P + R), 0 without a hit; van Rijsbergen 1979."""
    r = recall(docs, k, rel=rel)
    p = precision(docs, k, rel=rel)
    return (1 + beta**2) * p * r / (beta**2 * p + r) if p and r else None if r is None else 0.0


#: F1@k = 2 P R / (P + R); van Rijsbergen 1979.
f1 = partial(fbeta, beta=1.0)


def hit_rate(docs: Docs, k=None, *, rel=1) -> float | None:
    """Hit@k = 1 if hits@k > 0 else 0, undefined without a relevant document; success@k."""
    return float(any(flags(docs, k, rel))) if relevant(docs, rel) else None


def full_recall(docs: Docs, k=None, *, rel=1) -> float | None:
    """Full@k = 1 if hits@k = R else 0, undefined without a relevant document; recall_all@k."""
    wanted = len(relevant(docs, rel))
    return float(sum(flags(docs, k, rel)) == wanted) if wanted else None


def r_precision(docs: Docs, *, multiple=1.0, rel=1) -> float | None:
    """P at cutoff int(multiple R + 0.9), which is R for multiple 1; Buckley & Voorhees 2005."""
    cutoff = int(multiple * len(relevant(docs, rel)) + 0.9)
    return ratio(sum(flags(docs, cutoff, rel)), cutoff)


def reciprocal_rank(docs: Docs, k=None, *, rel=1) -> float | None:
    """RR@k = 1 / rank of the first hit within k, 0 without one; Kantor & Voorhees 2000."""
    ranks = (1 / i for i, hit in enumerate(flags(docs, k, rel), 1) if hit)
    return next(ranks, 0.0) if relevant(docs, rel) else None


def average_precision(docs: Docs, k=None, *, norm="R", rel=1) -> float | None:
    """AP@k = sum over hits of P@i / (R, min(k, R), min(k, R, n), or hits@k); Buckley 2005."""
    top, total = flags(docs, k, rel), len(relevant(docs, rel))
    parts = [sum(top[:i]) / i for i, hit in enumerate(top, 1) if hit]
    divisor = {
        "R": total, "min": min(k or total, total), "retrieved": min(len(top), total),
        "hits": len(parts) or 1,
    }[norm]  # fmt: skip
    return math.fsum(parts) / divisor if total and divisor else None


def rbp(docs: Docs, k=None, *, p=0.8, graded=False, irrelevant=None, rel=1) -> float | None:
    """RBP@k = (1 - p) sum_{i<=k} rel_i p^(i-1); Moffat & Zobel 2008."""
    if irrelevant == "null" and not relevant(docs, rel):
        return None
    hits = ranked(docs)[:k]
    return (1 - p) * math.fsum(
        (d.label if graded else 1) * p**i for i, d in enumerate(hits) if is_relevant(d, rel)
    )


# -- Curves and pairs -----------------------------------------------------------------------------


def blocks(docs: Docs, rel=1) -> list[tuple[int, int]]:
    """(relevant, other) counts of each block of tied scores, best score first."""
    by_score = groupby(ranked(docs), key=score)
    found = [[is_relevant(d, rel) for d in block] for _, block in by_score]
    return [(sum(block), len(block) - sum(block)) for block in found]


def roc_points(docs: Docs, rel=1) -> list[tuple[int, int]]:
    """(false, true) positives retrieved down to each score threshold, from (0, 0)."""
    points = [(0, 0)]
    for hits, others in blocks(docs, rel):
        points.append((points[-1][0] + others, points[-1][1] + hits))
    return points


def trapezoid(points: Sequence[tuple[float, float]]) -> float:
    """Area under straight lines between points (x, y)."""
    return math.fsum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(points))


def roc_auc(docs: Docs, *, rel=1) -> float | None:
    """Share of (relevant, other) retrieved pairs in score order, ties 1/2; Hanley & McNeil 1982."""
    good = [score(d) for d in retrieved(docs) if is_relevant(d, rel)]
    bad = [score(d) for d in retrieved(docs) if not is_relevant(d, rel)]
    won = sum((g > b) + (g == b) / 2 for g, b in product(good, bad))
    return ratio(won, len(good) * len(bad))


def pr_auc(docs: Docs, *, rel=1) -> float | None:
    """Trapezoid area under (recall, precision) per score, from (0, 1); Davis & Goadrich 2006."""
    points = roc_points(docs, rel)
    hits = points[-1][1]
    curve = [(tp / hits, tp / (fp + tp)) for fp, tp in points[1:]] if hits else []
    return trapezoid([(0.0, 1.0), *curve]) if hits else None


# -- Sets and counts ------------------------------------------------------------------------------


def num_retrieved(docs: Docs) -> int:
    """n = number of retrieved documents."""
    return len(retrieved(docs))


def num_relevant(docs: Docs, *, rel=1) -> int:
    """R = number of relevant documents, retrieved or not."""
    return len(relevant(docs, rel))


def num_queries(docs: Docs) -> int:
    """1 for each list."""
    return 1


def num_relevant_retrieved(docs: Docs, k=None, *, rel=1) -> int:
    """hits = number of relevant documents among the first k."""
    return len(relevant(ranked(docs)[:k], rel))


def num_nonrelevant_judged_retrieved(docs: Docs, *, rel=1) -> int:
    """Retrieved documents with 0 <= label < rel; trec_eval num_nonrel_judged_ret."""
    return sum(is_nonrelevant(d, rel) for d in retrieved(docs))


def is_answered(docs: Docs, min_score: float | None) -> bool:
    """Return whether a document is retrieved, with at least this score."""
    return any(min_score is None or score(d) >= min_score for d in retrieved(docs))


def abstained(docs: Docs, *, min_score=None, rel=1) -> float | None:
    """Return 1 if no document is retrieved; only for rankings without relevant documents."""
    return None if relevant(docs, rel) else float(not is_answered(docs, min_score))


def answered(docs: Docs, *, min_score=None, rel=1) -> float | None:
    """Return 1 if a document is retrieved; only for rankings with relevant documents."""
    return float(is_answered(docs, min_score)) if relevant(docs, rel) else None


def set_precision(docs: Docs, *, rel=1) -> float | None:
    """Set P = hits / n; van Rijsbergen 1979."""
    return ratio(num_relevant_retrieved(docs, rel=rel), num_retrieved(docs))


def set_recall(docs: Docs, *, rel=1) -> float | None:
    """Set R = hits / R; van Rijsbergen 1979."""
    return ratio(num_relevant_retrieved(docs, rel=rel), num_relevant(docs, rel=rel))


def set_f(docs: Docs, *, beta=1.0, rel=1) -> float | None:
    """Set F_beta = (1 + beta^2) hits / (beta^2 R + n); van Rijsbergen 1979."""
    hits, total = num_relevant_retrieved(docs, rel=rel), num_relevant(docs, rel=rel)
    return (1 + beta**2) * hits / (beta**2 * total + num_retrieved(docs)) if total else None


def set_ap(docs: Docs, *, rel=1) -> float | None:
    """Set AP = hits^2 / (n R), undefined where n R is 0; trec_eval set_map, Buckley 2008."""
    hits, total = num_relevant_retrieved(docs, rel=rel), num_relevant(docs, rel=rel)
    return ratio(hits**2, num_retrieved(docs) * total)


def set_relative_precision(docs: Docs, *, rel=1) -> float | None:
    """Set relative P = hits / min(n, R); trec_eval set_relative_P, Buckley 2008."""
    hits, total = num_relevant_retrieved(docs, rel=rel), num_relevant(docs, rel=rel)
    return ratio(hits, min(num_retrieved(docs), total))


def contingency(docs: Docs, k=None, *, size=None, rel=1) -> tuple[int, int, int, int]:
    """(tp, fp, fn, tn) at k, in a collection of `size` documents or of the rows given."""
    top = flags(docs, k, rel)
    tp = sum(top)
    fp, fn = len(top) - tp, len(relevant(docs, rel)) - tp
    return tp, fp, fn, (len(docs) if size is None else size) - tp - fp - fn


def utility(docs: Docs, a=1.0, b=-1.0, c=0.0, d=0.0, *, size=None, rel=1) -> float:
    """Utility = a tp + b fp + c fn + d tn over the retrieved set; trec_eval, Buckley 2008."""
    tp, fp, fn, tn = contingency(docs, size=size, rel=rel)
    return a * tp + b * fp + c * fn + d * tn


def judged(docs: Docs, k=None, *, depth="k") -> float | None:
    """Judged@k = judged in the first k / k, or / min(k, n); over n without k."""
    n = len(retrieved(docs))
    length = n if k is None else min(k, n) if depth == "retrieved" else k
    return ratio(len(judged_docs(ranked(docs)[:k])), length)


def unjudged(docs: Docs, k=None) -> float | None:
    """Unjudged@k = unjudged in the first k / k, over n without k; trec_eval unj, Soboroff 2023."""
    top = ranked(docs)[:k]
    return ratio(len(top) - len(judged_docs(top)), k or len(top))


# -- More of the precision family -----------------------------------------------------------------


def recall_capped(docs: Docs, k=None, *, rel=1) -> float | None:
    """R_cap@k = hits@k / min(k, R); Thakur et al. 2021 (BEIR)."""
    total = len(relevant(docs, rel))
    return ratio(sum(flags(docs, k, rel)), min(k or total, total))


def relative_precision(docs: Docs, k=None, *, rel=1) -> float | None:
    """Relative P@k = hits@k / min(k, R), k = n without k; trec_eval relative_P, Buckley 2008."""
    if k is None:
        return set_relative_precision(docs, rel=rel)
    return recall_capped(docs, k, rel=rel)


def interpolated_precision(docs: Docs, recall=0.0, *, rounding="up", rel=1) -> float | None:
    """IPrec@r = max P@i with hits@i >= r R, rounded "up" int(r R + 0.9) or "nearest"; TREC 1993."""
    top, total = flags(docs, None, rel), len(relevant(docs, rel))
    least = int(recall * total + (0.9 if rounding == "up" else 0.5))
    curve = [(hits, hits / i) for i, hits in enumerate(accumulate(top), 1)]
    return max((p for hits, p in curve if hits >= least), default=0.0) if total else None


def eleven_point(docs: Docs, *, rounding="up", rel=1) -> float | None:
    """11-point AP = mean IPrec at recall 0, 0.1 .. 1; Salton & McGill 1983."""
    if not relevant(docs, rel):
        return None
    points = (interpolated_precision(docs, i / 10, rounding=rounding, rel=rel) for i in range(11))
    return fmean(p or 0.0 for p in points)


def log_average_precision(docs: Docs, k=None, *, floor=1e-5, rel=1) -> float | None:
    """Log AP = ln max(AP, floor): the term of GMAP; Robertson 2006."""
    ap = average_precision(docs, k, rel=rel)
    return None if ap is None else math.log(max(ap, floor))


def gmap(lists: Sequence[Docs], *, floor=1e-5, rel=1) -> float:
    """GMAP = exp(mean over lists of ln max(AP, floor)), undefined AP as 0; Robertson 2006."""
    aps = [average_precision(docs, rel=rel) or 0.0 for docs in lists]
    return math.exp(fmean(math.log(max(ap, floor)) for ap in aps))


def yaap(docs: Docs, *, rel=1) -> float | None:
    """Yaap = ln((1 + s) / (1 + R - s)) with s = R AP; Robertson 2012."""
    ap, total = average_precision(docs, rel=rel), len(relevant(docs, rel))
    return None if ap is None else math.log((1 + total * ap) / (1 + total - total * ap))


def g_measure(docs: Docs, *, gain=linear) -> float | None:
    """G = sum gain_i / log2(2 + cost_i - cg_i) / sum gain, cost = ideal gain >= 1; Buckley 2008."""
    best = [g for g in map(gain, ideal_labels(docs)) if g > 0]
    gains = [0.0 if d.label is None else gain(d.label) for d in ranked(docs)]
    costs = accumulate([max(g, 1.0) for g in best] + [1.0] * len(gains))
    terms = zip(gains, costs, accumulate(gains), strict=False)
    return ratio(math.fsum(g / math.log2(2 + cost - cg) for g, cost, cg in terms), sum(best))


def binary_g(docs: Docs, *, rel=1) -> float | None:
    """Binary G = (1 / R) sum over hits of 1 / log2(2 + nonrelevant above); Buckley 2008."""
    above = [i - 1 for i, hit in enumerate(flags(docs, None, rel), 1) if hit]
    above = [i - hits for hits, i in enumerate(above)]
    return ratio(math.fsum(1 / math.log2(2 + m) for m in above), len(relevant(docs, rel)))


def rndcg(docs: Docs, *, gain=linear, rel=1) -> float | None:
    """Rndcg = mean NDCG@c, c = judged with gain >= g for each g > 0, and n; Buckley 2008."""
    best = [g for g in map(gain, ideal_labels(docs)) if g > 0]
    cutoffs = [i for i, g in enumerate(best, 1) if i == len(best) or g != best[i]]
    n = len(retrieved(docs))
    if n > len(best) + 1:  # not for n = len(best) + 1: trec_eval's own last step, kept
        cutoffs.append(n)
    values = [ndcg(docs, c, gain=gain) or 0.0 for c in cutoffs]
    return fmean(values) if best and relevant(docs, rel) else None


def ndcg_rel(docs: Docs, *, gain=linear) -> float | None:
    """Mean of NDCG@i at the ranks with gain > 0, NDCG for those not retrieved; Buckley 2008."""
    total = sum(gain(label) > 0 for label in ideal_labels(docs))
    top = enumerate(ranked(docs), 1)
    ranks = [i for i, d in top if d.label is not None and gain(d.label) > 0]
    values = [ndcg(docs, i, gain=gain) or 0.0 for i in ranks]
    rest = (total - len(ranks)) * (ndcg(docs, gain=gain) or 0.0)
    return ratio(math.fsum(values) + rest, total)


def bpref(docs: Docs, *, form="min", rel=1) -> float | None:
    """Bpref = (1/R) sum over hits of 1 - min(m, R) / (min(N, R) or R), m of N above; SIGIR 2004."""
    total = len(relevant(docs, rel))
    known = sum(is_nonrelevant(d, rel) for d in docs)
    divisor = min(known, total) if form == "min" else total
    above, terms = 0, []
    for d in ranked(docs):
        above += is_nonrelevant(d, rel)
        if is_relevant(d, rel):
            terms.append(1 - min(above, total) / divisor if above else 1.0)
    return ratio(math.fsum(terms), total)


def log_bpref(docs: Docs, *, floor=1e-5, rel=1) -> float | None:
    """Log bpref = ln max(bpref, floor): the term of trec_eval gm_bpref; Robertson 2006."""
    value = bpref(docs, rel=rel)
    return None if value is None else math.log(max(value, floor))


def inf_ap(docs: Docs, *, rel=1) -> float | None:
    """InfAP = (1/R) sum over hits of 1/i + pool/i * (r + e)/(r + m + 2e), e = 1e-5; CIKM 2006.

    Above the hit at rank i: r relevant, m not relevant, `pool` also with label < 0 (not judged).
    """
    eps, r, m, pool, terms = 1e-5, 0, 0, 0, []
    for i, d in enumerate(ranked(docs), 1):
        if is_relevant(d, rel):
            terms.append(1 / i + pool / i * (r + eps) / (r + m + 2 * eps))
            r += 1
        m += is_nonrelevant(d, rel)
        pool += d.label is not None
    return ratio(math.fsum(terms), len(relevant(docs, rel)))


def fall_out(docs: Docs, k=None, *, size=None, rel=1) -> float | None:
    """Fall-out@k = fp / (fp + tn); van Rijsbergen 1979."""
    _, fp, _, tn = contingency(docs, k, size=size, rel=rel)
    return ratio(fp, fp + tn)


def classification_accuracy(docs: Docs, k=None, *, size=None, rel=1) -> float | None:
    """Accuracy@k = (tp + tn) / (tp + fp + fn + tn); Manning et al. 2008."""
    tp, fp, fn, tn = contingency(docs, k, size=size, rel=rel)
    return ratio(tp + tn, tp + fp + fn + tn)


def mcc(docs: Docs, k=None, *, size=None, rel=1) -> float | None:
    """MCC@k = (tp tn - fp fn) / sqrt((tp+fp)(tp+fn)(tn+fp)(tn+fn)); Matthews 1975."""
    tp, fp, fn, tn = contingency(docs, k, size=size, rel=rel)
    return ratio(tp * tn - fp * fn, math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))


# -- Cascade and user models ----------------------------------------------------------------------


def grades(docs: Docs, max_grade: float, min_grade=0.0) -> list[float]:
    """Labels in rank order as (label - min) / (max - min) clipped to 0..1, unjudged 0."""
    labels = [min_grade if d.label is None else d.label for d in ranked(docs)]
    clipped = [min(max(label, min_grade), max_grade) for label in labels]
    return [(label - min_grade) / (max_grade - min_grade) for label in clipped]


def cascade(stops: Sequence[float]) -> list[float]:
    """Probability to get to each rank, and beyond the last: product of 1 - stop above it."""
    return list(accumulate((1 - s for s in stops), lambda a, b: a * b, initial=1.0))


def err(docs: Docs, k=None, *, max_grade=None) -> float:
    """ERR@k = sum r_i / i prod_{j<i} (1 - r_j), r = (2^label - 1) / 2^max; Chapelle et al. 2009."""
    top = max([0.0, *ideal_labels(docs)]) if max_grade is None else max_grade
    labels = [min(max(d.label or 0.0, 0.0), top) for d in ranked(docs)[:k]]
    stops = [exp2(label) / 2.0**top for label in labels]
    terms = zip(stops, cascade(stops), strict=False)
    return math.fsum(r * at / i for i, (r, at) in enumerate(terms, 1))


def pfound(docs: Docs, k=None, *, decay=0.85, max_grade=1.0) -> float:
    """PFound@k = sum p_i t_i, p_i = p_{i-1} (1 - t_{i-1}) decay; Gulin et al. 2011 (CatBoost)."""
    stops = grades(docs, max_grade)[:k]
    terms = zip(stops, cascade(stops), strict=False)
    return math.fsum(t * at * decay**i for i, (t, at) in enumerate(terms))


def rbp_residual(docs: Docs, k=None, *, p=0.8) -> float:
    """RBP residual = p^min(k, n) + (1 - p) sum over unjudged of p^(i-1); Moffat & Zobel 2008."""
    top = ranked(docs)[:k]
    unknown = math.fsum(p**i for i, d in enumerate(top) if d.label is None)
    return float(p ** len(top)) + (1 - p) * unknown


def cwl(gains: Sequence[float], continues: Sequence[float]) -> float:
    """Expected gain per document seen, P(seen_i) = prod_{j<i} continue_j; Moffat et al. 2013."""
    seen = list(accumulate(continues[:-1], lambda a, b: a * b, initial=1.0))
    return math.fsum(w * g for w, g in zip(seen, gains, strict=True)) / math.fsum(seen)


def padded(gains: Sequence[float], depth: int) -> list[float]:
    """Exactly `depth` gains: cut, or filled with 0."""
    return [*gains[:depth], *[0.0] * (depth - len(gains))]


def sdcg(docs: Docs, k: int, *, max_grade: float, min_grade=0.0) -> float:
    """SDCG@k = sum_{i<=k} g_i / log2(i+1) / sum_{i<=k} 1 / log2(i+1); Azzopardi et al. 2019."""
    top = enumerate(grades(docs, max_grade, min_grade)[:k], 1)
    return math.fsum(g * log2(i) for i, g in top) / math.fsum(map(log2, range(1, k + 1)))


def nerr8(docs: Docs, k: int, *, max_grade: float, min_grade=0.0) -> float:
    """NERR8@k: continue with 1 - g_i to rank k; Azzopardi et al. 2021, eq. 8."""
    gains = padded(grades(docs, max_grade, min_grade), k)
    return cwl(gains, [1 - g for g in gains])


def nerr9(docs: Docs, k: int, *, max_grade: float, min_grade=0.0) -> float:
    """NERR9@k: continue with i / (i+1) * (1 - g_i) to rank k; Azzopardi et al. 2021, eq. 9."""
    gains = padded(grades(docs, max_grade, min_grade), k)
    return cwl(gains, [i / (i + 1) * (1 - g) for i, g in enumerate(gains, 1)])


def nerr10(docs: Docs, *, max_grade: float, p=0.9, min_grade=0.0, depth=1000) -> float:
    """NERR10: continue with p (1 - g_i), over `depth` ranks; Azzopardi et al. 2021, eq. 10."""
    gains = padded(grades(docs, max_grade, min_grade), depth)
    return cwl(gains, [p * (1 - g) for g in gains])


def nerr11(docs: Docs, *, max_grade: float, T=1.0, min_grade=0.0, depth=1000) -> float:
    """NERR11: continue with ((i+2T-1) / (i+2T))^2 (1 - g_i); Azzopardi et al. 2021, eq. 11."""
    gains = padded(grades(docs, max_grade, min_grade), depth)
    patience = [((i + 2 * T - 1) / (i + 2 * T)) ** 2 for i in range(1, depth + 1)]
    return cwl(gains, [c * (1 - g) for c, g in zip(patience, gains, strict=True)])


def insq(docs: Docs, *, max_grade: float, T=1.0, min_grade=0.0, depth=1000) -> float:
    """INSQ: continue with ((i+2T-1) / (i+2T))^2, over `depth` ranks; Moffat et al. 2012."""
    gains = padded(grades(docs, max_grade, min_grade), depth)
    return cwl(gains, [((i + 2 * T - 1) / (i + 2 * T)) ** 2 for i in range(1, depth + 1)])


def inst(docs: Docs, *, max_grade: float, T=1.0, min_grade=0.0, depth=1000) -> float:
    """INST: continue with ((i+T+t-1) / (i+T+t))^2, t = T - cumulated gain; Bailey et al. 2015."""
    gains = padded(grades(docs, max_grade, min_grade), depth)
    reach = [i + 2 * T - cg for i, cg in enumerate(accumulate(gains), 1)]
    return cwl(gains, [((x - 1) / x) ** 2 for x in reach])


def bpm(docs: Docs, k: int, *, max_grade: float, T=1.0, min_grade=0.0) -> float:
    """BPM@k = mean gain down to the rank where the gain is T, or to k; Zhang et al. 2017."""
    gains = padded(grades(docs, max_grade, min_grade), k)
    # A cumulated third of a gain may fall a rounding error short of T.
    enough = [cg >= T - 1e-9 for cg in accumulate(gains)]
    stop = enough.index(True) + 1 if True in enough else k
    return math.fsum(gains[:stop]) / stop


def average_relevance_position(docs: Docs) -> float | None:
    """ARP = sum label_i i / sum label_i over the retrieved; Zhu 2004, TF-Ranking 2019."""
    top = [(i, d.label) for i, d in enumerate(ranked(docs), 1) if d.label is not None]
    total = math.fsum(label for _, label in top)
    return math.fsum(i * label for i, label in top) / total if total > 0 else None


def pwa(docs: Docs, k=5) -> float | None:
    """PWA@k = sum label_i / i / sum 1 / i over the first min(k, n) ranks; TF-Ranking 2022."""
    top = ranked(docs)[:k]
    weights = math.fsum(1 / i for i in range(1, len(top) + 1))
    return ratio(dcg(docs, k, discount=reciprocal), weights)


# -- More pairs and correlation -------------------------------------------------------------------


def partial_auc(docs: Docs, max_fpr=1.0, *, rel=1) -> float | None:
    """Area under ROC to max_fpr, scaled so that chance is 0.5 and the best 1; McClish 1989."""
    points = roc_points(docs, rel)
    negatives, positives = points[-1]
    if not negatives or not positives:
        return None
    curve = [(fp / negatives, tp / positives) for fp, tp in points]
    if max_fpr == 1:
        return trapezoid(curve)
    kept = [(x, y) for x, y in curve if x <= max_fpr]
    (x0, y0), (x1, y1) = kept[-1], curve[len(kept)]
    end = (max_fpr, y0 + (y1 - y0) * (max_fpr - x0) / (x1 - x0))
    chance = max_fpr**2 / 2
    return (1 + (trapezoid([*kept, end]) - chance) / (max_fpr - chance)) / 2


def gauc(lists: Sequence[Docs], *, rel=1) -> float | None:
    """GAUC = mean ROC AUC of the lists that have one, weighted by n; Zhou et al. 2018 (DIN)."""
    found = [(len(retrieved(docs)), roc_auc(docs, rel=rel)) for docs in lists]
    known = [(n, auc) for n, auc in found if auc is not None]
    return ratio(math.fsum(n * auc for n, auc in known), sum(n for n, _ in known))


def pair_accuracy(docs: Docs, k=None, *, rel=1) -> float | None:
    """Share of (relevant, other) pairs within the first k in the right order; ir_measures 2022."""
    top = flags(docs, k, rel)
    right = [a for a, b in combinations(top, 2) if a != b]
    return ratio(sum(right), len(right))


def ordered_pair_accuracy(docs: Docs) -> float | None:
    """OPA = share of pairs with label_a > label_b that have score_a > score_b; TF-Ranking 2019."""
    pairs = product(scored_labels(docs), repeat=2)
    right = [s > t for (s, a), (t, b) in pairs if a > b]
    return ratio(sum(right), len(right))


def sign(x: float) -> int:
    """-1, 0 or 1."""
    return (x > 0) - (x < 0)


def kendall_tau_b(docs: Docs) -> float | None:
    """Tau-b = (C - D) / sqrt(pairs untied in score * pairs untied in label); Kendall 1945."""
    pairs = list(combinations(scored_labels(docs), 2))
    s = [sign(x[0] - y[0]) for x, y in pairs]
    a = [sign(x[1] - y[1]) for x, y in pairs]
    agree = sum(x * y for x, y in zip(s, a, strict=True))
    return ratio(agree, math.sqrt(sum(map(abs, s)) * sum(map(abs, a))))


def mid_ranks(values: Sequence[float]) -> list[float]:
    """Rank of each value, ascending from 1, equal values sharing their mean rank."""
    return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]


def spearman(docs: Docs) -> float | None:
    """Rho = Pearson correlation of the mean ranks of score and label; Spearman 1904."""
    both = scored_labels(docs)
    mid = (len(both) + 1) / 2
    x = [r - mid for r in mid_ranks([s for s, _ in both])]
    y = [r - mid for r in mid_ranks([label for _, label in both])]
    xy, xx, yy = (
        sum(a * b for a, b in zip(u, v, strict=True)) for u, v in ((x, y), (x, x), (y, y))
    )
    return ratio(xy, math.sqrt(xx * yy))


def label_ranking_average_precision(docs: Docs, *, rel=1) -> float | None:
    """LRAP = mean over hits of share of hits among scores >= its own; Tsoumakas et al. 2010."""
    good = [score(d) for d in retrieved(docs) if is_relevant(d, rel)]
    every = [score(d) for d in retrieved(docs)]
    shares = [sum(s >= x for s in good) / sum(s >= x for s in every) for x in good]
    return fmean(shares) if shares else None


def label_ranking_loss(docs: Docs, *, rel=1) -> float | None:
    """Share of (relevant, other) pairs with score <= the other's; Tsoumakas et al. 2010."""
    good = [score(d) for d in retrieved(docs) if is_relevant(d, rel)]
    bad = [score(d) for d in retrieved(docs) if not is_relevant(d, rel)]
    return ratio(sum(g <= b for g, b in product(good, bad)), len(good) * len(bad))


def coverage_error(docs: Docs, *, rel=1) -> int | None:
    """Coverage = number of scores >= the lowest score of a hit; Tsoumakas et al. 2010."""
    good = [score(d) for d in retrieved(docs) if is_relevant(d, rel)]
    return sum(score(d) >= min(good) for d in retrieved(docs)) if good else None


def top_k_accuracy(docs: Docs, k=1, *, rel=1) -> float | None:
    """1 if a relevant document with the highest label is in the first k; ImageNet 2015."""
    best = max([d.label or 0.0 for d in relevant(docs, rel)], default=None)
    return None if best is None else float(best in [d.label for d in ranked(docs)[:k]])


# -- Overlap of two lists -------------------------------------------------------------------------


def shared(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[int]:
    """Number of items that the first d of both lists have in common, d = 1 .. longer length."""
    return [len(set(a[:d]) & set(b[:d])) for d in range(1, max(len(a), len(b)) + 1)]


def overlap(a: Sequence[Hashable], b: Sequence[Hashable], k: int | None = None) -> float | None:
    """Overlap@k = |first k of both| / k, over the longer length without k; Fagin et al. 2003."""
    return ratio(len(set(a[:k]) & set(b[:k])), k or max(len(a), len(b)))


def rbo(
    a: Sequence[Hashable], b: Sequence[Hashable], p: float = 0.9, *, form: str = "extrapolated"
) -> float | None:
    """RBO = (1-p) sum_d p^(d-1) shared_d / d, to "infinity" or depth only; Webber et al. 2010.

    "extrapolated" is RBO_ext for lists of any lengths (eq. 32); "truncated" stops at the longer
    length and divides by the weight so far.
    """
    if not a and not b:
        return None
    x, (s, n) = shared(a, b), sorted((len(a), len(b)))
    weighed = math.fsum(p ** (d - 1) * xd / d for d, xd in enumerate(x, 1))
    if form == "truncated":
        return weighed * (1 - p) / (1 - p**n)
    if not s:
        return 0.0
    seen, last = x[s - 1] / s, x[n - 1]
    beyond = math.fsum(p ** (d - 1) * seen * (d - s) / d for d in range(s + 1, n + 1))
    return (1 - p) * (weighed + beyond) + p**n * ((last - x[s - 1]) / n + seen)


def compat(docs: Docs, *, p=0.95, normalize=True, rel=1) -> float | None:
    """Compat = truncated RBO(list, ideal) / RBO(ideal, ideal) at its depth; Clarke et al. 2021.

    The ideal list: relevant documents by label descending, equal labels in the order retrieved.
    """
    found = [d.doc for d in ranked(docs)]
    rest = [d.doc for d in docs if d.score is None]
    place = {doc: i for i, doc in enumerate(found + rest)}
    best = sorted(relevant(docs, rel), key=lambda d: (-(d.label or 0.0), place[d.doc]))
    ideal = [d.doc for d in best]
    if not ideal:
        return None
    padding = [object() for _ in range(len(found) - len(ideal))]  # to the same depth
    own = rbo(found, ideal, p, form="truncated") or 0.0
    top = rbo([*ideal, *padding], ideal, p, form="truncated") or 0.0
    return own / top if normalize else own


# -- Ties -----------------------------------------------------------------------------------------


def tie_orders(docs: Docs) -> Iterator[list[Doc]]:
    """Every order of the retrieved documents that the scores allow, the unretrieved last."""
    found = groupby(ranked(docs), key=score)
    rest = [d for d in docs if d.score is None]
    for order in product(*(permutations(list(block)) for _, block in found)):
        yield [d for block in order for d in block] + rest


def expected(
    metric: Callable[..., float | None], docs: Docs, *args: object, **kwargs: object
) -> float | None:
    """Mean of a metric over all orders of tied documents; McSherry & Najork 2008."""
    values = [metric(order, *args, **kwargs) for order in tie_orders(docs)]
    known = [v for v in values if v is not None]
    return math.fsum(known) / len(values) if known else None


# -- Clicks ---------------------------------------------------------------------------------------


def clicked(d: Doc) -> bool:
    """Clicked or not, in logs of tests: a function of the label, so that there is one."""
    return d.label is not None and int(d.label) % 2 == 1


def dwell(d: Doc) -> float | None:
    """Seconds spent on a document, null without a click: 20 or 100."""
    return 40.0 * abs(int(d.label or 0)) - 20 if clicked(d) else None


# -- Subtopics ------------------------------------------------------------------------------------


def subtopics(d: Doc) -> list[int] | None:
    """Subtopics of a document, in logs of tests: a function of the id and the label."""
    if d.label is None:
        return None
    bits = (int(d.doc) * 5 + int(d.label)) % 16 if d.label > 0 else 0
    return [i for i in range(4) if bits >> i & 1]


def _covered(docs: Docs, given: Covers | None, rel: float = 1) -> Covers:
    """Grade by subtopic of each document; by default, 1 for its `subtopics`."""
    own = {d.doc: dict.fromkeys(subtopics(d) or [], 1.0) for d in docs}
    return {} if rel > 1 else own if given is None else given


def _shares(docs: Docs, covers: Covers, weights: Mapping | None) -> dict[Hashable, float] | None:
    """Weight of each subtopic of any document, divided by their sum."""
    known = {i for d in docs for i in covers.get(d.doc, ())}
    total = math.fsum((weights or {}).get(i, 1.0) for i in known)
    return {i: (weights or {}).get(i, 1.0) / total for i in known} if total > 0 else None


def _novel_gain(
    order: Sequence[Hashable], covers: Covers, shares: Mapping, alpha: float, discount: Discount
) -> float:
    """Sum over ranks of the discounted share of subtopics, times 1 - alpha per document above."""
    return math.fsum(
        shares[i] * (1 - alpha) ** sum(i in covers.get(above, ()) for above in order[: r - 1])
        * discount(r)
        for r, doc in enumerate(order, 1)
        for i in covers.get(doc, ())
    )  # fmt: skip


def greedy(docs: Docs, covers: Covers, shares: Mapping, alpha=0.5) -> list[Hashable]:
    """Documents by largest gain given those above, of several the highest id as text; ndeval."""
    left, order = [d.doc for d in docs], []

    def gain(doc: Hashable) -> float:
        above = {i: sum(i in covers.get(other, ()) for other in order) for i in covers.get(doc, ())}
        return round(math.fsum(shares[i] * (1 - alpha) ** n for i, n in above.items()), 11)

    while left:
        order.append(max(left, key=lambda doc: (gain(doc), str(doc))))
        left.remove(order[-1])
    return order


def _cascade(
    docs: Docs,
    k: int | None,
    discount: Discount,
    alpha: float,
    norm: str,
    covers: Covers | None,
    weights: Mapping | None,
) -> float | None:
    """Novel gain of the first k documents, divided by that of k perfect or of the greedy ones."""
    covers = _covered(docs, covers)
    shares = _shares(docs, covers, weights)
    if shares is None:
        return None
    order = [d.doc for d in ranked(docs)]
    own = _novel_gain(order[:k], covers, shares, alpha, discount)
    if norm == "greedy":
        ideal = greedy(docs, covers, shares, alpha)[:k]
        return own / _novel_gain(ideal, covers, shares, alpha, discount)
    if norm == "none" or (norm == "ndeval" and k == 1):
        known = {i for each in covers.values() for i in each}
        return own * math.fsum((weights or {}).get(i, 1.0) for i in known)
    depth = k or max(len(order), 1)
    return own / math.fsum((1 - alpha) ** (r - 1) * discount(r) for r in range(1, depth + 1))


def alpha_dcg(
    docs: Docs, k=None, *, alpha=0.5, norm="full", rel=1, covers=None, weights=None
) -> float | None:
    """Alpha-DCG, by default divided by that of k documents with all subtopics; Clarke 2008."""
    covers = _covered(docs, covers, rel)
    return _cascade(docs, k, log2, alpha, norm, covers, weights)


#: Alpha-NDCG = alpha-DCG / that of the greedy ranking; Clarke et al. 2008.
alpha_ndcg = partial(alpha_dcg, norm="greedy")


def err_ia(
    docs: Docs, k=None, *, alpha=0.5, norm="full", rel=1, covers=None, weights=None
) -> float | None:
    """ERR-IA, by default divided by that of k documents with all subtopics; Chapelle 2009."""
    covers = _covered(docs, covers, rel)
    return _cascade(docs, k, reciprocal, alpha, norm, covers, weights)


#: NERR-IA = ERR-IA / that of the greedy ranking; Clarke et al. 2011.
nerr_ia = partial(err_ia, norm="greedy")


def nrbp(
    docs: Docs, *, alpha=0.5, beta=0.5, norm="full", rel=1, covers=None, weights=None
) -> float | None:
    """NRBP = (1 - (1 - alpha) beta) sum beta^(r-1) gain_r; Clarke, Kolla & Vechtomova 2009."""
    covers = _covered(docs, covers, rel)
    shares = _shares(docs, covers, weights)
    if norm == "greedy" or shares is None:
        return _cascade(docs, None, lambda r: beta ** (r - 1), alpha, norm, covers, weights)
    order = [d.doc for d in ranked(docs)]
    gain = _novel_gain(order, covers, shares, alpha, lambda r: beta ** (r - 1))
    return (1 - (1 - alpha) * beta) * gain


#: NNRBP = NRBP / that of the greedy ranking; Clarke, Kolla & Vechtomova 2009.
nnrbp = partial(nrbp, norm="greedy")


def _over_intents(
    docs: Docs,
    of_intent: Callable[[Hashable, Mapping], float],
    rel: float,
    covers: Covers | None,
    weights: Mapping | None,
) -> float | None:
    """Weighted mean over subtopics."""
    covers = _covered(docs, covers, rel)
    shares = _shares(docs, covers, weights)
    return shares and math.fsum(p * of_intent(i, covers) for i, p in shares.items())


def ap_ia(docs: Docs, *, rel=1, covers=None, weights=None) -> float | None:
    """Mean over subtopics of AP; Agrawal et al. 2009."""

    def precision_of(i: Hashable, covers: Mapping) -> float:
        top = [i in covers.get(d.doc, ()) for d in ranked(docs)]
        found = math.fsum(sum(top[:r]) / r for r, hit in enumerate(top, 1) if hit)
        return found / sum(i in covers.get(d.doc, ()) for d in docs)

    return _over_intents(docs, precision_of, rel, covers, weights)


def precision_ia(docs: Docs, k=None, *, rel=1, covers=None, weights=None) -> float | None:
    """Mean over subtopics of P@k; Agrawal et al. 2009."""
    top = ranked(docs)[:k]
    length = k or max(len(top), 1)

    def precision_of(i: Hashable, covers: Mapping) -> float:
        return sum(i in covers.get(d.doc, ()) for d in top) / length

    return _over_intents(docs, precision_of, rel, covers, weights)


def subtopic_recall(docs: Docs, k=None, *, rel=1, covers=None, weights=None) -> float | None:
    """Share of subtopics covered by the first k; Zhai, Cohen & Lafferty 2003."""
    top = ranked(docs)[:k]
    return _over_intents(
        docs,
        lambda i, covers: float(any(i in covers.get(d.doc, ()) for d in top)),
        rel, covers, weights,
    )  # fmt: skip


def nugget_recall(docs: Docs, k=None, *, covers=None, weights=None) -> float | None:
    """Share of the weight of nuggets, each times its best support; Pradeep et al. 2025."""
    top = ranked(docs)[:k]

    def support(i: Hashable, covers: Mapping) -> float:
        return max((min(covers.get(d.doc, {}).get(i, 0.0), 1.0) for d in top), default=0.0)

    return _over_intents(docs, support, 1, covers, weights)


def d_sharp_ndcg(
    docs: Docs, k=None, *, gamma=0.5, rel=1, covers=None, weights=None
) -> float | None:
    """Gamma I-rec + (1 - gamma) NDCG of global gains; Sakai & Song 2011."""
    covers = _covered(docs, covers, rel)
    shares = _shares(docs, covers, weights)
    if shares is None:
        return None

    def gain(d: Doc) -> float:
        return math.fsum(shares[i] * g for i, g in covers.get(d.doc, {}).items())

    own = math.fsum(gain(d) * log2(r) for r, d in enumerate(ranked(docs)[:k], 1))
    best = sorted(map(gain, docs), reverse=True)[:k]
    relevance = own / math.fsum(g * log2(r) for r, g in enumerate(best, 1))
    recall = subtopic_recall(docs, k, covers=covers)
    return gamma * recall + (1 - gamma) * relevance


# -- Attributes of documents ----------------------------------------------------------------------

#: Users of the training log, in logs of tests.
USERS = 16


def _key(d: Doc) -> int:
    return d.doc if isinstance(d.doc, int) else sum(map(ord, d.doc))


def users(d: Doc) -> int | None:
    """Users of a document in logs of tests, from 1 to 16; null for some documents."""
    return None if _key(d) % 7 == 3 else _key(d) * 5 % USERS + 1


def share(d: Doc) -> float | None:
    """Share of the users who used a document; 0 is possible, too."""
    known = users(d)
    return None if known is None else known / USERS * (_key(d) % 11 != 10)


def rows(d: Doc) -> int | None:
    """Interactions with a document."""
    known = users(d)
    return None if known is None else 3 * known + _key(d) % 2


def seen(d: Doc) -> bool:
    """Whether the user has seen a document."""
    return _key(d) % 3 == 1


def expected_by_others(d: Doc) -> float | None:
    """Probability that a baseline recommends a document."""
    return None if _key(d) % 5 == 4 else _key(d) % 5 / 4


def must_not_be_retrieved(d: Doc) -> bool | None:
    """Whether a document is forbidden; null for some documents."""
    return None if _key(d) % 4 == 1 else _key(d) % 4 == 3


def long_tail(d: Doc) -> bool | None:
    """Whether a document belongs to the long tail."""
    known = users(d)
    return None if known is None else known < 6


def category(d: Doc) -> str | None:
    """Category of a document."""
    return None if _key(d) % 9 == 5 else "abcd"[_key(d) * 3 % 11 % 4]


def genres(d: Doc) -> list[str] | None:
    """Categories of a document: several, none, or null."""
    return None if _key(d) % 9 == 5 else [*"abcd"][_key(d) % 3 : _key(d) % 5]


def embedding(d: Doc) -> list[float] | None:
    """Embedding of a document; some are 0."""
    number = _key(d)
    return None if number % 8 == 2 else [float(number % 3), float(number % 4) - 1.0, number % 5 / 2]


def history_category(docs: Docs) -> list[str | None]:
    """Categories of the documents in the history of the user, by the documents of the ranking."""
    return [category(d) for d in sorted(docs, key=_key) if _key(d) % 2] * 2


def _known_mean(
    values: Sequence[float | None], k: int | None, unknown: str, depth: str, largest: float = 0.0
) -> float | None:
    known = [v for v in values if v is not None]
    missing = k - len(values) if depth == "k" and k is not None else 0
    if not (known if unknown == "skip" else values):
        return None
    if unknown == "error" and len(known) < len(values):
        return None
    if unknown == "max" and len(known) < len(values):
        known += [largest] * (len(values) - len(known))
    number = len(known) if unknown == "skip" else len(values)
    return math.fsum(known) / (number + missing)


def _information(d: Doc) -> float | None:
    part = share(d)
    return -math.log2(part) if part else None


def novelty(
    docs: Docs, k=None, *, unknown="skip", depth="retrieved", num_users=None
) -> float | None:
    """Mean of -log2 of the share of users; Zhou et al. 2010."""
    values = [_information(d) for d in ranked(docs)[:k]]
    largest = math.log2(num_users) if num_users else 0.0
    return _known_mean(values, k, unknown, depth, largest)


def surprisal(
    docs: Docs, k=None, *, unknown="skip", depth="retrieved", num_users=None
) -> float | None:
    """Mean of -log2 of the share of users, over log2 of the number of users; RePlay."""
    values = [_information(d) for d in ranked(docs)[:k]]
    most = math.log2(num_users or USERS)
    return _known_mean([v if v is None else v / most for v in values], k, unknown, depth, 1.0)


def unseen_share(docs: Docs, k=None, *, depth="retrieved") -> float | None:
    """Share of the documents that the user has not seen; RePlay's Novelty."""
    return _known_mean([float(not seen(d)) for d in ranked(docs)[:k]], k, "zero", depth)


def unexpectedness(docs: Docs, k=None, *, depth="retrieved") -> float | None:
    """Share of the documents that a baseline does not recommend; Murakami et al. 2007."""
    known = _known_mean([expected_by_others(d) or 0.0 for d in ranked(docs)[:k]], k, "zero", depth)
    return None if known is None else 1 - known


def serendipity(docs: Docs, k=None, *, num_items=None, depth="retrieved", rel=1) -> float | None:
    """Share of the documents that are relevant and not expected; Murakami et al. 2007."""
    values = [
        is_relevant(d, rel)
        * max(
            ((num_items + 1 - r) / num_items if num_items else 1) - (expected_by_others(d) or 0), 0
        )
        for r, d in enumerate(ranked(docs)[:k], 1)
    ]
    return _known_mean(values, k, "zero", depth)


def popularity(
    docs: Docs, k=None, *, interactions="interactions", unknown="zero", depth="retrieved"
) -> float | None:
    """Mean number of interactions, or of another column; Yin et al. 2012."""
    column = {"interactions": rows, "users": users, "share": share}[interactions]
    return _known_mean([column(d) for d in ranked(docs)[:k]], k, unknown, depth)


def long_tail_share(docs: Docs, k=None, *, unknown="skip", depth="retrieved") -> float | None:
    """Share of the documents in the long tail; Abdollahpouri et al. 2019."""
    return _known_mean([long_tail(d) for d in ranked(docs)[:k]], k, unknown, depth, 1.0)


def forbidden(docs: Docs, k=None) -> float | None:
    """Return 1 if a document among the first k is forbidden."""
    return float(any(must_not_be_retrieved(d) for d in ranked(docs)[:k]))


def _distribution(values: Sequence[str | list[str] | None]) -> dict[str, float]:
    """Share of each category; a document with several has a part in each."""
    parts: dict[str, float] = {}
    for value in values:
        several = [] if value is None else [value] if isinstance(value, str) else value
        for each in several:
            parts[each] = parts.get(each, 0.0) + 1 / len(several)
    total = math.fsum(parts.values())
    return {each: part / total for each, part in parts.items()}


def _categories(docs: Docs, k: int | None, column: str) -> dict[str, float]:
    read: Callable[[Doc], str | list[str] | None]
    read = {"category": category, "genres": genres}[column]
    return _distribution([read(d) for d in ranked(docs)[:k]])


def category_count(docs: Docs, k=None, *, category="category") -> float:
    """Number of different categories."""
    return float(len(_categories(docs, k, category)))


def category_entropy(docs: Docs, k=None, *, category="category") -> float | None:
    """Entropy of the categories in bits; Shannon 1948."""
    parts = _categories(docs, k, category).values()
    return -math.fsum(p * math.log2(p) for p in parts) if parts else None


def max_share(docs: Docs, k=None, *, category="category") -> float | None:
    """Largest share of a category; Berger & Parker 1970."""
    return max(_categories(docs, k, category).values(), default=None)


def calibration(docs: Docs, k=None, *, category="category", alpha=0.01) -> float | None:
    """Kullback-Leibler divergence of the categories from those of the history; Steck 2018."""
    q = _categories(docs, k, category)
    p = _distribution(history_category(docs))
    if not p or not q:
        return None
    return math.fsum(
        part * math.log(part / ((1 - alpha) * q.get(each, 0.0) + alpha * part))
        for each, part in p.items()
    )


def _cosine_distance(a: list[float], b: list[float]) -> float:
    norms = math.hypot(*a) * math.hypot(*b)
    return 1 - math.fsum(x * y for x, y in zip(a, b, strict=True)) / norms if norms else 1.0


def _jaccard_distance(a: list[str], b: list[str]) -> float:
    union = {*a, *b}
    return 1 - len({*a} & {*b}) / len(union) if union else 0.0


def intra_list_diversity(
    docs: Docs, k=None, *, features="embedding", distance="cosine", single=None, unknown="skip"
) -> float | None:
    """Mean distance over all pairs of documents; Smyth & McClave 2001."""
    read: Callable[[Doc], object]
    read = {"embedding": embedding, "genres": genres, "category": category}[features]
    between: Callable[..., float] = {
        "cosine": _cosine_distance,
        "euclidean": math.dist,
        "jaccard": _jaccard_distance,
        "category": lambda a, b: float(a != b),
    }[distance]
    values = [read(d) for d in ranked(docs)[:k]]
    known = [v for v in values if v is not None]
    if unknown != "skip" and len(known) < len(values):
        return None
    distances = [between(a, b) for a, b in combinations(known, 2)]
    if len(values) == 1:
        return single
    return fmean(distances) if distances else None
