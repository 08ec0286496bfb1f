"""`report`: one page with means, comparisons, charts and slices of rankings."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from polars_rank._params import OPTIONS, public
from polars_rank._polars import files
from polars_rank.conventions import POLARS_RANK, Definitions
from polars_rank.errors import missing_extra, recorded_warnings, warn
from polars_rank.frames.tables import lazy
from polars_rank.io.files import first_names
from polars_rank.io.outputs import new_file, temporary_folder
from polars_rank.plot.drawing import altair
from polars_rank.plot.run_styles import BRIGHTER
from polars_rank.reporting.charts import chart_context
from polars_rank.reporting.evidence import gather
from polars_rank.reporting.page_formats import FILTERS
from polars_rank.reporting.question import Question
from polars_rank.reporting.sections import context
from polars_rank.stats._arrays import require_scipy

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jinja2 import Template

    from polars_rank._params import Names
    from polars_rank.columns import Label, Score
    from polars_rank.conventions import ConventionsLike
    from polars_rank.errors import RankWarning
    from polars_rank.gates.rules import Rules
    from polars_rank.metrics.names import Metrics


class ReportOptions(Definitions, total=False):
    """The options of `report` that are those of `evaluate`: columns, and fields of conventions."""

    query: Names
    doc: str | None
    score: Score
    label: Label
    position: str | None


OPTIONS["ReportOptions"] = [*ReportOptions.__annotations__]

#: Rules for the colors of runs, which charts and tables have in their light version.
_DARKER = """
[fill="{light}"] {{ fill: light-dark({light}, {dark}); }}
[stroke="{light}"] {{ stroke: light-dark({light}, {dark}); }}
[style*="color:{light}"] {{ color: light-dark({light}, {dark}) !important; }}
"""


@public
def report(
    log: Any,
    metrics: Metrics,
    *,
    run: str | None = "run",
    baseline: Any = None,
    by: Names | None = None,
    slices: Names | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
    rules: Rules | None = None,
    path: str | os.PathLike[str] = "report.html",
    overwrite: bool = False,
    title: str | None = None,
    show: Names | None = None,
    conventions: ConventionsLike = POLARS_RANK,
    **options: Unpack[ReportOptions],
) -> Path:
    """Write an HTML report of a log: a single file that works offline.

    The page has a headline, means with intervals, comparisons with the baseline, charts, slices,
    the best and worst queries with their documents, statistics of the log, verdicts of gates, and
    the method. The headline and the best and worst queries are based on the first metric. There is
    no headline if fewer than half of the first documents are judged, up to the cutoff or rank 10,
    unless all labels are relevant, as those of purchases are.

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

    Parameters
    ----------
    log
        The log, one row per document of a ranking, as in `evaluate`.
    metrics
        Metrics, by name or as expressions. They must be means over rankings. The first one
        determines the headline.
    run
        Column of the run. None for a log of one run.
    baseline
        Run that the others are compared with. Without a baseline, all pairs of up to 10 runs are
        compared.
    by
        Columns to group by. The page has a section with the means of each group. A query that is in
        several groups, such as days, is one unit of intervals and p-values over all groups, with a
        warning.
    slices
        Columns that define slices, such as the country of the query. The page shows differences
        from the baseline by slice, or means without a baseline.
    weight
        Column of weights, 0 or more, such as the traffic of the query. It has one value per
        ranking. All means and comparisons use it.
    cluster
        Columns that identify the sampling unit, such as the user. They have one value per ranking.
        All intervals and p-values use them.
    rules
        Rules as in `check`, about all queries or the groups of `by`, and about slices. Their
        verdicts are shown, and a failed rule does not raise. With a baseline, rules on means apply
        to the other runs. A rule whose interval contains the threshold fails, unless a file of
        rules says otherwise.
    path
        The file to write.
    overwrite
        Whether to replace an existing file.
    title
        Title of the page.
    show
        Columns to show with the best and worst queries, such as the text of the query and the title
        of the document. Columns with one value per query are shown with the query, others with each
        document. Addresses, such as "https://example.org/items/7", are links.
    conventions
        Metric definitions to use.
    **options
        `query`, `doc`, `score`, `label` and `position`: columns, with the same defaults as in
        `evaluate`. Fields of `Conventions`, such as `ties`, which take precedence over
        `conventions`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    SourceError
        If the file already exists, is an input, or cannot be written, or if its directory does not
        exist.
    DataError
        As in `evaluate`.
    MissingExtraError
        If jinja2, altair, vl-convert or scipy is not installed (extra "report").

    Notes
    -----
    The log is read up to five times: for per-query values, which are stored in a temporary file,
    for metrics at several cutoffs, for statistics of the log, for its labels, and for the documents
    of the queries that are shown. One more time, broken runs are looked for, and with a baseline,
    up to six times, the first verdict is tried under the choices of `diagnostics.robustness`.
    Memory is flat if that of `evaluate` is.
    After an error, no file is written and an existing file is unchanged.

    All intervals have the confidence level 95%. Differences have the verdicts of `compare`, whose
    intervals and p-values are corrected for the number of comparisons.

    The page escapes all text from the log, and its content security policy blocks all requests. In
    its CSV downloads, text that a spreadsheet would run as a formula has an apostrophe in front.
    """
    return write_report(
        log, metrics, run=run, baseline=baseline, by=by, slices=slices, weight=weight,
        cluster=cluster, rules=rules, path=path, overwrite=overwrite, title=title, show=show,
        conventions=conventions, **options,
    )  # fmt: skip


def write_report(
    log: Any, metrics: Metrics, *, path: str | os.PathLike[str], overwrite: bool = False,
    title: str | None = None, undecided: str | None = None, source: Sequence[str] = (),
    progress: bool = False, **parameters: Any,
) -> Path:  # fmt: skip
    """Write a report.

    The command also passes the verdict of undecided rules, the names of the files that it has
    read, and whether to show a progress bar.
    """
    altair(extra="report")
    try:
        import jinja2  # noqa: F401, PLC0415  (an extra)
        import vl_convert  # noqa: F401, PLC0415  (an extra)
    except ImportError as error:
        raise missing_extra(extra="report", cause=error) from error
    require_scipy()
    rows = lazy(log, "log", collects=True)
    question = Question.of(rows, metrics, undecided=undecided, progress=progress, **parameters)
    with new_file(path, overwrite=overwrite, inputs=[rows, parameters["rules"]]) as part:
        with temporary_folder() as folder, recorded_warnings(of_plans=True) as recorded:
            evidence = gather(rows, question, folder / "values.parquet")
            content = {**context(evidence, question), **chart_context(evidence, question)}
        # One warning of each kind: those of several tables differ by numbers and examples.
        alerts: dict[str, RankWarning] = {}
        for message in recorded:
            problem = str(message).partition(", e.g. ")[0].partition(": ")[0]
            alerts.setdefault(re.sub(r"\d[\d,.]*| rows?\b", "", problem), message)
        for message in alerts.values():
            warn(str(message), type(message))
        content["alerts"] = [*map(str, alerts.values())]
        content["files"] = [*source] or first_names(files(rows))
        compared = "" if question.baseline is None else f": comparison with {question.baseline}"
        content["title"] = title or f"Ranking report{compared}"
        content["generated"] = datetime.now().astimezone()
        content.update(_assets(with_charts=bool(content["charts"]["kinds"])))
        text = _template().render(content)
        part.write_text(text, "utf-8", "backslashreplace")  # a command line may not be UTF-8
    return Path(path)


@cache
def _template() -> Template:
    """Return the template of the page, whose compilation takes longer than its rendering."""
    import jinja2  # noqa: PLC0415

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("polars_rank.reporting"), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(FILTERS)
    return environment.get_template("report.html")


@cache
def _assets(*, with_charts: bool) -> dict[str, Any]:
    """Return styles, scripts, and a content security policy that only allows these scripts."""
    from markupsafe import Markup  # noqa: PLC0415  (comes with jinja2)

    folder = resources("polars_rank.reporting") / "templates"
    style, script = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js"))
    style += "".join(_DARKER.format(light=light, dark=dark) for light, dark in BRIGHTER.items())
    from vl_convert import javascript_bundle  # noqa: PLC0415  (an extra)

    # Vega, Vega-Lite and vega-embed, which sets `window.vegaEmbed`.
    bundle: Any = javascript_bundle
    scripts = [script, *([bundle().replace("\r\n", "\n")] if with_charts else [])]
    hashes = (base64.b64encode(hashlib.sha256(each.encode()).digest()) for each in scripts)
    allowed = " ".join(f"'sha256-{each.decode()}'" for each in hashes)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    texts = {"style": style, "script": script, "vega": scripts[-1] if with_charts else ""}
    return {**{name: Markup(each) for name, each in texts.items()}, "policy": Markup(policy)}  # noqa: S704
