"""The six published prefill shapes on the twin's clock, against a fixed bound: python benchmarks/model.py [SOC ...]

All figures are a model's (docs/clock.md). A case is too large to run whole: one sequence and one KV head of it are run,
and the cycles scaled by the makespans of the two plans; the first table shows what that is worth where the whole can be
run. The bound is the largest of three, with all cores evenly loaded: cube, 1,024 cycles a macro-block; vector units,
BOUND_INSTRUCTIONS in one vector function a macro-block, as the clock counts it; device memory, each byte once.

--one-scale: with one K scale. --quick: the shapes of 8,192 tokens alone.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from pathlib import Path
from typing import Any

import clock_calibration
import torch
from qbsa import cases, library, plan, profile, sparsity

CUBE_CYCLES = 1024
BOUND_INSTRUCTIONS = {False: 2621, True: 2152}  # a macro-block and vector core; by one_scale
FRACTION, LINEARITY = 0.88, 1.10  # goals
SOCS = ("950PR", "950DT")
QUARTER = "_quarter"
# Small enough to run whole, and made of the same part as a published shape.
CHECKS = ("b1_n16_n2_s8192_quarter", "b2_n8_n1_s8192_quarter")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("soc", nargs="*", default=SOCS)
    parser.add_argument("--one-scale", action="store_true", help="one K scale instead of one a token and head")
    parser.add_argument("--quick", action="store_true", help="the shapes of 8,192 tokens alone")
    args = parser.parse_args()
    names = [name for name in cases.CASES if name.startswith("b") and (not args.quick or "_s8192" in name)]
    for soc in args.soc:
        print_checks(soc, args.one_scale)
        print_shapes(soc, names, args.one_scale)


def print_checks(soc: str, one_scale: bool) -> None:
    print(f"\n| {soc}, model | scaled, us | run whole, us | error |\n|---|---|---|---|")
    for name in CHECKS:
        batch, heads_q, heads_kv = (int(part[1:]) for part in name.split("_")[:3])
        shape = cases.CASES["b1_n32_n4_s8192_quarter"].part(1, heads_kv)
        case = cases.Case(
            shape.text, (heads_q, heads_kv), shape.q_lens * batch, shape.kv_lens * batch, share=shape.share
        )
        scaled, whole = scaled_cycles(case, soc, one_scale), run(case, soc, one_scale)
        print(f"| {name} | {us(scaled, soc):.1f} | {us(whole, soc):.1f} | {scaled / whole - 1:+.1%} |")


def print_shapes(soc: str, names: list[str], one_scale: bool) -> None:
    columns = ("density", "us", "bound, us", "by", "bound / us", "t / (density x t of dense)")
    print(f"\n| {soc}, model | {' | '.join(columns)} |\n|{'---|' * (1 + len(columns))}")
    dense = {}
    for name in names:
        case = cases.CASES[name]
        cycles, density = scaled_cycles(case, soc, one_scale), density_of(case)
        bound, by = bound_of(case, soc, one_scale)
        shape = name.removesuffix(QUARTER)
        dense.setdefault(shape, cycles)
        linear = cycles / (density * dense[shape])
        missed = "" if bound / cycles >= FRACTION and linear <= LINEARITY else " (!)"
        cells = (
            f"{density:.3f}",
            f"{us(cycles, soc):,.0f}",
            f"{us(bound, soc):,.0f}",
            by,
            f"{bound / cycles:.3f}{missed}",
        )
        print(f"| {name} | {' | '.join(cells)} | {linear:.3f} |", flush=True)


def scaled_cycles(case: cases.Case, soc: str, one_scale: bool) -> float:
    """Start of a core, and the rest of the part's cycles by the ratio of makespans."""
    part = case.part(1, 1)
    start = start_cycles(soc, one_scale)
    return start + (run(part, soc, one_scale) - start) * makespan(case, soc) / makespan(part, soc)


@functools.cache
def run(case: cases.Case, soc: str, one_scale: bool) -> float:
    inputs = cases.make_inputs(case)
    if one_scale:
        inputs["k_descale"] = torch.full((1,), 0.01)
    return profile.profile(inputs, soc).report["cycles"]


@functools.cache
def start_cycles(soc: str, one_scale: bool) -> float:
    """Until the first core computes, and behind the last: a call of one macro-block a core, less that macro-block."""
    two, four = (run(cases.Case("", (32, 4), (128,), (16384,), blocks), soc, one_scale) for blocks in (2, 4))
    return two - (four - two)


@functools.cache
def makespan(case: cases.Case, soc: str) -> int:
    with library.clock(library.Clock(soc)):
        return plan.read_plan(cases.plan_of(case)).max_cost


def density_of(case: cases.Case) -> float:
    visible = sparsity.visible_blocks(case.q_lens, case.kv_lens).sum().item() * case.heads[0]
    return case.list_lengths().sum().item() / visible


def bound_of(case: cases.Case, soc: str, one_scale: bool) -> tuple[float, str]:
    """Cycles, and what makes them."""
    chip = chips()[soc]
    macros = case.list_lengths().sum().item() / library.contract().constants["kBlocksPerMacro"] / chip["cores"]
    bounds = {
        "cube": macros * CUBE_CYCLES,
        "vector": macros * vector_cycles(BOUND_INSTRUCTIONS[one_scale]),
        "HBM": least_bytes(case) / (chip["cores"] * chip["ddr_rate"]),
    }
    by = max(bounds, key=lambda name: bounds[name])
    return bounds[by], by


def least_bytes(case: cases.Case) -> int:
    """K and V once, query, out, scales and LSE."""
    rows, keys, width, fp32 = sum(case.q_lens) * case.heads[0], sum(case.kv_lens) * case.heads[1], cases.HEAD_DIM, 4
    return keys * (2 * width + fp32) + rows * (width + 2 * width + 2 * fp32)


@functools.cache
def chips() -> dict[str, dict[str, Any]]:
    return library.load("timed").chips()


@functools.cache
def vector_cycles(instructions: int) -> float:
    """Of one function of so many dual-issue instructions, its call included."""
    with tempfile.TemporaryDirectory() as folder:
        program = clock_calibration.compile_points(Path(folder))
        return clock_calibration.figures(program, "1", "max", str(instructions))["mix"]


def us(cycles: float, soc: str) -> float:
    return cycles / chips()[soc]["mhz"]


if __name__ == "__main__":
    main()
