"""The NPU half of setup.py: finds CANN, torch and torch_npu, and builds libqbsa_npu.so and _C_npu.so.

torch and torch_npu are located, never imported: on a build machine without a driver torch_npu cannot be imported.
Standard library only.
"""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIABLE = "QBSA_BUILD"
MODES = ("auto", "npu", "cpu")
ARCH = "dav-3510"
KERNELS = "libqbsa_npu.so"
BINDING = "_C_npu.so"
LIBRARIES = (KERNELS, BINDING)
SOURCES = ("kernels_ascendc/*", "metadata/*", "ops/npu_binding.cpp", "tools/build_npu.py")
INSTALL = "pip install --no-build-isolation ."

CANN_FOLDERS = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest")
RUNTIME = "lib64/libascendcl.so"
BISHENG_FOLDERS = (
    f"{platform.machine()}-linux/ccec_compiler/bin",
    *("ccec_compiler/bin", "bin", "compiler/bin", "tools/bisheng_compiler/bin"),
)
VERSION_FILES = ("version.cfg", "version.info", "compiler/version.info", "toolkit/version.info", "opp/version.info")


class BuildError(Exception):
    """The NPU part cannot be built; the text names each missing piece and what to do."""


@dataclass(frozen=True)
class Toolchain:
    cann: Path
    bisheng: Path
    torch: Path
    torch_npu: Path

    def versions(self) -> dict[str, str]:
        return {
            "arch": ARCH,
            "cann": cann_version(self.cann),
            "torch": importlib.metadata.version("torch"),
            "torch_npu": importlib.metadata.version("torch_npu"),
        }


def find() -> Toolchain | None:
    """The toolchain that QBSA_BUILD asks for, None for a build without an NPU part. BuildError names what is missing.

    auto: with CANN in sight the NPU part is built or the build stops; it never shrinks to a CPU build in silence.
    """
    mode = os.environ.get(VARIABLE) or "auto"
    if mode not in MODES:
        raise BuildError(f"{VARIABLE} must be one of {', '.join(MODES)}; got {mode!r}")
    home = os.environ.get("ASCEND_HOME_PATH")
    cann = next((Path(path) for path in ([home] if home else CANN_FOLDERS) if Path(path, RUNTIME).is_file()), None)
    bisheng = find_bisheng(cann)
    if mode == "cpu" or (mode == "auto" and not (home or cann or bisheng)):
        return None
    torch, torch_npu = package_folder("torch"), package_folder("torch_npu")
    isolated = f"not seen by {sys.executable}; pip hides installed packages from a build unless called as {INSTALL}"
    missing = [
        f"{name}: {advice}"
        for name, found, advice in (
            ("CANN", cann, f"no {RUNTIME} in {home or ' or '.join(CANN_FOLDERS)}; source CANN's set_env.sh"),
            ("bisheng", bisheng, "not in CANN's folders nor in PATH; install the CANN toolkit, not only its runtime"),
            ("torch", torch, isolated),
            ("torch_npu", torch_npu, isolated),
        )
        if found is None
    ]
    if missing:
        seen = f"{VARIABLE}=npu" if mode == "npu" else f"CANN is in sight ({home or cann or bisheng})"
        lines = "\n  ".join(missing)
        raise BuildError(
            f"{seen}, but the NPU part of qbsa cannot be built; missing:\n  {lines}\n"
            f"Then run: {INSTALL}\nFor the CPU part alone: {VARIABLE}=cpu {INSTALL}"
        )
    return Toolchain(cann, bisheng, torch, torch_npu)


def find_bisheng(cann: Path | None) -> Path | None:
    folders = [str(cann / folder) for folder in BISHENG_FOLDERS] if cann else []
    found = shutil.which("bisheng", path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    return Path(found) if found else None


def package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def cann_version(cann: Path) -> str:
    for name in VERSION_FILES:
        path = cann / name
        match = re.search(r"(\d+\.\d+[\w.]*)", path.read_text()) if path.is_file() else None
        if match:
            return match.group(1)
    return "unknown"


def build(toolchain: Toolchain, folder: Path) -> list[Path]:
    """Builds both libraries in `folder` where they are older than their sources; their paths. Paths of this machine
    stay out of them: commands run in the root of the checkout."""
    targets = [folder / name for name in LIBRARIES]
    newest = max(path.stat().st_mtime for pattern in SOURCES for path in ROOT.glob(pattern))
    if all(target.exists() and target.stat().st_mtime > newest for target in targets):
        return targets
    folder.mkdir(parents=True, exist_ok=True)
    for command in commands(toolchain, folder):
        print(shlex.join(command), flush=True)
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise BuildError(f"building the NPU part failed:\n{shlex.join(command)}\n{done.stderr}")
    return targets


def commands(toolchain: Toolchain, folder: Path) -> list[list[str]]:
    """The scheduler for the AICPU, the attention kernel with the host entries, their library, and the torch binding."""
    cann, torch, torch_npu = toolchain.cann, toolchain.torch, toolchain.torch_npu
    scheduler, attention, kernels, binding = (
        os.path.relpath(folder / name, ROOT) for name in ("launch.aicpu.o", "launch.asc.o", KERNELS, BINDING)
    )
    bisheng = [str(toolchain.bisheng), "-std=c++17", "-fPIC"]
    arch = f"--npu-arch={ARCH}"
    # ENABLE_CV_COMM_VIA_SSBUF: P goes from UB to L1 directly; without it the copy would pass through device memory.
    defines = ["-DENABLE_CV_COMM_VIA_SSBUF=true", "-DASCENDC_DUMP=0"]
    aicpu = [f"-I{cann}/asc/include/aicpu_api", f"--cce-aicpu-L{cann}/lib64/device/lib64", "--cce-aicpu-laicpu_api"]
    headers = [torch / "include", torch / "include" / "torch" / "csrc" / "api" / "include", torch_npu / "include"]
    system = [part for path in headers for part in ("-isystem", str(path))]
    link = [f"-L{torch}/lib", f"-L{torch_npu}/lib", f"-L{os.path.relpath(folder, ROOT)}", "-Wl,-rpath,$ORIGIN"]
    link += ["-ltorch_npu", "-ltorch_cpu", "-lc10", "-lqbsa_npu"]
    cxx = shlex.split(os.environ.get("CXX", "g++"))
    return [
        [*bisheng, "-O2", "-c", "-x", "aicpu", "metadata/launch.aicpu", *aicpu, "-o", scheduler],
        [*bisheng, "-O3", "-c", "-x", "asc", arch, *defines, f"-I{cann}/include", "kernels_ascendc/launch.asc"]
        + ["-o", attention],
        [*bisheng, "-shared", arch, scheduler, attention, f"-L{cann}/lib64", "-lascendcl", "-o", kernels],
        [*cxx, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", *system]
        + ["ops/npu_binding.cpp", *link, "-o", binding],
    ]
