"""Invalid usage and input: one message that names the option, and exit code 2."""

from __future__ import annotations

import shlex
from pathlib import Path

import polars as pl
import pytest
from commands import run
from rows import check_each

import polars_rank as pr

#: Command lines and parts of the messages.
ERRORS = {
    'evaluate LOG --metrics ndgc@10': "Did you mean 'ndcg@10'",
    'evaluate LOG': "Missing option '--metrics'",
    "evaluate LOG --metrics ap --run ''": 'more than once in a ranking',
    'evaluate LOG --metrics ap --by runs': "Did you mean 'run'",
    'evaluate LOG --metrics ap --label country': 'must be numeric',
    'evaluate no.parquet --metrics ap': "'no.parquet' not found",
    'evaluate --metrics ap': 'missing argument LOG',
    'evaluate LOG --metrics ap --judgments q': "file 'q' not found",
    'evaluate --judgments q -m ap': 'missing argument LOG, or results',
    'evaluate LOG -m ap --rel nan': '`--rel` must be',
    'evaluate LOG -m ap --undefined two': '`--undefined` must be one of',
    "evaluate LOG -m ap --undefined ndgc=one": "metric 'ndgc' (`--undefined`) is not evaluated",
    'evaluate LOG --metric ap': 'Did you mean',
    'evaluate LOG -m ndcg10': "unknown metric 'ndcg10'. Did you mean 'ndcg@10'?",
    'evaluate LOG -m ap --conventions RecBole': 'see the page tasks/recbole of the guide',
    'help compre': "Did you mean 'compare'",
    'explain ndgc': "Did you mean 'ndcg'",
    'explain ndcg LOG': 'name the conventions to compare with: --versus',
    'explain ndcg --conventions no.toml': "in 'no.toml'",
    'evaluate LOG --metrics ap --ties never': '--ties',
    'evaluate LOG --metrics ap --by run -o no/a.csv': "does not exist; create it first",
    'convert -o out.parquet': '--judgments, or both',
    'generate out.parquet --queries -1': '`--queries` must be',
    "evaluate '' -m ap": '`path` has an empty path; name a file',
    "evaluate LOG -m ap --judgments ''": '--judgments is empty; give it a value, or omit it',
    'evaluate LOG -m ap --by=': '--by is empty; give it a value, or omit it',
    'frobnicate': 'frobnicate',
    'evaluate LOG -m ap --doc docs': "Did you mean 'doc'",
    "movers LOG -m 'ap rr' --baseline a": '`--metric` must be one metric',
    "evaluate LOG -m ap --by 'run query'": "column 'query' is used for both",
    'evaluate LOG -m ap --by run -o out.xlsx': "must end in .txt, .csv, .json, .ndjson, .jsonl,",
    'generate out.csv': 'the output is Parquet and must end in .parquet',
    'evaluate LOG -m ap --by run --conventions lightgmb': "unknown preset 'lightgmb'",
    'evaluate LOG no.csv -m ap': 'files of different formats',
    'evaluate no.csv -m ap --layout sorted': '--layout needs Parquet files',
    'evaluate no.csv -m ap --memory 1GB': '--memory needs Parquet files',
    'summarize LOG': 'a log needs metrics',
    'summarize --values TABLE --judgments LOG': '--judgments cannot be used with --values',
    'summarize --values LOG': 'so it is a log with one row per document',
    'summarize LOG -m ap --cluster doc': "'doc'",
    'summarize LOG -m ap --weight wieght': "column 'wieght' (`--weight`) not found",
    'summarize LOG -m ap --run runs': "column 'runs' (`--run`) not found",
    'summarize --values TABLE --ties best': '--ties cannot be used with --values, which has',
    'summarize TABLE -m rr': 'not found; available',
    'summarize --values TABLE -m ap': "column 'ap' (`--metrics`) not found",
    'summarize LOG -m ndcg@10 ap': "'ap' not found",
    'compare --values TABLE --run query --baseline 1': "used for both `--run` and `--query`",
    'compare LOG -m ap --baseline odl': "available: 'new', 'old'",
    'compare --values TABLE --baseline old': "column 'run' (`--run`) not found",
    'compare LOG -m ap --baseline old --margin two': '`--margin` must',
    'compare LOG -m ap --baseline old --slices county': "Did you mean 'country'",
    'check LOG': 'give a rule, e.g.',
    "check LOG --rule 'ap is good'": 'invalid rule',
    "check LOG --rule 'queries > 1'": 'a log needs metrics',
    "check LOG --rule 'difference(ap) > 0'": 'pr.compare has the column',
    "check LOG --rule 'contribution(ap) > 0' --baseline old": 'which has no confidence interval',
    "check --values TABLE -m rr --rule 'ap > 0'": "column 'ap' (`--metrics`) not found",
    'check LOG --rules no.toml': "in 'no.toml'",
    "check LOG --rule 'ap > 0' --junit no/gate.xml": "does not exist; create it first",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("errors")
    log = pr.datasets.search_log(60, 10, seed=1, runs=["old", "new"])
    log.sink_parquet(folder / "LOG.parquet")
    table = pl.DataFrame({"query": range(12), "rr": [1.0, 0.5, 0.5, 1.0] * 3})
    table.write_csv(folder / "TABLE.csv")
    return folder


def test_an_error_is_one_message_and_exit_code_2(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    files = {"LOG": "LOG.parquet", "TABLE": "TABLE.csv"}
    wrong = []
    for line, text in ERRORS.items():
        code, out, err = run(*[files.get(word, word) for word in shlex.split(line)])
        if text not in err or (code, out, err.count("\n")) != (2, "", 1):
            wrong.append((line, text, code, out, err))
        if {path.name for path in folder.iterdir()} != {*files.values()}:
            wrong.append((line, "wrote a file"))
            break
    assert not wrong, "\n".join(map(str, wrong))


#: Exceptions that end a command, with the exit code and a part of the message.
ENDS: list[tuple[BaseException, int, str]] = [
    (MemoryError(), 2, "not enough memory; reading LOG.parquet"),
    (pl.exceptions.PanicException("index out of bounds"), 2, "Polars failed (index out of bounds)"),
    (ZeroDivisionError("by zero"), 2, "Error: internal error: ZeroDivisionError: by zero; please "
     "report it with the output of --debug\n"),
    (SystemExit(1), 2, "internal error: SystemExit: 1"),
    (EOFError("no line"), 2, "internal error: EOFError: no line"),
    (KeyboardInterrupt(), 130, ""),
]  # fmt: skip


def test_only_a_rule_that_fails_exits_with_1(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    code, _, err = run("evaluate", "LOG.parquet", "-m", "ndgc")
    code, out, debugged = run("--debug", "evaluate", "LOG.parquet", "-m", "ndgc")
    assert (code, out, debugged[:9], debugged.endswith(err)) == (2, "", "Traceback", True)

    def check(error: BaseException, code: int, text: str) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("polars_rank.cli.calls.public", fail)
        found = run("evaluate", "LOG.parquet", "-m", "ap")
        assert (found[0], found[1], text in found[2]) == (code, "", True), found

    check_each(check, ENDS)
