"""`python -m qbsa selfcheck`: the first hour on a new machine in one command, and a report to attach to an issue.

Checks with what an installation holds: bundles and the operators. Nothing here decides what is right; that is in
compare.py and in the truth that bundles carry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from . import attention, bench, bundle, cases, kernels, library, npu
from .plan import check_plan

_REPEATS = 3
_TIMED_CALLS = 20


class _DoesNotApplyError(Exception):
    """The check needs another device; the text says which."""


def run(device: str, folder: Path, environment: str, say: Callable[[str], None]) -> tuple[bool, str]:
    """Runs every check on "cpu" or "npu:0", saying each as it ends. Whether all passed, and the report.

    The profiler writes below folder.
    """
    lines = [environment, "", f"checks on {device}"]
    passed = True
    for name, check in _CHECKS:
        started = time.monotonic()
        try:
            result, detail = "ok", check(device, folder)
        except _DoesNotApplyError as reason:
            result, detail = "n/a", str(reason)
        except Exception as error:  # whatever a new machine comes up with belongs into the report
            passed, result, detail = False, "FAILED", f"{type(error).__name__}: {error}"
        lines.append(f"{result:<7} {name:<22} {time.monotonic() - started:6.1f} s  {detail}")
        say(lines[-1])
    return passed, "\n".join(lines)


def _device(device: str, _: Path) -> str:
    if device == "cpu":
        return library.current().path.name
    npu.load(npu.device(device))
    return f"{npu.runtime().get_device_name(device)}, {npu.state()}"


def _bundles(device: str, _: Path) -> str:
    worst, files = 0.0, bundle.committed() + bundle.named_by_environment()
    for path in files:
        for report in bundle.replay(bundle.load(path), device):
            if report.failures:
                raise RuntimeError(f"{path.stem}: {'; '.join(report.failures)}")
            worst = max(worst, report.worst_share)
    return f"{len(files)} replay within tolerance, the worst element at {worst:.0%} of its bound"


def _repeats(device: str, _folder: Path) -> str:
    inputs = _inputs(device)
    first = _bits(_attend(inputs))
    for _ in range(_REPEATS):
        _same(first, _bits(_attend(inputs)), "a repeated call")
    return f"{_REPEATS} repeats give the same bits"


def _plans(device: str, _: Path) -> str:
    inputs = _inputs(device)
    batch, heads_q, q_blocks = inputs["sparse_seq_len"].shape
    metadata = cases.make_plan(inputs)
    check_plan(metadata, batch=batch, heads_q=heads_q, q_blocks=q_blocks)
    _same(_bits(_attend(inputs)), _bits(_attend(inputs | {"metadata": metadata})), "a call with a plan")
    return "a plan made before the call gives the same bits"


def _twin(device: str, _: Path) -> str:
    if device == "cpu":
        raise _DoesNotApplyError("compares an NPU with the CPU")
    ours, twins = (_bits(_attend(_inputs(where))) for where in (device, "cpu"))
    differ = sum(int((a != b).sum()) for a, b in zip(ours, twins))
    return (
        f"{differ} of {sum(a.numel() for a in ours)} bytes differ from the CPU; the bundles tell whether that is right"
    )


def _capture(device: str, _: Path) -> str:
    if device == "cpu":
        raise _DoesNotApplyError("graphs are captured on an NPU")
    inputs = _inputs(device)
    other = _inputs("cpu")["query"].roll(1, 0)
    _attend(inputs)
    npu.runtime().synchronize(device)
    graph = npu.runtime().NPUGraph()
    with npu.runtime().graph(graph):
        captured = _attend(inputs)
    inputs["query"].view(torch.uint8).copy_(other.view(torch.uint8))
    graph.replay()
    _same(_bits(captured), _bits(_attend(inputs)), "a replay with another query")
    return "a captured call replays with other data"


def _profiler(device: str, folder: Path) -> str:
    inputs = _inputs(device)
    inputs["metadata"] = cases.make_plan(inputs)
    _attend(inputs)
    if device == "cpu":
        started = time.monotonic()
        _attend(inputs)
        return f"{time.monotonic() - started:.3f} s for one call of {_shape(inputs)} on the host; no NPU, no timing"
    started, ended = (npu.runtime().Event(enable_timing=True) for _ in range(2))
    started.record()
    for _ in range(_TIMED_CALLS):
        _attend(inputs)
    ended.record()
    npu.runtime().synchronize(device)
    measured = f"measured {started.elapsed_time(ended) / _TIMED_CALLS * 1000:.0f} us a call of {_shape(inputs)}"
    settings, files = bench.Settings(device), folder / "qbsa_profile"
    bench.profile_npu(lambda: _attend(inputs), files, settings)
    us = kernels.time_per_call(kernels.matching(kernels.read(files)), settings.repeats)
    return f"{measured}, {us:.0f} us of it in our kernels by the profiler; files in {files}"


_CHECKS: tuple[tuple[str, Callable[[str, Path], str]], ...] = (
    ("device", _device),
    ("bundles", _bundles),
    ("repeats", _repeats),
    ("plans", _plans),
    ("against the twin", _twin),
    ("capture", _capture),
    ("time and profiler", _profiler),
)


def _inputs(device: str) -> dict[str, Any]:
    return bundle.to_device(bundle.load(bundle.committed()[0]).inputs, device)


def _attend(inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
    return attention.quant_block_sparse_attn(**inputs)


def _bits(result: tuple[torch.Tensor, torch.Tensor | None]) -> list[torch.Tensor]:
    return [x.cpu().view(torch.uint8) for x in result if x is not None]


def _same(one: list[torch.Tensor], other: list[torch.Tensor], what: str) -> None:
    differ = sum(int((a != b).sum()) for a, b in zip(one, other))
    if differ:
        raise RuntimeError(f"{what} differs in {differ} bytes")


def _shape(inputs: dict[str, Any]) -> str:
    return f"query {list(inputs['query'].shape)}, lists {list(inputs['sparse_indices'].shape)}"
