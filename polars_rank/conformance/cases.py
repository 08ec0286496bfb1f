"""Inputs on which tools differ: one query each, as plain rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

# A case is a line with its name, its cutoff, its rows and its judgments, and lines of text. Most
# labels are 0 or 1, so that gains do not matter.
_TEXT = """
plain/three-grades @3: a 4, b 3, c 2, d 1 | a 1, b 0, c 3, d 2, e 0
    Only gain, discount, ideal ranking and divisor matter.
plain/perfect @3: a 3, b 2, c 1 | a 1, b 1, c 0
    The ranking is perfect: NDCG and average precision are 1. Divisors other than the number of
    relevant documents and ideal rankings of k relevant documents make them lower.
plain/thirds @3: b 3, a 2, c 1 | a 1, b 0, c 1
    Thirds show whether a tool rounds its values.

ties/relevant-second @1: b 2, a 2, c 1 | a 1, b 0, c 0
    Two documents have one score, and the second row is relevant.
ties/relevant-first @1: a 2, b 2, c 1 | a 1, b 0, c 0
    Two documents have one score, and the first row is relevant.
ties/three-for-two-ranks @2: b 2, a 2, c 2 | a 0, b 0, c 1
    Three documents have one score, for two ranks. Over all orders, the relevant document is among
    the first two with probability 2/3.
ties/all-equal @2: c 1, a 1, d 1, b 1 | a 0, b 1, c 0, d 1
    All scores are equal, as those of a model before training.
ties/around-the-cutoff @3: d 4, b 3, c 2, a 2 | a 1, b 0, c 0, d 1
    The last document above the cutoff and the first one below it have one score.
ties/grades @2: b 2, a 2, c 1 | a 3, b 1, c 2
    Both documents above the cutoff are relevant: precision does not depend on their order, NDCG
    does.
ties/with-an-unjudged-document @1: b 1, a 1 | a 1
    A relevant and an unjudged document have one score.

unjudged/before-the-relevant-one @1: u 3, a 2, b 1 | a 1, b 0
    The first document has no label. If it is removed, the relevant one is first.
unjudged/between @3: a 4, u 3, b 2, c 1 | a 1, b 1, c 1
    A document without a label is between relevant ones.
unjudged/and-judged-as-0 @2: u 3, b 2, a 1 | a 1, b 0
    The first document is unjudged, and the second one is judged as not relevant: only the former
    can be removed.

copies/relevant-twice @3: a 3, a 2, b 1 | a 1, b 0
    A relevant document occurs twice. If each copy counts, recall is 2.
copies/relevant-last @3: b 3, a 2, a 1 | a 1, b 0
    The copies of a relevant document are below another one. If each copy counts, average precision
    is above 1.
copies/of-another-document @3: b 4, b 3, a 2, c 1 | a 1, b 0, c 0
    A document that is not relevant occurs twice. If copies are removed, the relevant one moves up.
copies/highest-score-last @1: a 1, b 2, a 3 | a 1, b 0
    The last row of a document has its highest score: the first row and the best one differ.
copies/all-relevant @4: a 4, a 3, b 2, b 1 | a 1, b 1, c 1
    Two of three relevant documents occur twice. If each copy counts, recall is 4/3.
copies/unjudged @2: u 3, u 2, a 1 | a 1
    A document without a label occurs twice.

grades/negative @3: a 3, b 2, c 1 | a 2, b -1, c 1
    A retrieved document has a negative label, which is a penalty or has no gain.
grades/negative-first @2: b 2, a 1 | a 1, b -2
    The first document has a negative label: with penalties, NDCG is negative.
grades/only-negative @2: a 2, b 1 | a -1, b -2
    All labels are negative, so that no document is relevant, and the ideal DCG is 0 or less.
grades/fractional @3: a 3, b 2, c 1 | a 0.4, b 1.5, c 0.2
    Labels are fractions, as probabilities or means of several judges: they have a gain, or only
    those that are relevant have one.
grades/truncated @2: b 2, a 1 | a 1.9, b 1
    Labels that are converted to integers are equal.
grades/large @2: b 2, a 1 | a 10, b 1
    An exponential gain makes the highest label outweigh all others.

short/one-of-ten @10: a 1 | a 1, b 0
    One document is retrieved for ten ranks: precision is 1/10, or 1 if it is divided by the number
    of retrieved documents.
short/two-of-five @5: b 2, a 1 | a 1, b 0, c 1, d 1
    Two documents are retrieved for five ranks, and more are relevant: the ideal ranking has as many
    documents as are relevant, or as are retrieved.
short/single-document @1: a 1 | a 2, b 3
    A single document is retrieved. Some tools refuse it.

empty/nothing-relevant @2: a 2, b 1 | a 0, b 0
    No document is relevant. Recall is 0/0: it counts as 0 or 1, or the query does not count.
empty/judged-elsewhere @2: u 2, v 1 | a 0, b 0
    No document is relevant, and those that are retrieved have no label.
empty/no-judgments @2: a 2, b 1 |
    The query has no judgments.
empty/nothing-retrieved @2: | a 1, b 0
    No document is retrieved. The query counts as 0, or does not count.
empty/nothing-relevant-or-retrieved @2: | a 0
    No document is retrieved, and none is relevant.

unretrieved/one-of-two @2: a 2, b 1 | a 1, b 0, c 1
    One of two relevant documents is not retrieved.
unretrieved/best @2: a 2, b 1 | a 1, b 0, c 3
    The document with the highest label is not retrieved.
unretrieved/all @2: a 2, b 1 | a 0, b 0, c 1
    The relevant document is not retrieved: values are 0. In an ideal ranking of the retrieved
    documents only, nothing has a gain.
unretrieved/more-than-ranks @3: b 3, a 2, c 1 | a 1, b 0, c 1, d 1, e 1, f 1
    More documents are relevant than there are ranks.

cutoff/beyond-the-ranking @10: c 3, b 2, a 1 | a 1, b 1, c 0
    The cutoff is larger than the number of retrieved documents and of relevant ones.
cutoff/below-relevant @2: b 4, a 3, c 2, d 1 | a 1, b 0, c 1, d 0
    A relevant document is below the cutoff.
cutoff/first-of-two @1: a 2, b 1 | a 1, b 1
    Two documents are relevant for one rank: recall is 1/2.
cutoff/nothing-above @2: c 4, d 3, a 2, b 1 | a 1, b 1, c 0, d 0
    All relevant documents are below the cutoff. In an ideal ranking of the first k documents,
    nothing has a gain.
cutoff/eleventh @10: b 12, c 11, a 10, d 9, e 8, f 7, g 6, h 5, i 4, j 3, k 2, l 1 | a 1, k 1, l 1
    Of three relevant documents, two are at the ranks 11 and 12.
cutoff/none: b 3, a 2, c 1 | a 1, b 0, c 1, d 1
    There is no cutoff.

gain/two-grades @2: b 2, a 1 | a 3, b 1
    The documents are in the wrong order: the loss depends on the gain of the label 3.
gain/labels-of-one-grade @3: b 3, a 2, c 1 | a 2, b 0, c 2
    All relevant documents have the label 2: gain does not change NDCG, but DCG.
gain/five-grades @5: d 5, a 4, e 3, c 2, b 1 | a 4, b 3, c 2, d 1, e 0
    Five documents have the labels 0 to 4.

discount/second-rank @2: b 2, a 1 | a 1, b 0
    NDCG is the discount of rank 2, divided by that of rank 1. The base of a logarithm cancels out
    in NDCG, not in DCG.
discount/fourth-rank @4: b 4, c 3, d 2, a 1 | a 1, b 0, c 0, d 0
    The relevant document has rank 4.
discount/tenth-rank @10: b 10, c 9, d 8, e 7, f 6, g 5, h 4, i 3, j 2, a 1 | a 1
    The relevant document has rank 10, and the others are unjudged.

ideal/every-rule @2: c 3, a 2, b 1 | a 1, b 2, c 0, d 3, e 1
    The ideal ranking is of all judged documents, with or without the cutoff, of the retrieved
    documents, or of the first two.
ideal/fewer-than-ranks @3: b 3, a 2, c 1 | a 1, b 0, c 0
    One document is relevant for three ranks: the ideal ranking has one relevant document, or three.
ideal/more-than-ranks @1: a 2, b 1 | a 1, b 1, c 1
    Three documents are relevant for one rank: an ideal ranking without the cutoff has all three.

divisor/every-rule @5: a 4, b 3, c 2, d 1 | a 1, b 0, c 1, d 0, e 1, f 1, g 1, h 1
    Average precision has the divisor 6 (relevant documents), 5 (ranks), 4 (retrieved documents) or
    2 (relevant documents among the first five).
divisor/few-relevant @4: b 4, a 3, c 2, d 1 | a 1, b 0, c 0, d 0
    One document is relevant: a divisor of 4 ranks makes average precision lower.
divisor/relevant-below-the-cutoff @2: a 4, b 3, c 2, d 1 | a 1, b 0, c 0, d 1
    Of two relevant documents, one is above the cutoff: the divisor is 2 or 1.

threshold/one-or-two @2: a 3, b 2, c 1 | a 1, b 2, c 0
    Documents are relevant from the label 1, or from 2.
threshold/nothing-above-one @2: a 2, b 1 | a 1, b 0
    The highest label is 1: with the threshold 2, no document is relevant.
threshold/between-half-and-one @2: a 2, b 1 | a 0.7, b 0
    The only positive label is 0.7: it is relevant if it is rounded or compared with 0 or 0.5.
threshold/half @2: a 2, b 1 | a 0.5, b 1
    The first label is 0.5: thresholds of 0.5 and above 0.5 differ.

float32/difference-of-1e-8 @1: a 1.00000001, b 1 | a 1, b 0
    The scores differ, but not as 32-bit floats. Then the id or the order of rows decides.
float32/large-scores @1: a 16777217, b 16777216 | a 1, b 0
    The scores are integers that 32-bit floats cannot tell apart.

ids/nine-and-ten @1: 10 1, 9 1 | 9 0, 10 1
    Tied documents have the ids 9 and 10: as text, "9" is greater than "10".
ids/upper-case @1: a 1, B 1 | a 0, B 1
    Tied documents have the ids a and B: upper case letters are less than lower case letters.
ids/not-ascii @1: é 1, z 1 | é 0, z 1
    Tied documents have the ids é and z: é has the greater bytes.

scores/negative @2: b -1, a -2 | a 1, b 0
    All scores are negative, as log probabilities and distances with a changed sign.
scores/zero @2: b 0.5, a 0 | a 1, b 0
    The relevant document has the score 0.
scores/negative-zero @1: a 0.0, b -0.0 | a 1, b 0
    The scores 0 and -0 are equal.

order/not-sorted @2: b 1, a 3, c 2 | a 1, b 0, c 0
    Rows are not sorted by score. Tools that ignore scores rank them in the order of the rows.
order/ascending @2: c 1, b 2, a 3 | a 1, b 0, c 0
    Rows are sorted by score, lowest first.
"""


@dataclass(frozen=True)
class Case:
    """One query, with what tools do with it.

    Parameters
    ----------
    name
        Name of the case, such as "ties/relevant-second".
    topic
        What tools decide differently: the first part of the name.
    text
        What the case shows, in a few sentences.
    rows
        Retrieved documents with their scores, in the order of the input.
    judgments
        Documents with their labels.
    k
        Cutoff of metrics that have one, or None.
    """

    name: str
    topic: str
    text: str
    rows: tuple[tuple[str, float], ...]
    judgments: dict[str, float]
    k: int | None = None

    @property
    def subject(self) -> str:
        """What tools decide differently: negative labels, or the topic."""
        return "negative labels" if min(self.judgments.values(), default=0) < 0 else self.topic

    @property
    def unlabeled(self) -> Case:
        """The case with the label 0 for all judged documents."""
        return replace(self, judgments=dict.fromkeys(self.judgments, 0.0))


def _case(text: str) -> Case:
    """Return a case from its line of rows and judgments, and its lines of text."""
    head, _, sentences = text.partition("\n")
    name, _, tables = head.partition(":")
    name, _, k = name.partition(" @")
    rows, judgments = (
        tuple((doc, float(number)) for doc, number in map(str.split, filter(str.strip, pairs)))
        for pairs in (part.split(",") for part in tables.split("|"))
    )
    topic, _, _ = name.partition("/")
    words = " ".join(sentences.split())
    return Case(name, topic, words, rows, dict(judgments), int(k) if k else None)


CASES = tuple(map(_case, re.split(r"\n+(?=\S)", _TEXT.strip())))
