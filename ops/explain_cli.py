"""`python -m qbsa explain CASE|BUNDLE`: see explain.py and explain_page.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import bench, cases, explain, explain_page
from .console import Answer, Console

TEXT = "show what one call selects, how its plan divides it and where its time goes, on one page"
EXAMPLES = """
python -m qbsa explain chunk_1k_on_16k                   text here, page in explain_chunk_1k_on_16k.html
python -m qbsa explain recorded/call_0000.pt -o page.html --soc 950DT
python -m qbsa explain decode_b8 --no-page --splits 0    text alone, needs no matplotlib; lists may be cut"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a named case (python -m qbsa bench --list), a file of one own case, or a bundle"
    parser.add_argument("case", metavar="CASE", help=text)
    parser.add_argument("--soc", default="950PR", help="chip of plan and clock: 950PR (default), 950DT or 950DT36")
    parser.add_argument("--splits", type=int, default=1, metavar="N", help="max_kv_splits of the plan (default 1)")
    page = parser.add_mutually_exclusive_group()
    text = "the page, one HTML file with its pictures; needs qbsa[plot]; default: explain_CASE.html here"
    page.add_argument("-o", "--output", type=Path, metavar="FILE.html", help=text)
    page.add_argument("--no-page", action="store_true", help="write no page")
    text = "host time that the clock may take (default %(default)s); a longer call is explained without it"
    parser.add_argument("--limit", type=float, default=bench.Settings.limit, metavar="SECONDS", help=text)


def run(options: argparse.Namespace, console: Console) -> Answer:
    source = cases.find_one(options.case)
    console.detail(f"running {source.name} on the clock of {options.soc}")
    explained = explain.explain(source, options.soc, options.limit, options.splits)
    answer = explain.text(explained)
    if not options.no_page:
        path = options.output or Path(f"explain_{source.name}.html")
        explain_page.write(explained, path)
        answer += f"\n\npage: {path}"
    return Answer(answer, explain.as_json(explained))
