"""Small C++ libraries that tests compile on the spot."""

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def _compile(source: str, *flags: str) -> ctypes.CDLL | str:
    compiler = os.environ.get("CXX", "g++")
    if not shutil.which(compiler):
        return f"{compiler} not found: the twin needs a C++17 compiler, or CXX naming one"
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / (Path(source).stem + ".so")
        command = [compiler, "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
        command += [*flags, f"-I{ROOT / 'twin'}", str(ROOT / "tests" / source), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True)
        return ctypes.CDLL(str(library)) if done.returncode == 0 else f"{' '.join(command)}\n{done.stderr[:4000]}"


def build(source: str, *flags: str) -> ctypes.CDLL:
    """tests/`source` compiled as the twin is (plus `flags`), once per process."""
    library = _compile(source, *flags)
    assert not isinstance(library, str), library
    return library


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def aligned(values: np.ndarray, bytes_: int = 64) -> np.ndarray:
    """A copy of `values` whose first byte is at a multiple of `bytes_`."""
    room = np.zeros(values.nbytes + bytes_, np.uint8)
    start = -room.ctypes.data % bytes_
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy
