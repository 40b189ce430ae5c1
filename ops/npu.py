"""The NPU behind the operators: loads _C_npu.so and libqbsa_npu.so at the first NPU tensor, and launches through them.

`import qbsa` never imports torch_npu, so it works wherever `import torch` does. A call on an NPU tensor without a
usable NPU part raises the reason and the fix; it is never computed on the CPU, which torch_npu would do in silence.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
from typing import Any

import torch

from . import library, schema

KERNELS = "libqbsa_npu.so"
BINDING = "_C_npu.so"
BUILD_RECORD = "_build.json"
SOC = "Ascend950"  # the chips whose NPU arch is dav-3510 are all named so
SCHEDULE_STREAM_VARIABLE = "QBSA_SCHEDULE_STREAM"
SCHEDULE_STREAMS = ("current", "own")

_BUILD_AGAIN = "with CANN sourced run: pip install --no-build-isolation --force-reinstall --no-deps . in qbsa's sources"


def runtime() -> Any:
    """torch.npu, which importing torch_npu adds to torch."""
    return torch.npu  # type: ignore[attr-defined]


class UnavailableError(RuntimeError):
    """There is no NPU part that works here; the text says why and what to do."""


class Npu:
    """The loaded NPU part. Calls take what those of library.Twin take, all tensors on one NPU, and return at once: they
    queue a launch on the current stream of that device. Tensors live until the launch.
    """

    def __init__(self, twin: library.Twin, kernels: ctypes.CDLL):
        self._twin = twin
        self.is_virtual = hasattr(kernels, "virtual_device_launch")  # a test aid: twin/device

    def workspace_bytes(self, values: dict[str, Any]) -> int:
        return self._twin.workspace_bytes(values)

    def schedule(self, values: dict[str, Any]) -> None:
        record, tensors = self._launched("ScheduleArgs", values)
        if schedule_stream() == "current":
            torch.ops.qbsa.enqueue_schedule(record, tensors)
            return
        device = tensors[0].device
        current, own = runtime().current_stream(device), _own_stream(device)
        own.wait_stream(current)
        with runtime().stream(own):
            torch.ops.qbsa.enqueue_schedule(record, tensors)
        current.wait_stream(own)

    def attention(self, values: dict[str, Any]) -> None:
        torch.ops.qbsa.enqueue_attention(*self._launched("AttentionArgs", values))

    def _launched(self, name: str, values: dict[str, Any]) -> tuple[list[int], list[torch.Tensor]]:
        """The record as int64 words, and the tensors it points into."""
        record = bytes(self._twin.contract.record(name, values))
        return memoryview(record).cast("q").tolist(), [v for v in values.values() if isinstance(v, torch.Tensor)]


def load(device: torch.device) -> Npu:
    """The NPU part, for tensors on `device`. UnavailableError says why it cannot be used; the first reason stays."""
    npu, reason = _load_once()
    if npu is None:
        raise UnavailableError(f"the tensors are on {device}, but {reason}")
    soc = _soc(device.index or 0)
    if SOC not in soc:
        raise UnavailableError(f"qbsa's kernels run on {SOC} (dav-3510); {device} is {soc}: pass .cpu() copies")
    return npu


def state() -> str:
    """One line: whether NPU tensors work in this process, or why not. Imports torch_npu if the NPU part is there."""
    npu, reason = _load_once()
    if npu is None:
        return f"NPU tensors are refused: {reason}"
    virtual = ", on the virtual device: times say nothing about an NPU" if npu.is_virtual else ""
    return f"{KERNELS} and {BINDING} loaded{virtual}"


def device(name: str | torch.device) -> torch.device:
    """torch.device(name); for an NPU torch_npu is imported, because torch does not know the name before."""
    if str(name).startswith("npu"):
        _import_torch_npu()
    return torch.device(name)


def build_record() -> dict[str, Any]:
    """What setup.py noted: git, compiler, and npu (arch, cann, torch, torch_npu) or None."""
    path = library.FOLDER / BUILD_RECORD
    return json.loads(path.read_text()) if path.exists() else {"git": "unknown", "compiler": "unknown", "npu": None}


def schedule_stream() -> str:
    """Where the scheduler runs, by QBSA_SCHEDULE_STREAM: on the current stream, or on its own one between events."""
    chosen = os.environ.get(SCHEDULE_STREAM_VARIABLE) or SCHEDULE_STREAMS[0]
    if chosen not in SCHEDULE_STREAMS:
        raise ValueError(f"{SCHEDULE_STREAM_VARIABLE} must be one of {', '.join(SCHEDULE_STREAMS)}; got {chosen!r}")
    return chosen


@functools.cache
def _load_once() -> tuple[Npu | None, str]:
    try:
        return _load(), ""
    except UnavailableError as error:
        return None, str(error)


def _load() -> Npu:
    missing = [name for name in (KERNELS, BINDING) if not (library.FOLDER / name).exists()]
    if missing:
        raise UnavailableError(
            f"this installation of qbsa was built without an NPU part ({' and '.join(missing)} missing in "
            f"{library.FOLDER}); {_BUILD_AGAIN}. Or pass .cpu() copies of all arguments"
        )
    built = (build_record()["npu"] or {}).get("torch", "unknown")
    if _minor(built) != _minor(torch.__version__):
        raise UnavailableError(
            f"its NPU part was built for torch {built}, and this is torch {torch.__version__}; {_BUILD_AGAIN}"
        )
    _import_torch_npu()
    try:
        kernels = ctypes.CDLL(str(library.FOLDER / KERNELS))
        _define_launches()
        torch.ops.load_library(str(library.FOLDER / BINDING))
    except OSError as error:
        cause = error.__cause__ or error
        raise UnavailableError(
            f"its NPU part cannot be loaded ({cause}); source CANN's set_env.sh, or {_BUILD_AGAIN}"
        ) from error
    kernels.qbsa_contract.restype = ctypes.c_char_p
    twin = library.current()
    if kernels.qbsa_contract() != twin.contract_text:
        raise UnavailableError(f"{KERNELS} and {twin.path.name} are of different versions; {_BUILD_AGAIN}")
    return Npu(twin, kernels)


@functools.cache
def _import_torch_npu() -> None:
    # torch_npu raises errors of many types, and its second import fails with another error than the first.
    try:
        importlib.import_module("torch_npu")
    except Exception as error:
        raise UnavailableError(
            f"import torch_npu failed ({type(error).__name__}: {error}). Install the torch_npu made for torch "
            f"{torch.__version__} and source CANN's set_env.sh. Where import torch itself fails because of torch_npu, "
            "set TORCH_DEVICE_BACKEND_AUTOLOAD=0"
        ) from error


_owner: list[torch.library.Library] = []  # the operators below go with it


def _define_launches() -> None:
    _owner.append(torch.library.Library(schema.NAMESPACE, "FRAGMENT"))
    for text in schema.LAUNCHES:
        _owner[0].define(text)


def _minor(version: str) -> list[str]:
    return version.split("+")[0].split(".")[:2]


@functools.cache
def _soc(index: int) -> str:
    return str(runtime().get_device_name(index))


@functools.cache
def _own_stream(device: torch.device) -> Any:
    return runtime().Stream(device)
