"""Instruction sets the twin is compiled for, and its file names. Standard library only: setup.py reads this file.

Run as a script it prints the newest instruction set of this machine.
"""

import functools
import platform
from pathlib import Path

# machine -> (name, options of the compiler, CPU flags it adds to the one before), oldest first.
_LEVELS = {
    "x86_64": (
        ("x86-64-v2", "-march=x86-64-v2", "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"),
        ("x86-64-v3", "-march=x86-64-v3", "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"),
        ("x86-64-v4", "-march=x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"),
        ("x86-64-v4-bf16", "-march=x86-64-v4 -mavx512bf16", "avx512_bf16"),
    ),
    "aarch64": (("armv8-a", "-march=armv8-a", ""),),
}
# The checked twin is built once: for this level, or for the oldest one where the building machine lacks it.
_CHECKED = "x86-64-v3"


def names(machine: str | None = None) -> list[str]:
    """Instruction sets to build for on `machine` (default: this one), oldest first."""
    machine = machine or platform.machine()
    if machine not in _LEVELS:
        raise RuntimeError(f"qbsa runs on Linux on {' or '.join(_LEVELS)}; this machine is {machine!r}")
    return [name for name, _, _ in _LEVELS[machine]]


def compiler_options(name: str) -> list[str]:
    """What tells the compiler to build for the instruction set `name`; a name that is none of ours is its -march."""
    known = {level: options.split() for levels in _LEVELS.values() for level, options, _ in levels}
    return known.get(name, [f"-march={name}"])


@functools.cache
def supported() -> list[str]:
    """Instruction sets that this machine runs, oldest first."""
    present = _cpu_flags()
    known = names()
    levels = _LEVELS[platform.machine()]
    for count, (_, _, flags) in enumerate(levels):
        if not present.issuperset(flags.split()):
            return known[:count]
    return known


def checked() -> str:
    """Instruction set of the checked twin."""
    return _CHECKED if _CHECKED in supported() else names()[0]


def library_name(name: str, is_checked: bool) -> str:
    """File name of the twin for an instruction set."""
    return f"libqbsa_twin_{name}{'_checked' if is_checked else ''}.so"


def _cpu_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return set(value.split())
    return set()


if __name__ == "__main__":
    print(supported()[-1])
