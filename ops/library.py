"""Finds, loads and calls the twin: libqbsa_twin_<instruction set>[_checked].so beside this file.

Python learns every shared number and record from the library itself (qbsa_contract), so nothing is typed twice.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import dataclasses
import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from . import isa

FOLDER = Path(__file__).resolve().parent
# mode -> (the library is the checked variant, how it runs)
MODES = {
    "fast": (False, "fast"),
    "checked": (True, "fast"),
    "hostile": (True, "hostile"),
    "race": (True, "race"),
    "timed": (True, "timed"),
}
MODE_VARIABLE = "QBSA_TWIN"
SOC_VARIABLE = "QBSA_SOC"

_C_TYPES = {"u64": ctypes.c_uint64, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "f32": ctypes.c_float}
_mode: contextvars.ContextVar[str | None] = contextvars.ContextVar("qbsa_twin_mode", default=None)
_clock: contextvars.ContextVar[Clock | None] = contextvars.ContextVar("qbsa_clock", default=None)


@dataclasses.dataclass(frozen=True)
class Contract:
    """contract.h, plan.h and cost.h as the library tells them: numbers by name, records as ctypes structures."""

    constants: dict[str, int]
    quant_modes: dict[str, int]
    mask_modes: dict[str, int]
    status: dict[str, int]
    costs: dict[str, int]
    records: dict[str, type[ctypes.Structure]]

    def record(self, name: str, values: dict[str, Any]) -> ctypes.Structure:
        """The record `name`. values: field name -> number or address, or a tensor or None for its address."""
        kind = self.records[name]
        return kind(*(_plain(field, values[field]) for field in fields(kind)))


class Twin:
    """One loaded variant. Calls release the GIL and may run in several threads at once."""

    def __init__(self, path: Path, way: str = "fast"):
        self.path = path
        self._way = way.encode()
        self._library = ctypes.CDLL(str(path))
        self._bind("qbsa_contract", ctypes.c_char_p)
        self._bind("qbsa_last_error", ctypes.c_char_p)
        self.contract_text: bytes = self._library.qbsa_contract()
        self.contract = _parse_contract(_json(self.contract_text))
        attention = ctypes.POINTER(self.contract.records["AttentionArgs"])
        schedule = ctypes.POINTER(self.contract.records["ScheduleArgs"])
        self._bind("qbsa_plan_words", ctypes.c_int64, schedule)
        self._bind("qbsa_workspace_bytes", ctypes.c_int64, attention)
        self._bind("qbsa_schedule", ctypes.c_int32, schedule, ctypes.c_void_p)
        self._bind("qbsa_attention", ctypes.c_int32, attention, ctypes.c_void_p)
        self._bind("qbsa_twin_set_threads", ctypes.c_int32, ctypes.c_int32)
        self._bind("qbsa_twin_set_mode", ctypes.c_int32, ctypes.c_char_p)
        self._bind("qbsa_twin_set_mutation", ctypes.c_int32, ctypes.c_char_p)
        self._bind("qbsa_twin_progress", ctypes.c_int64)
        self._bind("qbsa_twin_report", ctypes.c_char_p)

    def plan_words(self, values: dict[str, Any]) -> int:
        """int32 words of a plan; values as for schedule, pointers may be 0."""
        return int(self._library.qbsa_plan_words(self._record("ScheduleArgs", values)))

    def workspace_bytes(self, values: dict[str, Any]) -> int:
        """Bytes of workspace of an attention call; values as for attention, pointers may be 0."""
        return int(self._library.qbsa_workspace_bytes(self._record("AttentionArgs", values)))

    def schedule(self, values: dict[str, Any]) -> None:
        """Writes values["plan"]. values: fields of ScheduleArgs, see Contract.record; RuntimeError if refused."""
        self._check(self._library.qbsa_schedule(self._record("ScheduleArgs", values), None))

    def attention(self, values: dict[str, Any]) -> None:
        """Writes out and lse. values: fields of AttentionArgs, see Contract.record; RuntimeError if refused."""
        self._check(self._library.qbsa_twin_set_mode(self._way))
        self._check(self._library.qbsa_attention(self._record("AttentionArgs", values), None))

    def set_threads(self, threads: int) -> None:
        """Host threads of later calls of this variant; 0, the default: every CPU the process may use."""
        self._check(self._library.qbsa_twin_set_threads(threads))

    def set_mutation(self, edits: str) -> None:
        """Puts mistakes into later calls of this thread, for tests: edits of twin/engine/mutation.h; "" ends it."""
        self._check(self._library.qbsa_twin_set_mutation(edits.encode()))

    def progress(self) -> int:
        """Copies to the result that the attention call now running, or else the last one, has made; from any thread."""
        return int(self._library.qbsa_twin_progress())

    def report(self) -> dict[str, Any]:
        """About the last attention call: groups, host_threads, and vector_functions: name -> calls and ops.

        ops counts vector instructions by kind on the checked twin and is empty on the fast one.
        """
        return _json(self._library.qbsa_twin_report())

    def _bind(self, name: str, result: type, *arguments: type) -> None:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, arguments

    def _record(self, name: str, values: dict[str, Any]) -> ctypes.Structure:
        try:
            return self.contract.record(name, values)
        except KeyError as missing:
            text = f"{self.path.name} is of another version: field {missing} of {name} is unknown. {_REBUILD}"
            raise RuntimeError(text) from None

    def _check(self, code: int) -> None:
        if code != 0:
            raise RuntimeError(self._library.qbsa_last_error().decode() or f"{self.path.name} failed with code {code}")


@dataclasses.dataclass(frozen=True)
class Clock:
    """What a call in mode "timed" runs on, and where its Chrome trace goes."""

    soc: str
    trace: Path | None = None
    traced_groups: int = 1


class TimedTwin(Twin):
    """The checked twin with a clock: same bits; clock_report() says how long a chip would take, as a model."""

    def __init__(self, path: Path):
        super().__init__(path)
        attention = ctypes.POINTER(self.contract.records["AttentionArgs"])
        self._bind("qbsa_twin_chips", ctypes.c_char_p)
        self._bind("qbsa_twin_clock_report", ctypes.c_char_p)
        text = ctypes.c_char_p
        self._bind("qbsa_twin_attention_timed", ctypes.c_int32, attention, text, text, ctypes.c_int32)

    def chips(self) -> dict[str, dict[str, float]]:
        """Name -> cores, mhz and ddr_rate (HBM bytes a cycle and core) of every chip that the clock knows."""
        return _json(self._library.qbsa_twin_chips())

    def schedule(self, values: dict[str, Any]) -> None:
        super().schedule({**values, "cores": values["cores"] or self._chip()["cores"]})

    def attention(self, values: dict[str, Any]) -> None:
        self._chip()
        clock = current_clock()
        trace = os.fsencode(clock.trace) if clock.trace else None
        record = self._record("AttentionArgs", values)
        self._check(self._library.qbsa_twin_attention_timed(record, clock.soc.encode(), trace, clock.traced_groups))

    def clock_report(self) -> dict[str, Any]:
        """About the last attention call of this thread; all times are model figures."""
        return _json(self._library.qbsa_twin_clock_report())

    def _chip(self) -> dict[str, float]:
        chips, soc = self.chips(), current_clock().soc
        if soc not in chips:
            raise ValueError(f"soc must be one of {', '.join(chips)}; got {soc!r}")
        return chips[soc]


def current_clock() -> Clock:
    """What clock() says, else the chip that the environment variable QBSA_SOC names, else 950PR."""
    return _clock.get() or Clock(os.environ.get(SOC_VARIABLE) or "950PR")


@contextlib.contextmanager
def clock(chosen: Clock) -> Iterator[None]:
    """`with clock(Clock("950DT")):` calls of this thread run in mode "timed" on that chip."""
    token = _clock.set(chosen)
    try:
        with mode("timed"):
            yield
    finally:
        _clock.reset(token)


def contract() -> Contract:
    """The contract of the library in use."""
    return current().contract


def plan_words(max_kv_splits: int = 1) -> int:
    """int32 words of a plan, the same for all shapes: one size when no list may be cut (1), another when some may."""
    twin = current()
    values = dict.fromkeys(fields(twin.contract.records["ScheduleArgs"]), 0)
    return twin.plan_words(values | {"max_kv_splits": max_kv_splits})


def current() -> Twin:
    """The twin that this context uses, loaded at the first call."""
    return load(current_mode())


def current_mode() -> str:
    """One of MODES: what mode() says, else the environment variable QBSA_TWIN, else fast."""
    chosen = _mode.get() or os.environ.get(MODE_VARIABLE) or "fast"
    if chosen not in MODES:
        raise ValueError(f"{MODE_VARIABLE} must be one of {', '.join(MODES)}; got {chosen!r}")
    return chosen


@contextlib.contextmanager
def mode(name: str) -> Iterator[None]:
    """`with mode("checked"):` calls of this thread run so. Every mode gives the same bits.

    fast     program order, no checks that cost time
    checked  every access checked: inside its buffer, of bytes that were written
    hostile  checked, twice, in two adverse orders that obey all flags; RuntimeError where the results differ
    race     checked; RuntimeError where two accesses to the same bytes are ordered by no flag or barrier
    timed    checked, on the clock of a chip; see profile.py
    """
    if name not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}; got {name!r}")
    token = _mode.set(name)
    try:
        yield
    finally:
        _mode.reset(token)


@functools.cache
def load(mode: str, instruction_set: str | None = None) -> Twin:
    """Loads one variant; instruction_set None takes the newest one that was built and that this machine runs.

    RuntimeError names what was looked for and what there is.
    """
    wanted = [instruction_set] if instruction_set else reversed(isa.supported())
    for name in wanted:
        checked, way = MODES[mode]
        path = FOLDER / isa.library_name(name, checked)
        if path.exists():
            return TimedTwin(path) if way == "timed" else Twin(path, way)
    there = ", ".join(sorted(path.name for path in available())) or "none"
    machine = ", ".join(isa.supported()) or "none"
    raise RuntimeError(
        f"no {mode} twin {f'for {instruction_set} ' if instruction_set else ''}in {FOLDER}: libraries there: {there}; "
        f"instruction sets of this machine: {machine}. {_REBUILD}"
    )


def available() -> list[Path]:
    """Every twin library of this installation, whether or not this machine runs it."""
    return sorted(FOLDER.glob("libqbsa_twin_*.so"))


_REBUILD = "Install again (pip install ., or make build in a checkout)."


def fields(record: type[ctypes.Structure]) -> list[str]:
    """The names of the fields of a record, in order."""
    return [field[0] for field in record._fields_]


def _json(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def _plain(name: str, value: Any) -> Any:
    if value is None:
        return 0
    if not isinstance(value, torch.Tensor):
        return value
    address = value.data_ptr()
    if address % value.element_size() != 0:
        rule = f"must begin at a multiple of its element size, {value.element_size()} bytes"
        raise ValueError(f"{name} {rule}; got address {address:#x}")
    return address


def _parse_contract(text: dict[str, Any]) -> Contract:
    records = {name: _structure(name, record) for name, record in text["records"].items()}
    return Contract(text["constants"], text["quant_modes"], text["mask_modes"], text["status"], text["costs"], records)


def _structure(name: str, record: dict[str, Any]) -> type[ctypes.Structure]:
    fields = [(field, _C_TYPES[kind]) for field, kind in record["fields"]]
    structure = type(name, (ctypes.Structure,), {"_fields_": fields})
    if ctypes.sizeof(structure) != record["bytes"]:
        text = f"{name} has {record['bytes']} bytes in the library, {ctypes.sizeof(structure)} by its fields"
        raise RuntimeError(text)
    return structure
