"""Sphinx configuration of the site: `python -m sphinx -W examples/guide OUT`.

Two parts are generated when the site is built: the index of the reference, from
the package's docstring and the public names, and the charts, by the code of the
gallery and of the docstrings.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import re
import warnings
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

import polars_rank as pr
from polars_rank.conventions import PRESETS
from polars_rank.plot.drawing import config
from polars_rank.plot.run_styles import BRIGHTER

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
#: Parameters that functions share, and their first sentences.
_SHARED = dict(
    re.findall(
        r"^### `(\w+)`\n\n([^.]+)",
        (HERE / "parameters.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)

project = "polars_rank"
author = "polars_rank contributors"
project_copyright = author
version = release = pr.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_templates", "_static"]
templates_path = ["_templates"]
# Docstrings name functions and parameters in single backticks.
default_role = "py:obj"
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence", "substitution"]
_PEERS = (HERE / "peers.md").read_text(encoding="utf-8")
#: Counts in the text, written {{ presets }} and {{ tools }}.
myst_substitutions = {
    "presets": len(PRESETS),
    "tools": len(re.findall(r"^Preset: ", _PEERS, re.MULTILINE)),
}
myst_heading_anchors = 3

# A list, because the index is written only now: a scan for documents may have
# missed it.
autosummary_generate = ["reference/index.rst"]
# Two names that differ only in case cannot be two files on every system.
autosummary_filename_map = {"polars_rank.Metric": "polars_rank.Metric_class"}
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # the sections of the docstrings describe types
numpydoc_show_class_members = False
add_module_names = False

# The button copies commands and code, without prompts and output.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"

smartquotes = False  # quotes in docstrings are code
toc_object_entries = False  # a page of the reference has one object

html_theme = "pydata_sphinx_theme"
html_title = "polars_rank"
html_static_path = ["_static"]
# For language models: an index of the pages, and the skill.
html_extra_path = ["llms.txt", "../../polars_rank/skills/polars-rank/SKILL.md"]
html_css_files = ["guide.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "polars_rank"},
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "navigation_depth": 2,
    "header_links_before_dropdown": 7,
    # Both pass axe's color contrast.
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
#: Pages without others below them have no sidebar.
_ALONE = (
    "coming_from",
    "gallery",
    "index",
    "performance",
    "stability",
    "start",
)
html_sidebars = {page: [] for page in _ALONE}

#: Names of metrics in other tools.
_ALIASES = dict(pr.list_metrics().select("metric", "aliases").iter_rows())
#: Folder of the charts, and the names of charts of the reference.
_CHARTS = "charts"
#: The colors of runs and of text on light pages, and those on dark pages.
_DARK = {
    **BRIGHTER,
    "#1f2328": "#e8eaed",
    "#57606a": "#b0b6be",
    "#d0d7de": "#454b54",
}
_REFERENCE_CHART = "reference_{name}"


def setup(app: Sphinx) -> None:
    """Connect what the site needs beyond the extensions."""
    app.add_html_math_renderer(
        "mathml", (_inline_math, None), (_block_math, None)
    )
    # Before autosummary, which creates a page for each name in the index.
    app.connect("builder-inited", _write_reference, priority=100)
    app.connect("builder-inited", _draw_charts)
    # Before numpydoc, which reads the sections.
    app.connect("autodoc-process-docstring", _process_docstring, priority=100)
    for transform in (_Text, _Names, _Charts):
        app.add_transform(transform)


# Formulas are MathML: browsers display it without a script, so that the site
# works offline.
def _inline_math(writer: Any, node: Any) -> None:
    writer.body.append(convert(node.astext()))
    raise SkipNode


def _block_math(writer: Any, node: Any) -> None:
    formula = convert(node.astext(), display="block")
    block = f'<div class="formula" tabindex="0">{formula}</div>'
    writer.body.append(block)
    raise SkipNode


class _Text(SphinxTransform):
    """Metrics such as ndcg@10 are text, not addresses of mail."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for link in [*self.document.findall(nodes.reference)]:
            if link.get("refuri", "").startswith("mailto:"):
                link.replace_self(nodes.Text(link.astext()))


class _Names(SphinxTransform):
    """The search finds functions by their names in words and in other tools."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for signature in [*self.document.findall(addnodes.desc_signature)]:
            target, *_ = signature["ids"] or [""]
            entries = [
                ("single", name, target, "main", None)
                for name in _names(target.removeprefix("polars_rank."))
            ]
            parent = signature.parent
            parent.parent.insert(
                parent.parent.index(parent), addnodes.index(entries=entries)
            )


def _names(path: str) -> list[str]:
    """Return the other names of a public name: in words, and of other tools."""
    name = path.rpartition(".")[2]
    names = [name.replace("_", " ")]
    if name in _METRICS:
        summary = (inspect.getdoc(getattr(pr.metrics, name)) or "").partition(
            "\n"
        )[0]
        title, colon, _ = summary.partition(":")
        names += [title.lower()] if colon else []
        aliases = _ALIASES[name]
        names += [*aliases, *(each.replace("_", " ") for each in aliases)]
    return [each for each in dict.fromkeys(names) if each != name]


class _Charts(SphinxTransform):
    """Charts are light or dark, as the page; the reference has some, too."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        docname = self.env.docname
        name = docname.removeprefix("reference/polars_rank.plot.")
        drawn = _REFERENCE_CHART.format(name=name)
        if (HERE / _CHARTS / f"{drawn}.svg").is_file():
            for content in [*self.document.findall(addnodes.desc_content)]:
                uri = f"../{_CHARTS}/{drawn}.svg"
                alt = f"The chart that the example draws: {name}"
                content.append(nodes.image(uri=uri, alt=alt))
        for image in [*self.document.findall(nodes.image)]:
            if f"{_CHARTS}/" in image["uri"]:
                dark = image.deepcopy()
                dark["uri"] = image["uri"].replace(".svg", "-dark.svg")
                dark["classes"] += ["only-dark"]
                image["classes"] += ["only-light"]
                image.parent.insert(image.parent.index(image) + 1, dark)


def _process_docstring(
    _app: Sphinx,
    _what: str,
    name: str,
    obj: object,
    _options: object,
    lines: list[str],
) -> None:
    """Turn formulas between dollar signs into math; describe presets."""
    if isinstance(obj, pr.Conventions):
        lines[:] = _preset(obj)
        return
    text = "\n".join(lines)
    # numpydoc moves a section of examples to the end, and text stays in place.
    text = re.sub(r"(?m)^Examples\n-+$", ".. rubric:: Examples\n", text)
    text = re.sub(r"\$\$(.+?)\$\$", _display, text, flags=re.DOTALL)
    inline = r"(?<![\w`$\\])\$([^$`\n]+)\$(?![\w$])"
    text = re.sub(inline, r":math:`\1`", text)
    metric = name.removeprefix("polars_rank.metrics.")
    if metric in _METRICS:
        title = "Range, ties and names in other tools"
        link = f"`{title} <../metrics.html#{metric}>`__\n\n"
        section = re.compile(r"^(?=\w+\n-{3,}$)", re.MULTILINE)
        text = section.sub(link, text, count=1)
    lines[:] = _linked(text).split("\n")


def _linked(text: str) -> str:
    """Return a docstring in which shared parameters are links to their page."""

    def linked(entry: re.Match[str]) -> str:
        name, description = entry["name"], entry["text"].rstrip()
        sentence = _SHARED.get(name, "\n")
        if not " ".join(description.split()).startswith(sentence):
            return entry[0]
        link = f"See `{name} <../parameters.html#{name.replace('_', '-')}>`__."
        return f"{entry['head']}\n{description} {link}\n"

    text_of = r"(?P<text>(?:    .*\n)+)(?=\S|\n\S)"
    entry = r"^(?P<head>\*{0,2}(?P<name>\w+))\n" + text_of
    return re.sub(entry, linked, text, flags=re.MULTILINE)


def _display(formula: re.Match[str]) -> str:
    return f"\n.. math:: {' '.join(formula[1].split())}\n"


def _preset(conventions: pr.Conventions) -> list[str]:
    """Return the choices of a preset that are not the defaults."""
    default = pr.Conventions()
    name = conventions.name
    spelling = f"`conventions={name.lower()!r}`"
    lines = [f"Metric definitions of {name}, also as {spelling}."]
    if conventions != default:
        lines += ["", "The choices that differ from the defaults:"]
    for each in fields(conventions):
        value = getattr(conventions, each.name)
        if each.name != "name" and value != getattr(default, each.name):
            lines += ["", f"- ``{each.name}``: ``{value!r}``"]
    return lines


def _write_reference(_app: Sphinx) -> None:
    """Write the index of the reference, which names each page."""
    text = inspect.getdoc(pr) or ""
    left = {
        name: None
        for name in pr.__all__
        if name not in _METRICS
        and not isinstance(getattr(pr, name), ModuleType)
    }
    sections = [_REFERENCE, _heading("Conventions of the API", "=") + _RULES]
    # The groups of the package's docstring: a title, and a list of functions.
    groups = r"^(\w[\w ]*):\n\n((?:- .*\n|  .*\n)+)"
    for title, bullets in re.findall(groups, text, re.MULTILINE):
        named = re.findall(r"`(\w+)`", bullets)
        names = dict.fromkeys(name for name in named if name in left)
        for name in names:
            del left[name]
        sections.append(_section(title, names))
    sections.append(_section("Methods of data frames", ["Ranking"]))
    del left["Ranking"]
    if left:
        missing = ", ".join(left)
        message = f"the docstring of polars_rank does not list {missing}"
        raise ExtensionError(message)
    sections.append(_heading("Metrics", "=") + _METRICS_TEXT)
    for title, names in _FAMILIES.items():
        paths = [f"metrics.{name}" for name in names]
        sections.append(_section(title, paths, "-"))
    for name in pr.__all__:
        module = getattr(pr, name)
        if isinstance(module, ModuleType) and module is not pr.metrics:
            summary, *others = (inspect.getdoc(module) or "").split("\n\n")
            notes = [each for each in others if each.startswith("Experimental")]
            names = [
                f"{name}.{each}.{inner}" if inner else f"{name}.{each}"
                for each in module.__all__
                for inner in _names_in(getattr(module, each))
            ]
            text = "\n\n".join([summary, *notes])
            sections.append(_section(f"pr.{name}", names, text=text))
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    for page in folder.glob("*.rst"):
        page.unlink()
    index = "\n\n".join(sections) + "\n"
    (folder / "index.rst").write_text(index, encoding="utf-8")


def _names_in(value: object) -> list[str]:
    """Return the public names of a module; of anything else an empty one."""
    return value.__all__ if isinstance(value, ModuleType) else [""]


_REFERENCE = """\
Reference
#########

``pr`` stands for ``polars_rank``, as in ``import polars_rank as pr``. Each name
has a page with its definition, its parameters and examples. The tests run the
examples.
"""
_RULES = """\
Names, defaults and results follow the same rules in all functions:

- ``run`` names the column of runs wherever runs are compared, or have rows or
  lines of their own; by default "run", if the table has that column. ``by``
  names the columns that split the table into groups. Functions without ``run``,
  such as ``evaluate`` and ``per_query``, take the column of runs in ``by``.
- Metrics are the second parameter, after the log or the per-query values:
  ``pr.evaluate(log, "ndcg@10")``, ``pr.compare(values, "ndcg@10", ...)``.
- ``query``, ``doc``, ``score`` and ``label`` name columns and have their own
  names as defaults. Only a default column may be missing, and only if a
  function does not need it; a missing column that you name is an error.
- ``k`` is a number of ranks (10 by default where it needs one), and ``n`` how
  many rows a function shows or selects. ``slices`` names columns of slices.
- ``rel`` is the lowest relevant label. None for ``rel``, ``ties``, ``unjudged``
  or ``undefined`` means the choice of ``conventions``.
- Results begin with the columns of groups, then ``metric``, then the run.
  ``low`` and ``high`` are the ends of each interval or range.
- Options of the command line have the names of the parameters:
  ``--min-queries`` is ``min_queries``.
"""
_METRICS_TEXT = """\
:doc:`/metrics` has all formulas on one page, with the range of each metric and
its names in other tools.
"""


def _section(
    title: str, names: Any, underline: str = "=", text: str = ""
) -> str:
    lines = "\n".join(f"   ~polars_rank.{name}" for name in names)
    options = f"   :toctree:\n   :nosignatures:\n   :caption: {title}"
    heading = _heading(title, underline)
    return f"{heading}{text}\n\n.. autosummary::\n{options}\n\n{lines}"


def _heading(title: str, underline: str) -> str:
    return f"{title}\n{underline * len(title)}\n\n"


def _draw_charts(_app: Sphinx) -> None:
    """Draw the charts of the gallery and of the docstrings, by their code."""
    folder = HERE / _CHARTS
    folder.mkdir(exist_ok=True)
    for chart in folder.glob("*.svg"):
        chart.unlink()
    text = (HERE / "gallery.md").read_text(encoding="utf-8")
    blocks = re.findall(
        r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    names: dict[str, Any] = {}
    with contextlib.chdir(folder):
        for block in blocks:
            exec(compile(block, "gallery.md", "exec"), names)  # noqa: S102
            for file in re.findall(r'chart\.save\("(\w+)\.svg"\)', block):
                _save(names["chart"], file)
        for name in pr.plot.__all__:
            if chart := _example(getattr(pr.plot, name)):
                _save(chart, _REFERENCE_CHART.format(name=name))


def _example(function: Any) -> Any:
    """Return the chart that the example of a docstring draws, if any."""
    names: dict[str, Any] = {"pl": __import__("polars"), "pr": pr}
    text = inspect.getdoc(function) or ""
    for example in doctest.DocTestParser().get_examples(text):
        if not example.options.get(doctest.SKIP):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pr.errors.RankWarning)
                exec(example.source, names)  # noqa: S102
    return names.get("chart")


def _save(chart: Any, name: str) -> None:
    """Save a chart for light and for dark pages, which differ in colors."""
    light = Path(f"{name}.svg")
    chart.configure(**config()).save(light)
    text = re.sub(
        "|".join(_DARK), lambda color: _DARK[color[0]], light.read_text("utf-8")
    )
    Path(f"{name}-dark.svg").write_text(text, encoding="utf-8")
