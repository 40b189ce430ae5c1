#!/usr/bin/env python3
"""Stands in for the compiler of CANN: records the command line, then builds the NPU sources for the virtual device.

Knows the options that tools/build_npu.py gives and refuses others. QBSA_BISHENG_LOG: file that gets each command line
as a line of JSON.
"""

import argparse
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-pthread", "-ffp-contract=off", "-fvisibility=hidden"]


def main() -> int:
    if log := os.environ.get("QBSA_BISHENG_LOG"):
        with open(log, "a") as file:
            file.write(json.dumps(sys.argv[1:]) + "\n")
    options = parse(sys.argv[1:])
    compiler = os.environ.get("CXX", "g++")
    if options.shared:
        folders = [f"-L{folder}" for folder in options.L] + [f"-l{name}" for name in options.l]
        command = [compiler, "-shared", "-pthread", "-Wl,-Bsymbolic", *options.files, *folders, "-o", options.o]
        return subprocess.run(command).returncode
    (source,) = map(Path, options.files)
    text = source.read_text()
    folders = [HERE / "include", ROOT / "twin", *options.I]
    if options.x == "asc":
        if options.npu_arch != "dav-3510":
            raise SystemExit(f"the virtual device is a dav-3510; got --npu-arch={options.npu_arch}")
        typecheck = runpy.run_path(str(ROOT / "tools" / "typecheck" / "typecheck.py"))
        text = typecheck["rewrite_launches"](text, "::virtual_device::launch")
    isa = runpy.run_path(str(ROOT / "ops" / "isa.py"))
    machine = isa["compiler_options"](isa["supported"]()[-1])
    command = [compiler, *FLAGS, *machine, "-DQBSA_TWIN_CHECKED=0", f"-iquote{source.parent}"]
    command += [f"-I{folder}" for folder in folders] + ["-include", str(HERE / "bisheng.h")]
    command += ["-c", "-x", "c++", "-", "-o", options.o]
    return subprocess.run(command, input=f'#line 1 "{source}"\n{text}', text=True).returncode


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="stand-in for bisheng", allow_abbrev=False)
    parser.add_argument("files", nargs="+")
    parser.add_argument("-x", choices=["asc", "aicpu"])
    parser.add_argument("--npu-arch")
    for name in ("-I", "-L", "-l", "-D"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("-o", required=True)
    for name in ("-c", "-shared", "-fPIC", "-O2", "-O3", "-std=c++17", "--cce-aicpu-laicpu_api"):
        parser.add_argument(name, action="store_true")
    known, unknown = parser.parse_known_args(arguments)
    unknown = [option for option in unknown if not option.startswith("--cce-aicpu-L")]
    if unknown:
        parser.error(f"unknown options {unknown}")
    return known


if __name__ == "__main__":
    sys.exit(main())
