"""Read, write and evaluate TREC run and qrels files."""

from pathlib import Path
from tempfile import TemporaryDirectory

import polars_rank as pr
from polars_rank.datasets import search_log

log = search_log(queries=200)

with TemporaryDirectory() as folder:
    qrels, runs = Path(folder, "qrels.txt"), Path(folder, "runs.txt")
    pr.trec.write_qrels(log, qrels)
    pr.trec.write_run(log, runs)
    print(runs.read_text("utf-8")[:80])

    long = pr.join_judgments(pr.scan_run(runs), pr.scan_judgments(qrels))
    print(pr.evaluate(long, ["ndcg_cut_10", "map", "recip_rank", "P_5"]).collect())
