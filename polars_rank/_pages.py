"""Pages: a title, notes and tables, as plain text, Markdown, JSON and JUnit XML.

Names of runs and queries are texts of users, which each format escapes in one place.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unicodedata import combining, east_asian_width

import polars as pl

from polars_rank import _texts
from polars_rank._texts import displayed, visible
from polars_rank.errors import number_of

#: The key, field or property that has the version of a format. A change that older versions of
#: polars_rank would misread has a new version; `examples/guide/formats.md` is the promise.
FORMAT_VERSION = "format_version"
_PAGE, _JUNIT = 1, 1
#: The width of lines of text.
WIDTH = 80
#: The least width of a text that is cut off or wrapped.
_NARROWEST = 12
#: Numbers below or above these magnitudes are written with an exponent.
_SMALL, _LARGE = 1e-3, 1e9
#: Decimals of numbers, and the most decimals for the bounds of a narrow interval.
_DECIMALS, _MOST_DECIMALS = 4, 9
#: Smaller p-values are written as "< 0.001".
_SMALLEST_P = 0.001
#: Texts of cells that are aligned as numbers.
_NUMBER = re.compile(r"[-+]?[\d.,]+%?|")


def width(text: str) -> int:
    """Return the number of places of a terminal that text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def cut(text: str, most: int) -> str:
    """Return text of at most `most` places, with "…" for what is left out."""
    if width(text) <= most:
        return text
    while text and width(text) > most - 1:
        text = text[:-1]
    return text + "…"


def wrapped(text: str, most: int, indent: str = "") -> list[str]:
    """Return lines of words, of which all but the first are indented; long words are divided."""
    lines = [""]
    for word in text.split(" "):
        rest = word
        while width(lines[-1]) + bool(lines[-1].strip()) + width(rest) > most:
            if lines[-1].strip():
                lines.append(indent)
            else:  # a word of its own line
                part = cut(rest + "…", most - width(lines[-1]) + 1).removesuffix("…")
                lines[-1:] = [lines[-1] + part, indent]
                rest = rest[len(part) :]
        lines[-1] += (" " if lines[-1].strip() else "") + rest
    return [each.rstrip() for each in lines]


class _Cells(NamedTuple):
    """A column with its cells as text."""

    name: str
    #: The lines of its title.
    heads: list[str]
    cells: list[str]
    is_number: bool

    @property
    def width(self) -> int:
        return max(map(width, [*self.heads, *self.cells]))

    @property
    def least(self) -> int:
        """The width to which the column can be narrowed; numbers never are."""
        return self.width if self.is_number else min(self.width, _NARROWEST)

    def stacked(self) -> _Cells:
        """Return the column with the cutoff of a metric in a second line of the title."""
        metric, at, cutoff = self.name.rpartition("@")
        return self._replace(heads=[displayed(metric), at + displayed(cutoff)]) if at else self

    def lines(self, texts: Sequence[str], most: int) -> list[str]:
        """Return lines of one width, with what is longer cut off; numbers are on the right."""
        texts = [cut(each, most) for each in texts]
        spaces = [" " * (most - width(each)) for each in texts]
        pairs = zip(spaces, texts, strict=True)
        return [space + each if self.is_number else each + space for space, each in pairs]


@dataclass(frozen=True)
class PageTable:
    """Rows under a caption, and what is known about their columns."""

    frame: pl.DataFrame
    caption: str = ""
    #: The columns of a result by name, which have the formats of numbers, and their bounds.
    columns: Mapping[str, Any] = field(default_factory=dict)
    #: Columns that narrow lines leave out, in this order; and those that they never leave out.
    minor: Sequence[str] = ()
    major: Collection[str] = ()
    #: Whether long texts are wrapped rather than cut off.
    folds: bool = False
    #: Whether columns that do not fit are left out, and counted, rather than written below.
    hides: bool = False
    #: The number of columns that the frame lacks, which count as hidden.
    hidden: int = 0
    #: The number of columns in the first line of a row, if plain text has a paragraph per row, with
    #: a line for each other column.
    paragraphs: int = 0
    #: Lines below the table.
    below: str = ""

    def cells(self) -> list[_Cells]:
        """Return the columns as text; `low` and `high` become one column."""
        found, names, known = [], self.frame.columns, self.columns
        bounds = dict(each.bounds for each in known.values() if each.bounds is not None)
        for place, name in enumerate(names):
            series = self.frame.get_column(name)
            form = known[name].format if name in known else "number"
            if name in bounds and bounds[name] in names[place + 1 : place + 2]:
                highs = self.frame.get_column(bounds[name])
                texts = _intervals(series.to_list(), highs.to_list(), form)
                title = f"{name.removesuffix('low').replace('_', ' ')}[low, high]"
                found.append(_Cells(name, [title], texts, is_number=True))
            elif bounds.get(names[place - 1] if place else "") != name:
                texts = [shown(each, form) for each in series.to_list()]
                is_number = series.dtype.is_numeric()
                if series.dtype == pl.String:  # numbers that are written already
                    is_number = any(texts) and all(map(_NUMBER.fullmatch, texts))
                found.append(_Cells(name, [displayed(name)], texts, is_number))
        return found

    def lines(self, most: int | None) -> Iterator[str]:
        """Yield the aligned lines of the table."""
        rest, hidden = self.cells(), self.hidden
        first = rest[:1]
        yield from _wrapped(self.caption, most) if self.caption else ()
        if self.paragraphs:
            yield from self._paragraphs(rest, most or sys.maxsize)
            rest = []
        while rest:
            kept, widths = self._fitting(rest, most)
            yield from _lines(kept, widths, folds=self.folds)
            if self.hides:
                hidden += len(rest) - len(kept)
                break
            names = {each.name for each in (*kept, *first)}
            rest = [*first, *others] if (others := [x for x in rest if x.name not in names]) else []
            if rest:
                yield ""
        yield from _wrapped(self.below, most) if self.below else ()
        if self.hides and hidden:
            yield f"{number_of(hidden, 'column')} hidden; use --wide to show all columns."

    def _paragraphs(self, columns: Sequence[_Cells], most: int) -> Iterator[str]:
        """Yield the lines of rows as paragraphs."""
        first, others = columns[: self.paragraphs], columns[self.paragraphs :]
        space = max((width(each.name) for each in others), default=0)
        for place in range(self.frame.height):
            yield from [""] * bool(place and self.folds)
            texts = filter(None, (each.cells[place] for each in first))
            yield from wrapped("  ".join(texts), most, "  ")
            for each in others:
                line, end = f"{each.name:{space}}  {each.cells[place]}", most - 2
                lines = wrapped(line, end, " " * (space + 2)) if self.folds else [cut(line, end)]
                yield from ("  " + text for text in lines if each.cells[place])

    def markdown(self) -> str:
        """Return the table in GitHub-flavored Markdown."""
        columns = self.cells()
        marks = ["---:" if each.is_number else "---" for each in columns]
        cells = ([*each.heads, *each.cells] for each in columns)
        lines = [*zip(*([*map(_texts.markdown, each)] for each in cells), strict=True)]
        rows = "\n".join(f"| {' | '.join(line)} |" for line in (*lines[:1], marks, *lines[1:]))
        return "\n\n".join(filter(None, [rows, _texts.markdown(self.below)]))

    def _fitting(
        self, columns: Sequence[_Cells], most: int | None
    ) -> tuple[list[_Cells], list[int]]:
        """Return the columns that fit, and their widths."""
        kept = [*columns]

        def excess(widths: Iterable[int]) -> int:
            return 0 if most is None else sum(each + 2 for each in widths) - 2 - most

        for name in self.minor if self.hides else ():
            if excess(each.width for each in kept) > 0:
                kept = [each for each in kept if each.name != name]
        if excess(each.width for each in kept) > 0:
            kept = [each.stacked() for each in kept]
        for each in kept[:1:-1]:
            if excess(each.least for each in kept) > 0 and each.name not in self.major:
                kept.remove(each)
        widths = [each.width for each in kept]
        while excess(widths) > 0:  # the widest text is narrowed first
            places = [n for n, each in enumerate(kept) if widths[n] > each.least]
            if not places:
                break
            widths[max(places, key=widths.__getitem__)] -= 1
        return kept, widths


@dataclass(frozen=True)
class Verdict:
    """A test of a build server: its verdict is "pass", "fail" or "undecided"."""

    name: str
    group: str
    verdict: str
    message: str = ""
    text: str = ""


@dataclass(frozen=True)
class Page:
    """A title, notes and tables; and for machines, exact values and cases."""

    title: str
    notes: Sequence[str] = ()
    tables: Sequence[PageTable] = ()
    #: Tables that only Markdown has, folded under their captions.
    details: Sequence[PageTable] = ()
    #: What Markdown has before the title; and one line that names what failed. Default: the title.
    about: str = ""
    summary: str = ""
    #: What Markdown has in addition, because it was warned of.
    warnings: Sequence[str] = ()
    #: The fields of JSON, whose tables are lists of rows.
    data: Mapping[str, Any] = field(default_factory=dict)
    cases: Sequence[Verdict] = ()
    #: What the cases are about.
    suite: str = "polars_rank"

    def plain(self, most: int | None = WIDTH) -> str:
        """Return text in lines of at most `most` places, unless numbers take more."""
        texts = [*filter(None, [self.title]), *self.notes]
        head = [line for each in texts for line in _wrapped(each, most)]
        parts = (head, *(each.lines(most) for each in self.tables))
        return "\n\n".join(filter(None, map("\n".join, parts)))

    def markdown(self) -> str:
        """Return Markdown for a pull request or a notebook."""
        text = _texts.markdown
        title = ": ".join(filter(None, [self.about, self.title]))
        parts = [f"### {text(title)}"] * bool(title)
        notes = [*self.notes, *(f"Warning: {each}" for each in self.warnings)]
        parts.append("\n".join(f"- {text(each.removeprefix('- '))}" for each in notes))
        for each in self.tables:
            parts += [f"**{text(each.caption)}**"] * bool(each.caption)
            parts.append(each.markdown())
        for each in self.details:
            summary = f"<details><summary>{text(each.caption)}</summary>"
            parts += [summary, each.markdown(), "</details>"]
        return "\n\n".join(filter(None, parts)) + "\n"

    def json(self) -> str:
        """Return exact values as JSON; numbers that are not finite are null."""
        found = {"title": self.title, "notes": [*self.notes], **self.data}
        text = json.dumps({FORMAT_VERSION: _PAGE, **_plain(found)}, ensure_ascii=False, indent=1)
        return text.encode(errors="backslashreplace").decode() + "\n"

    def junit(self, undecided: str = "fail") -> str:
        """Return the cases as JUnit XML; undecided ones fail, or are skipped."""
        from xml.etree import ElementTree as ET  # noqa: PLC0415  (slow to import, rarely needed)

        tags = {"fail": "failure", "undecided": "failure" if undecided == "fail" else "skipped"}
        found = [tags.get(each.verdict) for each in self.cases]
        counts = {"failures": found.count("failure"), "skipped": found.count("skipped")}
        texts = {name: str(count) for name, count in {"tests": len(found), **counts}.items()}
        root = ET.Element("testsuites")
        suite = ET.SubElement(root, "testsuite", {"name": visible(self.suite), **texts})
        properties = ET.SubElement(suite, "properties")
        ET.SubElement(properties, "property", name=FORMAT_VERSION, value=str(_JUNIT))
        for case, tag in zip(self.cases, found, strict=True):
            group, name = visible(case.group) or "all", visible(case.name)
            element = ET.SubElement(suite, "testcase", classname=group, name=name)
            if tag is not None:
                message = displayed(case.message)
                part = ET.SubElement(element, tag, message=message, type=case.verdict)
                part.text = visible(case.text) or None
            elif case.text:
                ET.SubElement(element, "system-out").text = visible(case.text)
        ET.indent(root)
        text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
        return text.decode()


class Paged:
    """A result that is printed as a page, and whose representation is one line."""

    @property
    def page(self) -> Page:
        """The page that is printed."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.page.plain()

    def __repr__(self) -> str:
        return self.page.summary or self.page.title

    def _repr_markdown_(self) -> str:
        return self.page.markdown()


def shown(value: Any, form: str = "number") -> str:
    """Return a value as text; `form` is the format of numbers, as a result column has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "; ".join(shown(each, form) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{displayed(key)} = {shown(each, form)}" for key, each in value.items())
    if not isinstance(value, float):
        return displayed(str(value))
    if form == "p_value" and value < _SMALLEST_P:
        return f"< {_SMALLEST_P}"
    sign = "+" if form in ("signed", "percent") and value != 0 else ""
    if form == "percent":
        return f"{value:{sign}.1%}"
    if value == 0 or _SMALL <= abs(value) < _LARGE:
        return f"{value:{sign}.{_DECIMALS}f}"
    return f"{value:{sign}.3g}"


def _intervals(lows: Sequence[Any], highs: Sequence[Any], form: str) -> list[str]:
    """Return intervals as text, with the decimals of means, or more if the narrowest needs them."""
    pairs = [
        None if low is None or high is None else (low, high)
        for low, high in zip(lows, highs, strict=True)
    ]
    known = (pair for pair in pairs if pair)
    widths = [high - low for low, high in known if low < high < math.inf and low > -math.inf]
    needed = 1 - math.floor(math.log10(min(widths))) if widths else 0
    decimals = min(max(_DECIMALS, needed), _MOST_DECIMALS)

    def bound(value: float) -> str:
        if form == "percent":
            return f"{value:+.1%}"
        # A bound that is not 0 must not look like 0, because its sign shows significance.
        vanishes = value != 0 and float(f"{value:.{decimals}f}") == 0
        return f"{value:.3g}" if vanishes or abs(value) >= _LARGE else f"{value:.{decimals}f}"

    return [f"[{bound(pair[0])}, {bound(pair[1])}]" if pair else "" for pair in pairs]


def _wrapped(text: str, most: int | None) -> list[str]:
    """Return lines of words, of which those that continue a list are indented."""
    text = visible(text)
    return [text] if most is None else wrapped(text, most, "  " * text.startswith("- "))


def _lines(columns: Sequence[_Cells], widths: Sequence[int], *, folds: bool) -> Iterator[str]:
    """Yield the lines of columns of these widths."""
    depth = max((len(each.heads) for each in columns), default=0)
    parts = zip(columns, widths, strict=True)
    heads = [
        each.lines([*[""] * (depth - len(each.heads)), *each.heads], most) for each, most in parts
    ]
    yield from ("  ".join(line).rstrip() for line in zip(*heads, strict=True))
    for cells in zip(*(each.cells for each in columns), strict=True):
        texts = [wrapped(c, most) if folds else [c] for c, most in zip(cells, widths, strict=True)]
        height = max(map(len, texts))
        lines = [
            each.lines([*text, *[""] * (height - len(text))], most)
            for each, text, most in zip(columns, texts, widths, strict=True)
        ]
        yield from filter(None, ("  ".join(line).rstrip() for line in zip(*lines, strict=True)))


def _plain(value: Any) -> Any:
    """Return a value of JSON."""
    if isinstance(value, pl.DataFrame):
        return [_plain(row) for row in value.iter_rows(named=True)]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(_plain, value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
