"""`python -m qbsa COMMAND`: small tools around the operators."""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import sys
from collections.abc import Callable, Sequence

import numpy
import torch

from . import __version__, isa, library
from .plan import show_plan


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m qbsa", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _add(commands, "env", _env, "show versions, libraries and what this machine offers")
    _add(commands, "plan", _plan, "print a plan: ranges and load of each core").add_argument(
        "file", metavar="FILE.pt", help="a metadata tensor written by torch.save"
    )
    options = parser.parse_args(arguments)
    try:
        print(options.run(options))
    except (OSError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
        print(f"python -m qbsa {options.command}: {error}", file=sys.stderr)
        return 1
    return 0


def _add(commands, name: str, run: Callable[[argparse.Namespace], str], text: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def _env(_: argparse.Namespace) -> str:
    twin = library.current()
    rows = {
        "qbsa": f"{__version__}, contract {twin.contract.constants['kAbiVersion']}",
        "python": f"{platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}",
        "machine": f"{platform.system()} {platform.machine()}, runs {' '.join(isa.supported())}",
        "threads": f"{len(os.sched_getaffinity(0))} CPUs usable",
        "twin": f"{twin.path.name}, chosen by {library.MODE_VARIABLE}={'|'.join(library.MODES)}",
        "libraries": "\n           ".join(path.name for path in library.available()),
        "npu": "no library (libqbsa_npu.so); NPU tensors are refused",
    }
    return "\n".join(f"{name:<10} {text}" for name, text in rows.items())


def _plan(options: argparse.Namespace) -> str:
    metadata = torch.load(options.file, map_location="cpu", weights_only=True)
    if not isinstance(metadata, torch.Tensor):
        raise ValueError(f"{options.file} must hold one tensor; got {type(metadata).__name__}")
    return show_plan(metadata)
