"""Sphinx configuration of the documentation site: `python -m sphinx -W examples/guide OUT`.

Two parts of the site are generated when it is built: the index of the reference, from the
package's docstring and the public names, and the images of the gallery, by its own code.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

import polars_rank as pr

HERE = Path(__file__).parent
#: Families of metrics and their metrics, as on the page of metrics.
_FAMILIES = {
    title: re.findall(r"^### `(\w+)`", section, re.MULTILINE)
    for title, section in re.findall(
        r"^## (.+?)\n(.*?)(?=^## |\Z)",
        (HERE / "metrics.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    if "### `" in section
}
_METRICS = {name for names in _FAMILIES.values() for name in names}

project = "polars_rank"
author = "the polars_rank developers"
project_copyright = author
version = release = pr.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
exclude_patterns = ["_templates", "_static"]
templates_path = ["_templates"]
default_role = "py:obj"  # docstrings name functions and parameters in single backticks
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

# A list, because the index is written only now: a scan for documents may have missed it.
autosummary_generate = ["reference/index.rst"]
# Two names that differ only in case cannot be two files on every system.
autosummary_filename_map = {"polars_rank.Metric": "polars_rank.Metric_class"}
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # the sections of the docstrings describe types
numpydoc_show_class_members = False
add_module_names = False

smartquotes = False  # quotes in docstrings are code
toc_object_entries = False  # a page of the reference has one object

html_theme = "pydata_sphinx_theme"
html_title = "polars_rank"
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "polars_rank"},
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": {"**": ["page-toc"], "peers": []},  # its table is wide
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "navigation_depth": 2,
    "header_links_before_dropdown": 8,
    # Both pass axe's color contrast.
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
#: Pages without others below them have no sidebar.
_ALONE = ("coming_from", "gallery", "index", "performance", "start")
html_sidebars = {page: [] for page in _ALONE}


def setup(app: Sphinx) -> None:
    """Connect what the site needs beyond the extensions."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
    # Before autosummary, which creates a page for each name in the index.
    app.connect("builder-inited", _write_reference, priority=100)
    app.connect("builder-inited", _draw_gallery)
    # Before numpydoc, which reads the sections.
    app.connect("autodoc-process-docstring", _process_docstring, priority=100)


# Formulas are MathML: browsers display it without a script, so that the site works offline.
def _inline_math(writer: Any, node: Any) -> None:
    writer.body.append(convert(node.astext()))
    raise SkipNode


def _block_math(writer: Any, node: Any) -> None:
    formula = convert(node.astext(), display="block")
    writer.body.append(f'<div class="formula" tabindex="0">{formula}</div>')
    raise SkipNode


def _process_docstring(
    _app: Sphinx, _what: str, name: str, obj: object, _options: object, lines: list[str]
) -> None:
    """Turn formulas between dollar signs into math of reStructuredText; describe presets."""
    if isinstance(obj, pr.Conventions):
        lines[:] = _preset(obj)
        return
    text = re.sub(r"\$\$(.+?)\$\$", _display, "\n".join(lines), flags=re.DOTALL)
    text = re.sub(r"(?<![\w`$\\])\$([^$`\n]+)\$(?![\w$])", r":math:`\1`", text)
    metric = name.removeprefix("polars_rank.")
    if metric in _METRICS:
        link = f"`Range, ties and names in other tools <../metrics.html#{metric}>`__"
        text = re.sub(r"^(?=\w+\n-{3,}$)", f"{link}\n\n", text, count=1, flags=re.MULTILINE)
    lines[:] = text.split("\n")


def _display(formula: re.Match[str]) -> str:
    return f"\n.. math:: {' '.join(formula[1].split())}\n"


def _preset(conventions: pr.Conventions) -> list[str]:
    """Return the choices of a preset that are not the defaults."""
    default = pr.Conventions()
    spelling = conventions.name.lower()
    lines = [f"Metric definitions of {conventions.name}, also as `conventions={spelling!r}`."]
    lines += ["", "The choices that differ from the defaults:"] if conventions != default else []
    for each in fields(conventions):
        value = getattr(conventions, each.name)
        if each.name != "name" and value != getattr(default, each.name):
            lines += ["", f"- ``{each.name}``: ``{value!r}``"]
    return lines


def _write_reference(_app: Sphinx) -> None:
    """Write the index of the reference, from which autosummary creates a page for each name."""
    text = inspect.getdoc(pr) or ""
    left = {
        name: None
        for name in pr.__all__
        if name not in _METRICS and not isinstance(getattr(pr, name), ModuleType)
    }
    sections = [_REFERENCE]
    # The groups of the package's docstring: a title, and a list that names functions.
    for title, bullets in re.findall(r"^(\w[\w ]*):\n\n((?:- .*\n|  .*\n)+)", text, re.MULTILINE):
        names = [name for name in re.findall(r"`(\w+)`", bullets) if name in left]
        for name in names:
            left.pop(name, None)
        sections.append(_section(title, [f"polars_rank.{name}" for name in dict.fromkeys(names)]))
    sections.append(_section("Methods of data frames", ["polars_rank.Ranking"]))
    del left["Ranking"]
    if left:
        message = f"the docstring of polars_rank does not list {', '.join(left)}"
        raise ExtensionError(message)
    sections.append(_heading("Metrics", "=") + _METRICS_TEXT)
    for title, names in _FAMILIES.items():
        sections.append(_section(title, [f"polars_rank.{name}" for name in names], "-"))
    for name in pr.__all__:
        if isinstance(module := getattr(pr, name), ModuleType):
            summary = (inspect.getdoc(module) or "").partition("\n\n")[0]
            names = [f"{module.__name__}.{each}" for each in module.__all__]
            sections.append(_section(f"pr.{name}", names, text=summary))
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    for page in folder.glob("*.rst"):
        page.unlink()
    (folder / "index.rst").write_text("\n\n".join(sections) + "\n", encoding="utf-8")


_REFERENCE = """\
Reference
#########

``pr`` stands for ``polars_rank``, as in ``import polars_rank as pr``. Each name has a page with its
definition, its parameters and examples. The tests run the examples.
"""
_METRICS_TEXT = """\
:doc:`/metrics` has all formulas on one page, with the range of each metric and its names in other
tools.
"""


def _section(title: str, names: list[str], underline: str = "=", text: str = "") -> str:
    lines = "\n".join(f"   ~{name}" for name in names)
    options = f"   :toctree:\n   :nosignatures:\n   :caption: {title}"
    return f"{_heading(title, underline)}{text}\n\n.. autosummary::\n{options}\n\n{lines}"


def _heading(title: str, underline: str) -> str:
    return f"{title}\n{underline * len(title)}\n\n"


def _draw_gallery(_app: Sphinx) -> None:
    """Run the code of the gallery, which saves its charts."""
    text = (HERE / "gallery.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    folder = HERE / "charts"
    folder.mkdir(exist_ok=True)
    names: dict[str, Any] = {}
    with contextlib.chdir(folder):
        for block in code:
            exec(compile(block, "gallery.md", "exec"), names)  # noqa: S102
