"""`report`: one page that says how good rankings are, which is better, and where."""

from __future__ import annotations

import base64
import hashlib
import warnings
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polars_rank._params import share, whole_number
from polars_rank._polars import files
from polars_rank.columns import DOC, RUN
from polars_rank.conventions import POLARS_RANK
from polars_rank.errors import RankWarning, missing_extra
from polars_rank.frames.tables import lazy
from polars_rank.io.files import new_file, temporary_folder
from polars_rank.plot.drawing import altair
from polars_rank.reporting.evidence import gathered
from polars_rank.reporting.formats import FILTERS
from polars_rank.reporting.pictures import pictures, shown
from polars_rank.reporting.question import Question
from polars_rank.reporting.sections import context
from polars_rank.stats.intervals import stats

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl

    from polars_rank._params import Names
    from polars_rank.columns import Score
    from polars_rank.conventions import Conventions, Duplicates, QuerySet, Ties, Undefined, Unjudged
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.gates import Rules


#: What the page's own script calls.
_NAMES = "window.vegaEmbed = vegaEmbed;"


def report(
    frame: Any,
    metrics: Metrics,
    *,
    by: Names | None = None,
    run: str | None = RUN,
    baseline: Any = None,
    slices: Names | None = None,
    rules: Rules | None = None,
    path: str | os.PathLike[str] = "report.html",
    overwrite: bool = False,
    title: str | None = None,
    source: str | Sequence[str] | None = None,
    query: Names = "query",
    doc: str | None = DOC,
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    scores: Sequence[str] | None = None,
    ties: Ties | None = None,
    rel: float | None = None,
    unjudged: Unjudged | None = None,
    query_set: QuerySet | None = None,
    duplicates: Duplicates = "error",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    confidence: float = 0.95,
    undecided: str | None = None,
    keep: Names | None = None,
    show: Names | None = None,
    worst: int = 5,
    k: int = 10,
    progress: bool = False,
) -> Path:
    """Write a report: one HTML file that opens offline, whatever the size of the log.

    The page has a headline, means with intervals, comparisons with the baseline, charts, slices,
    the best and the worst lists with their documents, what the log holds, verdicts of gates, and
    how all of it was measured. The first metric is the one that decides: the headline is about it,
    and the best and worst lists are by it.

    Parameters
    ----------
    frame, metrics
        As for `evaluate`.
    by
        Columns that split the table further: the page has a section with the means of each group.
        A list is the rows that share (run, by..., query).
    run
        The column that tells the rankings of several systems apart: "run" if there is one. None
        for a log of one run.
    baseline
        The run that the others are compared with. Without one, of up to 10 runs each is compared
        with each.
    slices
        Columns that are the same in all rows of a list, whose values are slices; with a baseline
        of differences from it, otherwise of means.
    rules
        As for `check`, whose verdicts are shown: none of them raises. With a baseline, rules on
        means are about the other runs.
    path
        The file.
    overwrite
        Replace the file if it is there already.
    title
        Of the page.
    source
        What the log was read from, to be named on the page; without it, the files that Polars or
        `scan_log` read.
    query, doc, score, label, position, scores
        As for `evaluate`.
    ties, rel, unjudged, query_set, duplicates, undefined, conventions, progress
        As for `evaluate`.
    confidence
        Of all intervals, between 0 and 1; a difference is called sure where its corrected p-value
        is below 1 - confidence.
    undecided
        Whether rules that an interval straddles "pass" or "fail", as for `check`.
    keep
        Columns that are the same in all rows of a list, to be shown with it, such as the words of
        the query.
    show
        Columns to be shown with the documents of lists, such as their titles.
    worst
        How many lists to show of each run at either end.
    k
        How many documents of each list to show.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    SourceError
        If the file is there already, or its directory is not.
    SchemaError, DataError, ArgumentError
        As for `evaluate`, `compare`, `slices` and `check`.
    MissingExtraError
        Without jinja2, altair, vl-convert or scipy (extra "report").

    Notes
    -----
    The log is read four times: for its per-query values, which are kept in a temporary file, for
    what it holds, for its labels, and for the documents of the lists that are shown. Memory does
    not grow with the log where that of `evaluate` does not. When something raises, no file is left
    and one that was there is as it was.

    What comes from the log is text to the page, never markup or code, and the page forbids itself
    to load anything.

    Examples
    --------
    >>> import tempfile
    >>> log = pr.datasets.search_log(100, runs=["bm25", "neural"])
    >>> page = pr.report(
    ...     log, ["ndcg@10", "ap"], baseline="bm25", slices="country",
    ...     path=tempfile.mkdtemp() + "/report.html",
    ... )
    >>> page.name
    'report.html'
    """
    whole_number("worst", worst)
    whole_number("k", k)
    share("confidence", confidence)
    _check_packages()
    environment = _environment()
    options = {
        "query": query, "doc": doc, "score": score, "label": label, "position": position,
        "scores": scores, "ties": ties, "rel": rel, "unjudged": unjudged,
        "query_set": query_set, "duplicates": duplicates, "conventions": conventions,
        "progress": progress,
    }  # fmt: skip
    log = lazy(frame)
    question = Question.of(
        log, metrics, by=by, run=run, baseline=baseline, slices=slices, keep=keep, show=show,
        options=options, undefined=undefined, rules=rules, undecided=undecided,
        confidence=confidence, worst=worst, k=k,
    )  # fmt: skip
    with new_file(path, overwrite=overwrite) as part, temporary_folder() as folder:
        with _heard() as warned:
            evidence = gathered(log, question, folder / "lists.parquet")
            found = {**context(evidence, question), **shown(pictures(evidence, question))}
        for warning in warned:
            warnings.warn(warning, RankWarning, stacklevel=2)
        found["cautions"] = [*warned, *found["cautions"]]
        found["files"] = _named(source) or sources(log)
        found["title"] = title or _title(question)
        found["made"] = datetime.now().astimezone()
        found.update(_parts(drawn=bool(found["kinds"])))
        part.write_text(environment.get_template("report.html").render(found), encoding="utf-8")
    return Path(path)


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Give what is warned of while the block runs, each once, when it has ended."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RankWarning)
        yield said
    for each in caught:
        if not issubclass(each.category, RankWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif str(each.message) not in said:
            said.append(str(each.message))


def sources(log: pl.LazyFrame) -> list[str]:
    """Return the files that a plan says it reads; none for a table in memory.

    Examples
    --------
    >>> from polars_rank.reporting.page import sources
    >>> sources(pl.scan_csv("logs/a.csv", schema={"query": pl.Int64}))
    ['logs/a.csv']
    """
    return files(log, r"LOG(?:, LIST BY LIST)?(?: \{.*?\})?")


def _named(source: str | Sequence[str] | None) -> list[str]:
    if source is None:
        return []
    return [source] if isinstance(source, str) else [str(each) for each in source]


def _title(question: Question) -> str:
    if question.baseline is not None:
        return f"Ranking report: against {question.baseline}"
    return "Ranking report"


def _check_packages() -> None:
    """Raise where a package is not there."""
    altair(extra="report")
    try:
        import jinja2  # noqa: F401, PLC0415  (an extra)
        import vl_convert  # noqa: F401, PLC0415  (an extra)
    except ImportError as error:
        raise missing_extra(extra="report", cause=error) from error
    stats()


@cache
def _environment() -> Any:
    """Return the templates, in which all text is escaped; it keeps those that were compiled."""
    import jinja2  # noqa: PLC0415  (an extra)

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("polars_rank.reporting"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    return made


def _parts(*, drawn: bool) -> dict[str, Any]:
    """Return style, scripts, and the policy that allows these scripts and nothing else."""
    from markupsafe import Markup  # noqa: PLC0415  (comes with jinja2)

    folder = resources("polars_rank.reporting") / "templates"
    style, script = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js"))
    scripts = [script, *([_vega()] if drawn else [])]
    allowed = " ".join(f"'sha256-{_hash(each)}'" for each in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    texts = {"style": style, "script": script, "vega": scripts[-1] if drawn else ""}
    return {**{name: Markup(each) for name, each in texts.items()}, "policy": Markup(policy)}  # noqa: S704


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _vega() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script."""
    from vl_convert import javascript_bundle  # noqa: PLC0415  (an extra)

    bundle: str = javascript_bundle(_NAMES)
    return bundle.replace("\r\n", "\n")
