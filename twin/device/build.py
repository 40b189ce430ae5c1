"""Builds the virtual device: a folder that looks like a CANN installation, with a runtime in host memory.

    python twin/device/build.py FOLDER     needs g++ and torch_npu (found, not imported)

FOLDER/lib64 goes to LD_LIBRARY_PATH; then torch_npu imports, npu:0 and npu:1 exist, and a qbsa that was built with
ASCEND_HOME_PATH=FOLDER computes on them with the twin. It is a test aid: it serves copies and the operators of this
package, torch's own NPU operators fail.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNTIME = "ascendcl"
# Libraries that torch_npu opens beside the runtime; here they only lead to it.
ALIASES = ("hccl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel", "opapi")
# Settings that mean nothing in host memory.
ACCEPTED = (
    *("aclrtSetDeviceSatMode", "aclrtSetOpExecuteTimeOut", "aclrtSetOpWaitTimeout", "aclSetCompileopt"),
    *("aclrtSetSysParamOpt", "aclrtCtxSetSysParamOpt"),
)
# torch_npu asks whether these exist before it copies a tensor; a plain copy does not call them.
ASKED_FOR = ("aclnnInplaceCopy", "aclnnInplaceCopyGetWorkspaceSize")
PREFIXES = ("acl", "rt", "Msprof")
STUBS = """#include <stdio.h>
static int absent(const char* name)
{
    fprintf(stderr, "virtual device: %s is not part of it (only copies and qbsa's operators are)\\n", name);
    return 200001;
}
"""


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build(Path(sys.argv[1]).resolve())


def build(folder: Path) -> None:
    """Fills the folder; SystemExit with the reason if this machine must not have or cannot get a virtual device."""
    refuse_beside_cann(folder)
    torch_npu = located("torch_npu")
    libraries = folder / "lib64"
    shutil.rmtree(folder, ignore_errors=True)
    libraries.mkdir(parents=True)
    (folder / "bin").mkdir()
    os.symlink(HERE / "bisheng.py", folder / "bin" / "bisheng")
    os.symlink(torch_npu / "include", folder / "include")
    with tempfile.TemporaryDirectory() as scratch:
        objects = Path(scratch, "runtime.o")
        run(compiler(), *CXX_FLAGS, "-isystem", torch_npu / "include", "-c", HERE / "runtime.cpp", "-o", objects)
        stubs = Path(scratch, "stubs.c")
        stubs.write_text(stub_source(torch_npu, defined(objects)))
        runtime = libraries / f"lib{RUNTIME}.so"
        run(
            compiler(),
            "-shared",
            "-fPIC",
            "-pthread",
            f"-Wl,-soname,{runtime.name}",
            objects,
            *as_c(stubs),
            "-o",
            runtime,
        )
        empty = Path(scratch, "empty.c")
        empty.touch()
        link = ["-shared", "-fPIC", "-Wl,--no-as-needed", f"-L{libraries}", f"-l{RUNTIME}", "-Wl,-rpath,$ORIGIN"]
        for alias in ALIASES:
            name = f"lib{alias}.so"
            run(compiler(), *as_c(empty), *link, f"-Wl,-soname,{name}", "-o", libraries / name)


CXX_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror")


def refuse_beside_cann(folder: Path) -> None:
    """The virtual device must never stand in front of a real one."""
    signs = [path for path in ("/dev/davinci_manager", "/dev/davinci0", "/usr/local/Ascend") if os.path.exists(path)]
    home = os.environ.get("ASCEND_HOME_PATH")
    if home and Path(home).resolve() != folder:
        signs.append(f"ASCEND_HOME_PATH={home}")
    if signs:
        raise SystemExit(
            f"the virtual device is for machines without CANN; here there is {', '.join(signs)}. "
            "Run the tests on the real device: QBSA_TEST_DEVICE=npu:0 python -m pytest tests"
        )


def located(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the virtual device is built for an installed {name}; {sys.executable} has none")
    return Path(spec.origin).parent


def stub_source(torch_npu: Path, have: set[str]) -> str:
    """C functions for all that torch_npu links and the runtime does not have."""
    wanted = {name for library in (torch_npu / "lib").glob("*.so") for name in undefined(library)}
    wanted = {name for name in wanted if name.startswith(PREFIXES)} | set(ASKED_FOR)
    lines = [f"int {name}(void) {{ return 0; }}\n" for name in ACCEPTED]
    lines += [f'int {name}(void) {{ return absent("{name}"); }}\n' for name in sorted(wanted - have - set(ACCEPTED))]
    return STUBS + "".join(lines)


def undefined(library: Path) -> set[str]:
    lines = run("nm", "-D", "--undefined-only", library).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines}


def defined(objects: Path) -> set[str]:
    return {line.split()[-1] for line in run("nm", "--defined-only", objects).splitlines()}


def as_c(path: Path) -> list[str]:
    return ["-x", "c", str(path), "-x", "none"]


def compiler() -> str:
    return os.environ.get("CXX", "g++")


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
