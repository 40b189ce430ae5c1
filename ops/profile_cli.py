"""`python -m qbsa profile CASE`: see profile.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import profile
from .console import Answer, Console

TEXT = "model where the time of a call goes on a chip"
EXAMPLES = """
python -m qbsa profile prefill_8k_quarter
python -m qbsa profile decode_b8 --soc 950DT --json
python -m qbsa profile steady_128 --trace t.json --png t.png   for Perfetto, and as a picture"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a named case (python -m qbsa bench --list), a file of one own case, or a bundle"
    parser.add_argument("case", metavar="CASE", help=text)
    parser.add_argument("--soc", default="950PR", help="chip of the model: 950PR (default), 950DT or 950DT36")
    parser.add_argument("--trace", type=Path, metavar="FILE.json", help="write a Chrome trace")
    parser.add_argument("--png", type=Path, metavar="FILE.png", help="draw the trace; needs qbsa[plot]")
    parser.add_argument("--groups", type=int, default=1, metavar="N", help="groups in trace and picture (default 1)")


def run(options: argparse.Namespace, _: Console) -> Answer:
    with profile.kept_or_temporary(options.trace) as path:
        trace = path if options.trace or options.png else None
        result = profile.profile_case(options.case, options.soc, trace, options.groups)
        if options.png:
            profile.plot(path, options.png, f"{result.case} on {options.soc}")
    return Answer(result.table(), {"case": result.case, **result.report})
