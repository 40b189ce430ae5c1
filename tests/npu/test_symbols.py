"""What the binding needs to load is exported: by torch, the C++ runtime, libqbsa_npu.so and each torch_npu.

QBSA_TORCH_NPU_WHEELS: a folder with wheels of more versions of torch_npu.
"""

import importlib.util
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from qbsa import library

BINDING = library.FOLDER / "_C_npu.so"
KERNELS = library.FOLDER / "libqbsa_npu.so"
WHEELS = sorted(Path(os.environ.get("QBSA_TORCH_NPU_WHEELS", "absent")).glob("torch_npu-*.whl"))


def symbols(path, *, defined):
    text = subprocess.run(["nm", "-D", "-C", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=1) if line[0] == " " else line.split(maxsplit=2)[1:] for line in text.splitlines()]
    return {name.partition("@")[0] for kind, name in rows if (kind not in "Uwv") == defined and kind not in "wv"}


def package(name):
    return Path(importlib.util.find_spec(name).origin).parent


def needed_of_torch_npu():
    names = {name for name in symbols(BINDING, defined=False) if "_npu::" in name}
    assert any("RunOpApiV2" in name for name in names)
    return names


def test_every_symbol_is_exported():
    libraries = [KERNELS, *(package("torch_npu") / "lib").glob("*.so"), *(package("torch") / "lib").glob("*.so")]
    mapped = set(re.findall(r"(/\S+/(?:libc|libm|libstdc\+\+|libgcc_s|ld-linux)\S*\.so\S*)", maps()))
    exported = set().union(*(symbols(path, defined=True) for path in [*libraries, *mapped]))
    missing = symbols(BINDING, defined=False) - exported
    assert not missing
    entries = {name for name in symbols(BINDING, defined=False) if name.startswith("qbsa_")}
    assert entries <= symbols(KERNELS, defined=True)


def maps():
    return Path("/proc/self/maps").read_text()


def test_the_kernel_library_exports_the_functions_of_its_header_alone():
    header = (Path(__file__).resolve().parents[2] / "kernels_ascendc" / "qbsa.h").read_text()
    declared = set(re.findall(r"^QBSA_EXPORT .*?(qbsa_\w+)\(", header, re.MULTILINE))
    exported = {name for name in symbols(KERNELS, defined=True) if name.startswith("qbsa_")}
    assert exported == declared


def test_few_symbols_of_torch_npu():
    """The fewer, the more versions of torch_npu the source compiles for."""
    assert len(needed_of_torch_npu()) <= 3


def test_libraries_are_found_beside_the_binding_alone():
    text = subprocess.run(["readelf", "-d", BINDING], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"R(?:UN)?PATH.*\[(.*)\]", text) == ["$ORIGIN"]


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda path: path.name.split("-")[1])
def test_other_versions_of_torch_npu_export_them_too(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        path = archive.extract("torch_npu/lib/libtorch_npu.so", tmp_path)
    assert not needed_of_torch_npu() - symbols(path, defined=True)
