"""Texts of users, such as names of runs, in output for readers: one function per format."""

from __future__ import annotations

import re

#: Control characters, line separators, marks that change the direction of text, and characters that
#: are not valid Unicode.
_INVISIBLE = (
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
#: Length at which text for readers is cut off.
_LONGEST = 500

#: Markup of Markdown, and beginnings of links and mentions, whose last character is escaped.
_MARKUP = re.compile(
    r"[\\`*|~<&]|\](?=[(\[])|(?<![^\W_])_|_(?![^\W_])|\b(?:https?|ftp|mailto|xmpp):"
    r"|\bwww\.|(?<![0-9a-z])@(?=\w)",
    re.IGNORECASE,
)
#: A mention notifies people, also after a backslash, but not with an invisible space in it.
_ENTITIES = {"<": "&lt;", "&": "&amp;", "@": "@&#8203;"}


def visible(text: str) -> str:
    r"""Return text with invisible and invalid characters as in Python's strings.

    Examples
    --------
    >>> from polars_rank._texts import visible
    >>> print(visible("a\0b\u2028"))
    a\x00b\u2028
    """
    return re.sub(_INVISIBLE, lambda found: ascii(found[0])[1:-1], text)


def displayed(text: str) -> str:
    """Return text for readers: visible, and cut off after a few lines."""
    text = visible(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"


def markdown(text: str) -> str:
    """Return text without markup, links and mentions of Markdown."""

    def escaped(found: re.Match[str]) -> str:
        last = found[0][-1]
        return found[0][:-1] + _ENTITIES.get(last, f"\\{last}")

    return _MARKUP.sub(escaped, displayed(text))
