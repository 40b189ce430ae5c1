"""`python -m qbsa COMMAND`: tools around the operators."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import pickle
import platform
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from . import __version__, bench_cli, bundle, bundle_cli, explain_cli, isa, library, npu, profile_cli, selfcheck
from .console import Answer, Console
from .plan import plot_plan, read_plan, show_plan

EXIT_CODES = """exit codes:
  0  done, and every check passed
  1  could not be done, or a check failed; the reason is on stderr
  2  the command line is wrong
"""
_INTERRUPTED, _PIPE_CLOSED = 130, 141  # 128 and the signal, as shells have it
_ERRORS = (
    ImportError,
    OSError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)

Run = Callable[[argparse.Namespace, Console], Answer]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code, see EXIT_CODES."""
    options = _parser().parse_args(arguments)
    console = Console(options.quiet, options.verbose, options.json)
    try:
        answer = options.run(options, console)
        if options.json:
            print(json.dumps(_finite(answer.data), indent=1, default=str))
        elif answer.text and not options.quiet:
            print(answer.text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter's flush at exit complains
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except _ERRORS as error:
        if options.verbose:
            traceback.print_exc()
        print(f"python -m qbsa {options.command}: {error}", file=sys.stderr)
        return 1
    if answer.failure:
        print(f"python -m qbsa {options.command}: {answer.failure}", file=sys.stderr)
        return 1
    return 0


def _finite(data: Any) -> Any:
    """JSON has no NaN and no inf: they become strings."""
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m qbsa",
        description=__doc__,
        epilog=EXIT_CODES + "\nErrors and what to do: docs/troubleshooting.md",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"qbsa {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add(commands, "env", _env, "show versions, libraries and what this machine offers")
    check = add(
        commands, "selfcheck", _selfcheck, "check an installation, from bundles to the profiler; write a report"
    )
    check.add_argument("--device", help=f"default: {bundle.DEVICE_VARIABLE}, else npu:0 if there is one, else cpu")
    check.add_argument("-o", "--output", type=Path, metavar="FILE", default=Path("qbsa_selfcheck.txt"))
    bench = add(commands, "bench", bench_cli.run_bench, bench_cli.BENCH_TEXT, bench_cli.BENCH_EXAMPLES)
    bench_cli.add_bench_arguments(bench)
    read = add(commands, "kernels", bench_cli.run_kernels, bench_cli.KERNELS_TEXT, bench_cli.KERNELS_EXAMPLES)
    bench_cli.add_kernels_arguments(read)
    profile = add(commands, "profile", profile_cli.run, profile_cli.TEXT, profile_cli.EXAMPLES)
    profile_cli.add_arguments(profile)
    explain_cli.add_arguments(add(commands, "explain", explain_cli.run, explain_cli.TEXT, explain_cli.EXAMPLES))
    bundle_cli.add_commands(commands, add)
    show = add(commands, "plan", _plan, "print a plan: ranges and load of each core", PLAN_EXAMPLES)
    show.add_argument("file", metavar="FILE.pt", help="a metadata tensor written by torch.save")
    show.add_argument("--png", type=Path, metavar="OUT.png", help="draw it too; needs qbsa[plot]")
    return parser


PLAN_EXAMPLES = """
python -m qbsa plan metadata.pt --png load.png           torch.save(metadata, "metadata.pt") before"""


def add(commands: Any, name: str, run: Run, text: str, examples: str = "") -> argparse.ArgumentParser:
    """A command with the options that all have."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"examples:{examples.replace(chr(10), chr(10) + '  ')}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    common = parser.add_argument_group("output")
    common.add_argument("--json", action="store_true", help="the answer as JSON on stdout")
    loudness = common.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="no text, no progress: errors and the exit code")
    loudness.add_argument("-v", "--verbose", action="store_true", help="more on stderr; a traceback with an error")
    return parser


def _env(_: argparse.Namespace, __: Console) -> Answer:
    rows = environment()
    return Answer(_lines(rows), rows)


def _lines(rows: dict[str, str | list[str]]) -> str:
    texts = {name: value if isinstance(value, str) else ("\n" + " " * 11).join(value) for name, value in rows.items()}
    return "\n".join(f"{name:<10} {text}" for name, text in texts.items())


def environment() -> dict[str, str | list[str]]:
    """Versions, libraries and what this machine offers."""
    twin, record = library.current(), npu.build_record()
    rows: dict[str, str | list[str]] = {
        "qbsa": f"{__version__}, contract {twin.contract.constants['kAbiVersion']}",
        "python": f"{platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}",
        "machine": f"{platform.system()} {platform.machine()}, runs {' '.join(isa.supported())}",
        "threads": f"{len(os.sched_getaffinity(0))} CPUs usable",
        "twin": f"{twin.path.name}, chosen by {library.MODE_VARIABLE}={'|'.join(library.MODES)}",
        "libraries": [path.name for path in library.available()],
        "build": f"git {record['git']}, {record['compiler']}",
        "npu": npu.state(),
    }
    if record["npu"]:
        rows["npu build"] = ", ".join(f"{name} {version}" for name, version in record["npu"].items())
    return rows


def _selfcheck(options: argparse.Namespace, console: Console) -> Answer:
    rows = environment()
    npu_there = hasattr(torch, "npu") and torch.npu.is_available()
    device = options.device or os.environ.get(bundle.DEVICE_VARIABLE) or ("npu:0" if npu_there else "cpu")
    console.say(_lines(rows))
    passed, report = selfcheck.run(device, options.output.parent, _lines(rows), console.say)
    options.output.write_text(report + "\n")
    data = {"passed": passed, "device": device, "environment": rows, "report": report.splitlines()}
    if not passed:
        return Answer("", data, f"a check failed; attach {options.output} to an issue")
    return Answer(f"all checks passed; report in {options.output}", data)


def _plan(options: argparse.Namespace, _: Console) -> Answer:
    metadata = torch.load(options.file, map_location="cpu", weights_only=True)
    if not isinstance(metadata, torch.Tensor):
        raise ValueError(f"{options.file} must hold one tensor; got {type(metadata).__name__}")
    text = show_plan(metadata)
    if options.png:
        plot_plan(metadata, options.png)
    return Answer(text, dataclasses.asdict(read_plan(metadata)))
