"""Builds the libraries into the package: the twin with the C++ compiler and, on a CANN machine, the NPU part.
Everything else is in pyproject.toml.

Environment: CXX, the compiler (default g++); QBSA_ISA, instruction sets to build for (default: all of ops/isa.py);
QBSA_BUILD, auto, npu or cpu: whether to build the NPU part (tools/build_npu.py), which needs torch and torch_npu;
QBSA_SANITIZE, 1: with AddressSanitizer and UndefinedBehaviorSanitizer (make sanitize).
"""

import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
SOURCE = "twin/twin.cpp"
INCLUDES = ("twin", "kernels_ascendc")
DEPENDENCY_FOLDERS = (*INCLUDES, "metadata")
FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-shared", "-pthread"),
    *("-ffp-contract=off", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-Wall", "-Wextra"),
)
SANITIZED = ("-O1", "-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", "-fsanitize=address,undefined")
SANITIZE = os.environ.get("QBSA_SANITIZE") == "1"
ISA = runpy.run_path(str(ROOT / "ops" / "isa.py"))
NPU = runpy.run_path(str(ROOT / "tools" / "build_npu.py"))
BUILD_RECORD = "_build.json"
library_name = ISA["library_name"]


class BuildTwin(Command):
    """Compiles what is older than its sources, in build/twin and build/npu; copies all to the package."""

    description = "compile the libraries of qbsa"
    user_options = [("build-lib=", None, "folder of the built package"), ("inplace", None, "put libraries into ops")]
    boolean_options = ["inplace"]
    editable_mode = False  # set by setuptools

    def initialize_options(self):
        self.build_lib, self.inplace = None, False

    def finalize_options(self):
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self):
        folder = ROOT / "build" / ("twin_sanitized" if SANITIZE else "twin")
        folder.mkdir(parents=True, exist_ok=True)
        package = ROOT / "ops" if self.editable_mode or self.inplace else Path(self.build_lib, "qbsa")
        package.mkdir(parents=True, exist_ok=True)
        try:
            toolchain = NPU["find"]()
        except NPU["BuildError"] as error:
            raise CompileError(str(error)) from None
        for stale in package.glob("*.so"):
            if stale.name not in library_names(toolchain):
                stale.unlink()
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for built in list(pool.map(lambda variant: compile_variant(folder, *variant), variants())):
                install(built, package / built.name)
        if toolchain:
            try:
                for built in NPU["build"](toolchain, ROOT / "build" / "npu"):
                    install(built, package / built.name)
            except NPU["BuildError"] as error:
                raise CompileError(str(error)) from None
        (package / BUILD_RECORD).write_text(json.dumps(build_record(toolchain), indent=1) + "\n")

    def get_source_files(self):
        return [str(path.relative_to(ROOT)) for path in dependencies()]

    def get_outputs(self):
        names = [*library_names(NPU["find"]()), BUILD_RECORD]
        return [str(Path(self.build_lib, "qbsa", name)) for name in names]

    def get_output_mapping(self):
        return {output: str(Path("ops", Path(output).name)) for output in self.get_outputs()}


class Build(build):
    sub_commands = [*build.sub_commands, ("build_twin", None)]


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


def variants():
    """(instruction set, checked) of each library."""
    wanted = os.environ.get("QBSA_ISA", "").split() or ISA["names"]()
    return [*((name, False) for name in wanted), (ISA["checked"](), True)]


def library_names(toolchain):
    return [*(library_name(*variant) for variant in variants()), *(NPU["LIBRARIES"] if toolchain else ())]


def build_record(toolchain):
    """What qbsa tells about its build: python -m qbsa env."""
    return {
        "git": first_line("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
        "compiler": first_line(*shlex.split(os.environ.get("CXX", "g++")), "--version"),
        "npu": toolchain.versions() if toolchain else None,
    }


def first_line(*command):
    try:
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return result.stdout.partition("\n")[0] or "unknown"


def dependencies():
    files = (path for folder in DEPENDENCY_FOLDERS for path in ROOT.glob(f"{folder}/**/*"))
    sources = sorted(path for path in files if path.suffix in (".h", ".cpp"))
    return [*sources, ROOT / "setup.py", ROOT / "ops" / "isa.py"]


def compile_variant(folder, isa, checked):
    target = folder / library_name(isa, checked)
    if target.exists() and target.stat().st_mtime > max(path.stat().st_mtime for path in dependencies()):
        return target
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        raise CompileError(
            f"qbsa compiles its CPU library with a C++17 compiler (g++ 12 or newer), and {compiler[0]!r} was not "
            "found. Install it (Debian, Ubuntu: apt-get install g++) or name another in the environment variable CXX."
        )
    unfinished = target.with_suffix(f".{os.getpid()}.tmp")
    variant = [
        *(SANITIZED if SANITIZE else ()),
        *ISA["compiler_options"](isa),
        f"-DQBSA_TWIN_CHECKED={int(checked)}",
        *(f"-I{folder}" for folder in INCLUDES),
    ]
    command = [*compiler, *FLAGS, *variant, SOURCE, "-o", str(unfinished.relative_to(ROOT))]
    sys.stdout.write(f"{shlex.join(command)}\n")  # one write: compiles run side by side
    started = time.time()
    result = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)  # relative: no path of this machine
    if result.returncode != 0:
        raise CompileError(f"compiling {target.name} failed:\n{shlex.join(command)}\n{result.stderr}")
    sys.stdout.write(result.stderr)
    os.utime(unfinished, (started, started))  # a source that changed meanwhile is newer
    unfinished.replace(target)
    return target


def install(built, target):
    """Replaces target in one step, so that a process that has the old library loaded keeps it."""
    unfinished = target.with_suffix(f".{os.getpid()}.tmp")
    shutil.copy2(built, unfinished)
    unfinished.replace(target)


setup(cmdclass={"build": Build, "build_twin": BuildTwin, "bdist_wheel": Wheel}, distclass=PlatformDistribution)
