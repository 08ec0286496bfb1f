"""Formats of numbers and values on the page."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from polars_rank._texts import displayed
from polars_rank.errors import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Shown for missing numbers.
NOTHING = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"
#: Maximum number of names in a sentence.
_MAX_NAMES = 6
#: Numbers from this value on have two decimals.
_LARGE = 100
_LINK = re.compile(r"https?://\S+")


def number(value: float | None, digits: int = 4) -> str:
    """Format the value of a metric.

    Examples
    --------
    >>> from polars_rank.reporting.page_formats import number
    >>> number(0.41236), number(-1234.5), number(0.00008), number(0.0000123), number(None)
    ('0.4124', '−1,234.50', '0.0001', '0.0000123', '–')
    """
    if value is None or math.isnan(value):
        return NOTHING
    if value and abs(value) < 10**-digits / 2:  # would be 0
        text = f"{value:.3g}" if abs(value) < 10 ** -(digits + 4) else f"{value:.{digits + 3}f}"
    else:
        text = f"{value:,.{digits if abs(value) < _LARGE else 2}f}"
    return text.replace("-", _MINUS)


def signed(value: float | None) -> str:
    """Format a difference with its sign.

    Examples
    --------
    >>> from polars_rank.reporting.page_formats import signed
    >>> signed(0.05), signed(-0.05), signed(0.0)
    ('+0.0500', '−0.0500', '0.0000')
    """
    text = number(value)
    return f"+{text}" if value is not None and value > 0 else text


def percent(value: float | None, *, sign: bool = False) -> str:
    """Format a share in percent.

    Examples
    --------
    >>> from polars_rank.reporting.page_formats import percent
    >>> percent(0.123), percent(-0.1, sign=True), percent(0.0004), percent(None)
    ('12.3%', '−10.0%', '0.04%', '–')
    """
    if value is None or math.isnan(value):
        return NOTHING
    digits = 1 if abs(value) >= 0.01 or not value else 2
    text = f"{value:+,.{digits}%}" if sign and value else f"{value:,.{digits}%}"
    return text.replace("-", _MINUS)


def count(value: float | None) -> str:
    """Format an integer with commas."""
    return NOTHING if value is None else f"{value:,.0f}".replace("-", _MINUS)


def p_value(value: float | None) -> str:
    """Format a p-value, as "< 0.001" if smaller.

    Examples
    --------
    >>> from polars_rank.reporting.page_formats import p_value
    >>> p_value(0.0123), p_value(1e-9), p_value(None)
    ('0.012', '< 0.001', '–')
    """
    if value is None or math.isnan(value):
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def text(value: Any) -> str:
    """Format an id, a label or another value of a column; long ones are cut off.

    Examples
    --------
    >>> from polars_rank.reporting.page_formats import text
    >>> text(None), text(b"ab"), text(2.0), text({"a": 1})
    ('null', "b'ab'", '2', 'a=1')
    """
    return displayed(whole_text(value))


def whole_text(value: Any) -> str:
    """Format a value of a column."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return ", ".join(f"{name}={whole_text(each)}" for name, each in value.items())
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def is_link(value: Any) -> bool:
    """Return whether a value is the address of a page.

    Examples
    --------
    >>> from polars_rank.reporting.page_formats import is_link
    >>> is_link("https://example.org/a?b=1"), is_link("javascript:alert(1)"), is_link(None)
    (True, False, False)
    """
    return isinstance(value, str) and _LINK.fullmatch(value) is not None


def listed(names: Sequence[str]) -> str:
    """Return the first names as text.

    Examples
    --------
    >>> from polars_rank.reporting.page_formats import listed
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    shown = [*names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        shown.append(f"{len(names) - _MAX_NAMES} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


#: Filters of the templates.
FILTERS: dict[str, Callable[..., object]] = {
    "number": number, "signed": signed, "percent": percent, "count": count, "p_value": p_value,
    "text": text, "number_of": number_of, "is_link": is_link,
}  # fmt: skip
