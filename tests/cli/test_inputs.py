"""Inputs of commands: all formats, standard input, judgments, and files of options."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import run
from rows import check_each
from servers import serving

import polars_rank as pr

# The path of standard input, which the application reads once.
from polars_rank.cli.sources import readable

LOG = pl.DataFrame({
    "query": [1, 1, 2, 2, 3], "doc": ["a", "b", "a", "ü", "a"],
    "score": [0.5, 0.9, 0.75, 0.25, 0.5], "label": [1, 0, 0, 2, 1],
})  # fmt: skip
# RR of the queries: 1/2, 1/2, 1.
RR = (1 / 2 + 1 / 2 + 1) / 3
QRELS = "1 0 a 1\n1 0 b 0\n2 0 a 0\n2 0 ü 2\n3 0 a 1\n"
RUN = "".join(f"{q} Q0 {d} 1 {s} mine\n" for q, d, s in LOG.select("query", "doc", "score").rows())
CSV, HEAD = LOG.write_csv(), "query,doc,score,label\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(**files: str | bytes) -> None:
    """Write files; "__" in a name is a dot."""
    for name, data in files.items():
        content = data if isinstance(data, bytes) else data.encode()
        Path(name.replace("__", ".")).write_bytes(content)


def rows(*arguments: object, metrics: str = "rr", stdin: bytes | None = None) -> Any:
    """Return the rows of an evaluation, which does not warn."""
    words = [word for each in arguments for word in str(each).split()]
    code, out, err = run("evaluate", *words, "-m", metrics, "--format", "json", stdin=stdin)
    assert (code, err) == (0, "")
    return json.loads(out)


def rr(*arguments: object, stdin: bytes | None = None) -> float:
    (row,) = rows(*arguments, stdin=stdin)
    return row["rr"]


def refused(line: str, *messages: str, stdin: bytes | None = None) -> None:
    """Check that a command prints one message, and nothing else."""
    code, out, err = run(*line.split(), stdin=stdin)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert all(message in err for message in messages), err


def lines(line: str) -> list[str]:
    code, out, err = run(*line.split(), "--format", "csv")
    assert (code, err) == (0, "")
    return sorted(out.splitlines()[1:])


def in_memory(method: str, **options: Any) -> bytes:
    file = io.BytesIO()
    getattr(LOG, f"write_{method}")(file, **options)
    return file.getvalue()


TSV, NDJSON = in_memory("csv", separator="\t"), in_memory("ndjson")
FORMATS = {
    "parquet": in_memory("parquet"), "arrow": in_memory("ipc"), "csv": CSV.encode(), "tsv": TSV,
    "ndjson": NDJSON, "csv.gz": gzip.compress(CSV.encode()), "tsv.gz": gzip.compress(TSV),
    "ndjson.gz": gzip.compress(NDJSON), "CSV": b"\xef\xbb\xbf" + CSV.replace("\n", "\r\n").encode(),
}  # fmt: skip


def test_formats() -> None:
    """They are detected by the ending, or by the first bytes."""

    def check(ending: str, data: bytes) -> None:
        for name in (f"log[1].{ending}", "log"):
            Path(name).write_bytes(data)
            assert rr(name) == RR
        assert rr("-", stdin=data) == RR

    others = [("jsonl", NDJSON), ("feather", FORMATS["arrow"]), ("ipc", FORMATS["arrow"])]
    check_each(check, [*FORMATS.items(), *others])
    write(log__txt=CSV, one="query\n1\n")  # a header of one column has no separator
    assert rr("log.txt --input-format csv") == RR
    refused("evaluate one -m rr", "--input-format")
    refused("evaluate one -m rr --input-format csv", "column 'score' (`--score`) not found")
    LOG.write_parquet("log.parquet")
    files = {name: Path(name).read_bytes() for name in ("log.parquet", "log.txt")}
    with serving({**files, "qrels": QRELS.encode(), "run": RUN.encode()}) as root:
        assert rr(f"{root}/log.parquet") == rr(f"{root}/log.txt --input-format csv") == RR
        assert rr(f"--run-file {root}/run --judgments {root}/qrels") == RR
        refused(f"evaluate {root}/gone.parquet -m rr", "404")


def test_files_that_are_refused() -> None:
    names = "csv", "tsv", "ndjson"

    def check(name: str, data: bytes | str, message: str) -> None:
        Path(name).write_bytes(data if isinstance(data, bytes) else data.encode())
        refused(f"evaluate {name} -m rr", name, message)

    def row(text: str, number: int) -> tuple[str, str, str]:
        message = f"row 4 of log.csv has {number} fields, but the header has 4: {text!r}; check"
        return "log.csv", f'{HEAD}1,"b,\n",0.9,\n1,a,0.5,1\n{text}\n2,b,0.25,0\n', message

    stream = io.BytesIO()
    LOG.write_ipc_stream(stream)
    line, utf_8 = HEAD.encode(), "has the byte 0xff, so it is not UTF-8; save the file as text in"
    check_each(check, [
        *((f"log.{name}.gz", FORMATS[f"{name}.gz"][:-9], "") for name in names),
        *((f"log.{name}.bz2", bz2.compress(FORMATS[name]), "is compressed with ")
          for name in names),
        ("log.csv.xz", lzma.compress(CSV.encode()), "decompress it first"),
        ("log.arrow", stream.getvalue(), "is an Arrow stream; write an Arrow file or Parquet"),
        *((f"log.{name}", FORMATS[name].replace(b"\n", b"\r"), "") for name in names),
        row("2,a", 2), row("2,a,1", 3), row("2,a,1,1,0", 5),
        ("log.csv", line + b"1,a\xff,1,1\n", f"line 2 of log.csv {utf_8}"),
        ("log.csv", b"query,doc\xff,score,label\n1,a,1,1\n", f"line 1 of log.csv {utf_8}"),
        ("log.csv", line + b"1,a,1,1\n1,b\xff,2\n", f"line 3 of log.csv {utf_8}"),
        ("_SUCCESS", "", "has an unknown format"),
    ])  # fmt: skip
    for name, text in {"run": RUN, "qrels": QRELS}.items():
        write(**{"run": RUN, "qrels": QRELS, name: text.replace("\n", "\r")})
        refused("evaluate run --judgments qrels -m rr", name)


def test_standard_input() -> None:
    def check(line: str, stdin: str, message: str) -> None:
        refused(line, message, stdin=stdin.encode())

    evaluate = "evaluate - -m rr"
    check_each(check, [
        (evaluate, "", "standard input is empty"),
        ("evaluate - - -m rr", "x", "use - only once"),
        (evaluate, RUN, "has no judgments; add --judgments"),
        (evaluate, QRELS, "pass judgments as --judgments"),
        (evaluate, '[{"query": 1}]', "results as --run-file"),
        (evaluate, "%PDF-1.4", "has an unknown format"),
        (evaluate, "PAR1 and no more", "standard input"),
        ("summarize - --values x -m rr", "x", "LOG cannot be used with --values"),
        ("convert - -o no.parquet", "1 Q0 a 1 2 x\n1 Q0 b 2 high x\n", "line 2 of standard input"),
    ])  # fmt: skip


def test_a_terminal_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pty = pytest.importorskip("pty", reason="terminals of POSIX")
    here, there = pty.openpty()
    with os.fdopen(there, encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        with pytest.raises(pr.errors.SourceError, match="is closed or a terminal"):
            readable("-")
    os.close(here)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(pr.errors.SourceError, match="is closed or a terminal"):
        readable("-")


def test_text_files() -> None:
    """Types are inferred from all rows and files: a label of 0.5 after a thousand whole numbers."""
    body = "".join(
        f"{n},{n if n < 1100 else 'x'},1,{1 if n < 1150 else 0.5}\n" for n in range(1200)
    )
    write(a__csv=HEAD + body)
    mean = pytest.approx((1150 + 50 / 2) / 1200)
    assert rows("*.csv", metrics="cg") == [{"queries": 1200, "cg": mean}]
    for number in range(12):
        label = 0.5 if number == 11 else 1
        write(**{f"part-{number:02}__csv": f"{HEAD}{number},a,1,{label}\n"})
    assert lines("evaluate part-*.csv -m cg") == [f"12,{(11 + 0.5) / 12}"]
    for text, expected in {
        "": "0,,", "1,a,,1\n1,b,,0\n": "1,0.0,0.0", "1,a,0.5,\n": "1,0.0,0.0"
    }.items():  # fmt: skip
        write(log__csv=HEAD + text)
        assert run(*"evaluate log.csv -m rr,ndcg --format csv".split())[1].split()[1:] == [expected]
    # Invalid rows are counted; values of rows are no parameters.
    for row, message in {
        "1,a,nan,1": "1 of 2 rows: column 'score' (`--score`) has NaN or infinite values",
        "`label`,a,0.5,inf": "e.g. {'query': '`label`'",
        "1,b,0.5,1": "1 document: column 'doc' (`--doc`) has duplicates",
        "1,a,high,1": "column 'score' (`--score`) must be numeric; found String",
    }.items():
        write(log__csv=f"{HEAD}{row}\n1,b,0.5,0\n")
        assert message in run(*"evaluate log.csv -m rr".split())[2]
    # A kept column of words is none of numbers, whatever they look like.
    write(log__csv="query,doc,score,label,name\n1,a,0.5,1,nan\n")
    assert lines("per-query log.csv -m rr --keep name") == ["1,nan,1.0"]


def test_ids_are_text() -> None:
    table = pl.DataFrame({
        "query": ["01", "01", "1", "1"], "doc": ["007", "08", "007", "7"], "run": ["1"] * 4,
        "score": [0.5, 0.9, 0.5, 0.4], "label": [1, 0, 1, 0], "country": ["03", "03", "3", "3"],
    })  # fmt: skip
    for name, text in {"a.csv": table.write_csv(), "a.ndjson": table.write_ndjson()}.items():
        Path(name).write_text(text, "utf-8")
        assert lines(f"evaluate {name} -m rr") == ["1,2,0.75"]
        assert lines(f"evaluate {name} -m rr --by run,country") == ["1,03,1,0.5", "1,3,1,1.0"]
        listed = ["01,03,0.5", "1,3,1.0"]
        assert lines(f"per-query {name} -m rr --run= --keep country") == listed
        found = lines(f"summarize {name} -m rr --by country --run=")
        assert [line.split(",")[:3] for line in found] == [["03", "rr", "0.5"], ["3", "rr", "1.0"]]
    # Judgments are joined by them.
    write(
        qrels="01 0 007 1\n01 0 d9 1\n1 0 7 1\n", log__csv="query,doc,score\n01,007,0.5\n1,7,0.5\n"
    )
    assert lines("per-query log.csv --judgments qrels -m recall") == ["01,0.5", "1,1.0"]
    write(qrels="1 0 7 1\n1 0 d9 1\n")
    pl.DataFrame({"query": 1, "doc": [7, 8], "score": [0.5, 0.6]}).write_parquet("log.parquet")
    assert lines("per-query log.parquet --judgments qrels -m recall") == ["1,0.5"]
    pl.DataFrame({"query": [1], "doc": [7.0], "score": [0.5]}).write_parquet("log.parquet")
    refused("evaluate log.parquet --judgments qrels -m rr", "do the ids match? e.g. '7.0' and '7'")


def test_folders_and_patterns() -> None:
    for index, part in enumerate(LOG.partition_by("query")):
        Path(f"log/day={index}").mkdir(parents=True)
        part.write_parquet(f"log/day={index}/part.parquet")
    write(**{"log/_SUCCESS": "", "log/_committed_1": "{}"})  # of Spark
    for paths in ("log", "log/*", "log/day=*", "log/day=*/", "log/**", "log/*/*"):
        assert rr(paths) == RR, paths
    assert rr(*sorted(Path("log").iterdir())) == RR
    Path("text").mkdir()
    write(**{"text/log__csv": CSV, "text/_SUCCESS": ""})
    assert rr("text/*") == RR
    refused("evaluate text -m rr", "directory 'text' has no .parquet files")
    Path("other").mkdir()
    LOG.head(2).write_parquet("other/1.parquet")
    LOG.slice(2).drop("doc").with_columns(day=1).write_parquet("other/2.parquet")
    advice = "set `--missing-columns` to 'insert' or `--extra-columns` to 'ignore'"
    refused("evaluate other -m rr --doc=", advice)
    assert rr("other --doc= --missing-columns insert --extra-columns ignore") == RR
    message = "--extra-columns needs Parquet files"
    refused("evaluate text/log.csv -m rr --extra-columns ignore", message)


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("needs a file system on which names are bytes")
    write(log__csv=CSV)
    for name in ("\udcff.csv", "\udcff.parquet"):
        (folder / name).write_bytes(FORMATS[name[2:]])
    for path in (folder / "\udcff.csv", folder / "\udcff.parquet", folder / "*.parquet"):
        code, _, err = run("evaluate", path, "-m", "rr")
        assert (code, err.count("\n"), "is not UTF-8; rename the file" in err) == (2, 1, True)
    assert run("evaluate", "log.csv", "-m", "rr", "-o", folder / "out\udcff.csv")[0] == 0
    code, _, err = run("evaluate", folder / "not there\udcff.csv", "-m", "rr")
    assert (code, "not found" in err) == (2, True)


def test_conventions_of_a_file() -> None:
    LOG.rename({"query": "qid", "label": "grade"}).write_parquet("log.parquet")
    log = "log.parquet --query qid --label grade --conventions ours.toml"
    write(ours__toml='base = "lightgbm"\nundefined = "skip"\n[parameters]\ngain = "linear"\n')
    ours = pr.conventions.LIGHTGBM.but(undefined="skip", parameters={"gain": "linear"})
    expected = pr.evaluate(LOG, ["ndcg@1", "ap"], conventions=ours).row(0, named=True)
    assert rows(log, metrics="ndcg@1 ap") == [pytest.approx(expected)]
    write(ours__toml='tie = "best"')
    refused(f"evaluate {log} -m rr", "invalid choice 'tie'; available: ")
    write(ours__toml="gate = " + "[" * 5_000 + "]" * 5_000)
    refused(f"evaluate {log} -m rr", "nested too deeply")


def test_per_query_values() -> None:
    """A table names its conventions, and may have no runs."""
    LOG.write_parquet("log.parquet")
    means = pr.evaluate(LOG, "ndcg@1", conventions="lightgbm")["ndcg@1"].to_list()
    for name in ("values.parquet", "values.csv"):
        run(*f"per-query log.parquet -m ndcg@1 --conventions lightgbm -o {name}".split())
        code, out, _ = run("summarize", "--values", name, "--format", "json")
        assert (code, [row["mean"] for row in json.loads(out)]) == (0, means)
    problem = "Error: --conventions cannot be used with --values, which has per-query values\n"
    refused("summarize --values values.csv --conventions polars_rank", problem)
    write(values__csv="query,run,rr\n1,a,1.0\n2,b,0.5\n3,b,0.0\n")
    found = lines("summarize --values values.csv")
    assert [line.split(",")[:3] for line in found] == [["rr", "a", "1.0"], ["rr", "b", "0.25"]]
    without = lines("summarize --values values.csv --run=")
    write(values__csv="query,rr\n1,1.0\n2,0.5\n3,0.0\n")
    assert lines("summarize --values values.csv") == without
    write(values__csv="query,run,rr\n1,a,1.0\n1,a,0.5\n2,b,0.0\n")
    shown = "in 2 rows, e.g. {'run': 'a', 'query': '1'}"
    refused("compare --values values.csv --baseline a", "duplicate rankings", shown)


# --- judgments and results ----------------------------------------------------------------------


def test_judgments_can_be_joined_to_any_log() -> None:
    write(qrels=QRELS, run=RUN)
    table = LOG.drop("label")
    table.write_parquet("run.parquet")
    table.rename({"query": "q", "doc": "d", "score": "s"}).write_csv("other.csv")
    for log in ("run", "run.parquet", "other.csv --query q --doc d --score s"):
        assert rr(f"{log} --judgments qrels") == RR
    assert rr("- --judgments qrels", stdin=RUN.encode()) == RR
    assert rr("run --judgments -", stdin=QRELS.encode()) == RR
    both = pl.concat([table.with_columns(model=pl.lit(name)) for name in "AB"])
    both.write_csv("both.csv")
    found = rows("both.csv --judgments qrels --by model")
    assert [(row["model"], row["rr"]) for row in found] == [("A", RR), ("B", RR)]
    # Negative labels are unjudged, as in trec_eval, or kept.
    write(qrels=QRELS.replace("1 0 b 0", "1 0 b -1"))
    for word, mean in {"unjudged": (1 + 2 + 1) / 3, "keep": (0 + 2 + 1) / 3}.items():
        found = rows(f"run --judgments qrels --negative {word}", metrics="cg")
        assert found[0]["cg"] == pytest.approx(mean)
    for word, label in (("unjudged", None), ("keep", -1)):
        run(*f"convert run --judgments qrels --negative {word} -o a.parquet --overwrite".split())
        assert pl.read_parquet("a.parquet").filter(query="1", doc="b")["label"].item() == label
    assert run("convert", "-o", "b.parquet", "--judgments", "qrels")[0] == 0
    assert pl.read_parquet("b.parquet").columns == ["query", "doc", "label"]
    write(qrels="q1 0 a 1\nq1 0 b\n")
    refused("convert -o c.parquet --judgments qrels", "line 2")
    assert not Path("c.parquet").exists()


def test_results_and_judgments_in_any_format() -> None:
    golden = [{"id": 1, "query": "a?", "relevant": ["b"], "category": "x"},
              {"id": 2, "query": "b?", "relevant": ["c"], "category": "y"}]  # fmt: skip
    write(golden__jsonl="\n".join(map(json.dumps, golden)))
    write(results__json='{"1": {"results": ["a", "b"], "category": "x"}, "2": {"results": []}}')
    files = "--judgments golden.jsonl --run-file results.json"
    assert rr(files) == 0.25
    assert lines(f"evaluate {files} -m rr --by category") == ["x,1,0.5", "y,1,0.0"]
    refused(f"evaluate results.json {files} -m rr", "give one of the two")
    refused("evaluate --run-file results.json -m rr", "has no judgments; add --judgments")
    message = "column 'doc' (`--doc`) not found; available: 'id', 'query', "
    refused("evaluate golden.jsonl --judgments golden.jsonl -m rr", message)


def test_ids_that_never_match() -> None:
    write(bm25="1 Q0 10 1 2 a\n1 Q0 11 2 1 a\n")
    of_documents = "no retrieved document is judged (2 retrieved, 1 judged)"
    of_queries = "no ranked query is judged (1 ranked, 1 judged)"

    def check(command: str, qrels: str = "1 0 d10 1\n", message: str = of_documents) -> None:
        write(qrels=qrels)
        code, out, err = run(*command.split(), "bm25", "--judgments", "qrels")
        *read, error = err.splitlines()  # convert says what was read
        assert (code, out) == (2, "")
        assert error.startswith(f"Error: run 'a': {message}: do the ids match? e.g. '1")
        assert len(read) == 2 * command.startswith("convert")
        assert {path.name for path in Path().iterdir()} == {"bm25", "qrels"}

    check_each(check, [
        ("evaluate -m rr", "q1 0 10 1\n", of_queries),
        ("evaluate -m rr",), ("per-query -m rr",), ("compare -m rr --baseline a",),
        ("explain rr --versus ranx",), ("convert -o out.parquet",), ("check --rule rr>=0",),
    ])  # fmt: skip
    # Ids that occur are a warning.
    write(bm25="1 Q0 10 1 2 a\n2 Q0 12 1 1 a\n", qrels="1 0 d10 1\n3 0 10 1\n")
    code, _, err = run(*"evaluate bm25 --judgments qrels -m rr".split())
    assert (code, [line.partition(" (")[0] for line in err.splitlines()]) == (0, [
        "Warning: 1 of 2 judged queries is in no run",
        "Warning: run 'a': no retrieved document is judged",
    ])  # fmt: skip


def test_fields_name_what_judgments_and_results_have() -> None:
    """No name but "doc" is known; the RR is 1/2."""
    write(judgments__csv="prompt,doc,relevancy\nq,a,0\nq,b,2\n")
    write(results__jsonl='{"number": "q", "found": ["a", "b"]}\n')
    read = "--judgments judgments.csv --run-file results.jsonl"
    fields = "--fields judgments.query=prompt,results.query=number,label=relevancy,results=found"
    assert rr(f"{read} {fields}") == 0.5
    found = [
        "1 ranking from results.jsonl: query 'number', results 'found'",
        "1 query from judgments.csv: query 'prompt', doc 'doc', label 'relevancy'",
    ]
    for line in (
        f"evaluate {read} {fields} -m rr --verbose",
        f"convert {read} {fields} -o a.parquet",
    ):
        assert run(*line.split())[2].splitlines()[:2] == found
    assert found[1] in run(*f"gate judgments.csv results.jsonl {fields}".split())[1]
    # Options of columns name fields, of the file that has them.
    read += " --fields results=found"
    named = "no field is known as the query; name it, as in --fields query=number"
    refused(f"evaluate {read} --query prompt -m rr", named)
    write(judgments__csv="number,doc,relevancy\nq,a,0\nq,b,2\n")
    read += " --query number"
    assert rr(f"{read} --label relevancy") == 0.5
    assert rr(f"{read} --fields label=") == 1.0
    check_each(lambda options, message: refused(f"evaluate {read} {options} -m rr", message), [
        ("", "write --fields label=relevancy; if there is no label"),
        ("--label relevanc", "'relevanc'"),
        ("--label relevancy --fields label=x", "--label relevancy differs from --fields label=x\n"),
        ("--fields labels=x", "unknown role 'labels'. Did you mean 'label'"),
        ("--fields relevancy", "`--fields` must be ROLE=FIELD"),
        ("--query number,doc", "--query must name one field of --run-file and --judgments"),
    ])  # fmt: skip


def test_options_name_columns_of_a_log_and_fields_of_judgments() -> None:
    write(log__csv="q,item,points\n1,a,2\n1,b,1\n", judgments__csv="q,item,stars\n1,b,1\n")
    names = "log.csv --judgments judgments.csv --query q --doc item --score points"
    assert rr(f"{names} --label stars") == 0.5
    refused(f"evaluate {names} --label start -m rr", "no field 'start'")
    write(results__csv="query,doc,distance\n1,a,2\n1,b,1\n", qrels="1 0 b 1\n")
    read = "--run-file results.csv --judgments qrels"
    assert rr(f"{read} --score=-distance") == 1.0
    assert rr(f"{read} --score distance") == 0.5


def test_runs_of_several_files_have_names() -> None:
    write(qrels="q 0 a 1\n", one__txt="q Q0 a 1 2 tag\nq Q0 b 2 1 tag\n")
    write(other__txt="q Q0 b 1 2 tag\nq Q0 a 2 1 tag\n")
    files = "--judgments qrels --run-file {} --run-file {}"

    def check(one: str, other: str, expected: dict[str, float]) -> None:
        found = rows(files.format(one, other))
        assert {row["run"]: row["rr"] for row in found} == expected

    check_each(check, [
        ("one.txt", "other.txt", {"one": 1.0, "other": 0.5}),
        ("prod=one.txt", "new=other.txt", {"prod": 1.0, "new": 0.5}),
        ("a=one.txt", "b=one.txt", {"a": 1.0, "b": 1.0}),
    ])  # fmt: skip
    message = "several runs have the name 'x'"
    refused(f"evaluate {files.format('x=one.txt', 'x=other.txt')} -m rr", message)
    refused(f"evaluate {files.format('one.txt', 'x=nowhere')} -m rr", "nowhere' not found")
