"""`python -m qbsa COMMAND`: small tools around the operators."""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy
import torch

from . import __version__, bundle, bundle_maker, isa, library, npu, profile_cli, selfcheck
from .plan import plot_plan, show_plan


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m qbsa", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _add(commands, "env", _env, "show versions, libraries and what this machine offers")
    show = _add(commands, "plan", _plan, "print a plan: ranges and load of each core")
    show.add_argument("file", metavar="FILE.pt", help="a metadata tensor written by torch.save")
    show.add_argument("--png", type=Path, metavar="OUT.png", help="draw it too; needs matplotlib")
    _add_bundle_commands(commands)
    _add_selfcheck_command(commands)
    text = "model where the time of a call goes on a chip"
    profile_cli.add_arguments(_add(commands, "profile", profile_cli.run, text))
    options = parser.parse_args(arguments)
    try:
        print(options.run(options))
    except (OSError, NotImplementedError, RuntimeError, TypeError, ValueError, pickle.UnpicklingError) as error:
        print(f"python -m qbsa {options.command}: {error}", file=sys.stderr)
        return 1
    return 0


def _add(commands, name: str, run: Callable[[argparse.Namespace], str], text: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def _add_bundle_commands(commands) -> None:
    text = "make, verify and list bundles: the arguments of one call and what it must return, in one file"
    actions = commands.add_parser("bundle", help=text, description=text).add_subparsers(dest="action", required=True)

    make = _add(actions, "make", _make_bundle, "make a bundle; in a checkout, whose tests hold the truth and the cases")
    make.add_argument("source", help="a case of the tests by its id, or a file: torch.save of the keyword arguments")
    make.add_argument("-o", "--output", type=Path, metavar="FILE.pt", help="default: the case id or file name, here")
    make.add_argument("--layout-q", choices=("TND", "NTD"), default="TND", help="of a case; a file has its own")

    named = f"default: those of the package, and those that {bundle.FOLDER_VARIABLE} (a folder) and "
    named += f"{bundle.MANIFEST_VARIABLE} (JSON, case id -> path) name"
    verify = _add(actions, "verify", _verify_bundles, "replay bundles; exit code 1 if one fails")
    verify.add_argument("--device", help=f"default: {bundle.DEVICE_VARIABLE}, else cpu")
    for command in (verify, _add(actions, "list", _list_bundles, "show ids, shapes and sizes of bundles")):
        command.add_argument("paths", nargs="*", type=Path, metavar="PATH", help=f"bundles or folders; {named}")


def _add_selfcheck_command(commands) -> None:
    text = "check an installation on its device, from bundles to the profiler, and write a report"
    check = _add(commands, "selfcheck", _selfcheck, text)
    check.add_argument("--device", help=f"default: {bundle.DEVICE_VARIABLE}, else npu:0 if there is one, else cpu")
    check.add_argument("-o", "--output", type=Path, metavar="FILE", default=Path("qbsa_selfcheck.txt"))


def _make_bundle(options: argparse.Namespace) -> str:
    made = bundle_maker.make(options.source, options.layout_q)
    path = options.output or Path(f"{made.case_id}.pt")
    bundle.save(made, path)
    return f"{path}: {path.stat().st_size} bytes, {_shapes(made)}"


def _verify_bundles(options: argparse.Namespace) -> str:
    paths = _bundle_paths(options.paths)
    print(f"{'bundle':<48} {'values':>10} {'misses':>8} {'worst error':>12} {'of cap':>7} {'LSE error':>10}  result")
    failed = 0
    for path in paths:
        try:
            golden = bundle.load(path)
            out, *lse = bundle.replay(golden, options.device)
        except (OSError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            failed += 1
            print(f"{path.stem:<48} error: {error}", flush=True)
            continue
        failures = [failure for report in (out, *lse) for failure in report.failures]
        failed += bool(failures)
        numbers = f"{out.elements:>10} {out.misses:>8} {out.worst_error:>12.2e} {out.worst_share:>7.0%} "
        numbers += f"{lse[0].worst_error:>10.2e}" if lse else f"{'-':>10}"
        print(f"{golden.case_id:<48} {numbers}  {'; '.join(failures) or 'ok'}", flush=True)
    if failed:
        raise RuntimeError(f"{failed} of {len(paths)} bundles failed")
    return f"{len(paths)} of {len(paths)} bundles replay within tolerance"


def _list_bundles(options: argparse.Namespace) -> str:
    lines = []
    for path in _bundle_paths(options.paths):
        golden = bundle.load(path)
        lse = "no LSE" if golden.expected_lse is None else "LSE"
        lines.append(
            f"{golden.case_id}: {path.stat().st_size} bytes, {_shapes(golden)}, {lse}, {golden.origin or path}"
        )
    return "\n".join(lines)


def _shapes(golden: bundle.Bundle) -> str:
    names = ("query", "key", "sparse_indices")
    return ", ".join(f"{name} {list(golden.inputs[name].shape)}" for name in names)


def _bundle_paths(given: Sequence[Path]) -> list[Path]:
    paths: list[Path] = []
    for path in given:
        paths += sorted(path.glob("*.pt")) if path.is_dir() else [path]
    paths = paths if given else bundle.committed() + bundle.named_by_environment()
    if not paths:
        raise FileNotFoundError("there is no bundle (*.pt) where it looked")
    return paths


def _env(_: argparse.Namespace) -> str:
    twin, record = library.current(), npu.build_record()
    rows = {
        "qbsa": f"{__version__}, contract {twin.contract.constants['kAbiVersion']}",
        "python": f"{platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}",
        "machine": f"{platform.system()} {platform.machine()}, runs {' '.join(isa.supported())}",
        "threads": f"{len(os.sched_getaffinity(0))} CPUs usable",
        "twin": f"{twin.path.name}, chosen by {library.MODE_VARIABLE}={'|'.join(library.MODES)}",
        "libraries": "\n           ".join(path.name for path in library.available()),
        "build": f"git {record['git']}, {record['compiler']}",
        "npu": npu.state(),
    }
    if record["npu"]:
        rows["npu build"] = ", ".join(f"{name} {version}" for name, version in record["npu"].items())
    return "\n".join(f"{name:<10} {text}" for name, text in rows.items())


def _selfcheck(options: argparse.Namespace) -> str:
    environment = _env(options)
    npu_there = hasattr(torch, "npu") and torch.npu.is_available()
    device = options.device or os.environ.get(bundle.DEVICE_VARIABLE) or ("npu:0" if npu_there else "cpu")
    print(environment, flush=True)
    passed, report = selfcheck.run(device, options.output.parent, environment)
    options.output.write_text(report + "\n")
    if not passed:
        raise RuntimeError(f"a check failed; attach {options.output} to an issue")
    return f"all checks passed; report in {options.output}"


def _plan(options: argparse.Namespace) -> str:
    metadata = torch.load(options.file, map_location="cpu", weights_only=True)
    if not isinstance(metadata, torch.Tensor):
        raise ValueError(f"{options.file} must hold one tensor; got {type(metadata).__name__}")
    text = show_plan(metadata)
    if options.png:
        plot_plan(metadata, options.png)
    return text
