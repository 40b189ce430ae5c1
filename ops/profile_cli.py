"""`python -m qbsa profile CASE`: see profile.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import cases, profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    known = "; ".join(f"{name}: {case.text}" for name, case in cases.CASES.items())
    parser.add_argument("case", metavar="CASE", help=f"the path of a bundle, or {known}")
    parser.add_argument("--soc", default="950PR", help="chip of the model: 950PR (default), 950DT or 950DT36")
    parser.add_argument("--trace", type=Path, metavar="FILE.json", help="write a Chrome trace")
    parser.add_argument("--png", type=Path, metavar="FILE.png", help="draw the trace; needs matplotlib, qbsa[plot]")
    parser.add_argument("--groups", type=int, default=1, metavar="N", help="groups in trace and picture (default 1)")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(options: argparse.Namespace) -> str:
    with profile.kept_or_temporary(options.trace) as path:
        trace = path if options.trace or options.png else None
        result = profile.profile_case(options.case, options.soc, trace, options.groups)
        if options.png:
            profile.plot(path, options.png, f"{result.case} on {options.soc}")
    return result.json() if options.json else result.table()
