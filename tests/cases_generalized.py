"""The shapes of the public AscendC list of generalized cases: gen_s<q>_<kv>_b<batch>_n<heads>_<pattern><count>...

The list tells lengths, batch, heads, count and mostly the pattern; where it does not, the pattern is random. Mask
modes, P scales (of 0.1 .. 2) and orders of the block table are spread over the shapes. Each shape appears with scales
that rise (gradient) and with scales of one; whoever uses a case runs it as TND and as NTD.
"""

from __future__ import annotations

import random

from cases import Case

# Query heads, KV heads.
N8, N16, N24, N32 = (8, 1), (16, 2), (24, 3), (32, 4)

# Tasks (query blocks of one head) that are held against the truth in the cases called large, whose whole truth would
# take minutes each; the drawn tasks are spread over all sequences, heads and query blocks.
SAMPLE = 384

# q_len, kv_len, batch, heads, count, pattern, mask_mode, p_scale, order of the block table
# fmt: off
_SHAPES = [
    (600, 857, 2, N24, 6, "causal", 3, 0.5, "random"),
    (419, 72, 4, N16, 1, "sequential", 0, 0.9, "sequential"),
    (1008, 603, 1, N16, 4, "random", 3, 0.6, "reverse"),
    (1220, 576, 4, N24, 2, "random", 3, 0.8, "shuffled"),
    (1249, 1178, 2, N24, 8, "sequential", 0, 0.7, "random"),
    (1063, 1259, 2, N8, 4, "reverse", 3, 0.4, "reverse"),
    (64, 315, 1, N8, 2, "random", 3, None, "random"),
    (1032, 706, 2, N16, 5, "random", 0, 0.9, "shuffled"),
    (392, 702, 8, N32, 5, "reverse", 3, 0.3, "sequential"),
    (1102, 922, 1, N24, 2, "random", 3, 1.0, "random"),
    (1196, 587, 8, N24, 2, "random", 0, 0.6, "reverse"),
    (693, 580, 2, N16, 4, "random", 3, 0.2, "shuffled"),
    (308, 808, 4, N16, 6, "causal", 3, 0.5, "random"),
    (714, 1176, 1, N24, 4, "random", 0, 0.8, "sequential"),
    (64, 1117, 4, N32, 2, "random", 3, 0.9, "shuffled"),
    (711, 647, 2, N24, 4, "random", 0, 0.7, "random"),
    (669, 346, 1, N16, 2, "random", 3, 0.6, "reverse"),
    (1094, 1059, 2, N32, 6, "random", 3, 1.0, "random"),
    (352, 299, 8, N32, 2, "random", 0, None, "shuffled"),
    (705, 1114, 8, N32, 6, "random", 3, 0.5, "random"),
    (577, 738, 8, N16, 2, "random", 3, 0.9, "sequential"),
    (711, 709, 2, N8, 4, "random", 0, 0.3, "reverse"),
    (711, 647, 2, N16, 4, "empty", 0, 0.9, "random"),
    (1094, 1059, 2, N32, 4, "tail", 3, 0.6, "sequential"),
    (711, 709, 2, N8, 4, "tail", 0, 0.8, "shuffled"),
    (693, 580, 2, N16, 4, "empty_tail", 0, 0.9, "sequential"),
    (1220, 576, 4, N24, 2, "empty_tail", 3, 0.7, "random"),
    (669, 346, 1, N16, 3, "dense", 3, 0.9, "sequential"),
    (1031, 1031, 2, N16, 8, "random", 3, 0.6, "random"),
    (308, 808, 4, N16, 6, "random", 3, 0.1, "random"),
    (1102, 922, 1, N24, 2, "random", 0, 0.1, "shuffled"),
    (1008, 603, 1, N16, 4, "random", 3, 2.0, "random"),
    (577, 738, 8, N16, 2, "random", 0, 2.0, "reverse"),
]

# Every sequence of its own length, between half of the longest and the longest.
_RANDOM_LENGTHS = [
    (600, 857, 2, N24, 6, "causal", 0, 0.5, "random"),
    (1032, 706, 2, N16, 5, "random", 3, 0.8, "shuffled"),
    (1196, 587, 8, N24, 2, "random", 3, 0.6, "random"),
    (352, 299, 8, N32, 2, "random", 0, 0.9, "reverse"),
    (705, 1114, 8, N32, 6, "random", 3, 0.7, "sequential"),
    (577, 738, 8, N16, 2, "random", 3, 1.0, "random"),
]

_LARGE = [
    (3800, 4200, 2, N16, 32, "random", 3, 0.6, "random"),
    (4200, 3800, 4, N24, 24, "random", 3, 0.9, "shuffled"),
    (3500, 5000, 1, N16, 16, "random", 0, 0.5, "reverse"),
    (5000, 3500, 2, N32, 24, "random", 3, 0.8, "random"),
    (2057, 2057, 2, N16, 16, "random", 3, 0.7, "shuffled"),
    (4103, 4103, 4, N24, 32, "random", 0, 1.0, "random"),
]
# fmt: on


def _cases(shapes: list[tuple], random_lengths: bool = False, sample: int = 0) -> list[Case]:
    return [_case(*shape, scales, random_lengths, sample) for shape in shapes for scales in ("gradient", "ones")]


def _case(
    q_len, kv_len, batch, heads, count, pattern, mask_mode, p_scale, table, scales, random_lengths, sample
) -> Case:
    draw = random.Random(q_len * kv_len)
    q_lens, kv_lens = (
        tuple(draw.randint(longest // 2, longest) if random_lengths else longest for _ in range(batch))
        for longest in (q_len, kv_len)
    )
    name = f"gen_s{q_len}_{kv_len}_b{batch}_n{heads[0]}_{pattern}{count}_m{mask_mode}_p{p_scale}"
    name += "_lengths" if random_lengths else ""
    values = (heads, q_lens, kv_lens, pattern, count, mask_mode, p_scale, scales, table)
    return Case(f"{name}_{scales}", *values, sample=sample)


_LISTED = [*_cases(_SHAPES), *_cases(_RANDOM_LENGTHS, random_lengths=True), *_cases(_LARGE, sample=SAMPLE)]
ALL = {case.id: case for case in _LISTED}

# One of each pattern and of each way to be odd, small.
REPRESENTATIVE = [
    ALL["gen_s419_72_b4_n16_sequential1_m0_p0.9_ones"],
    ALL["gen_s64_315_b1_n8_random2_m3_pNone_gradient"],
    ALL["gen_s64_1117_b4_n32_random2_m3_p0.9_gradient"],
    ALL["gen_s308_808_b4_n16_causal6_m3_p0.5_ones"],
    ALL["gen_s1063_1259_b2_n8_reverse4_m3_p0.4_gradient"],
    ALL["gen_s711_709_b2_n8_tail4_m0_p0.8_gradient"],
    ALL["gen_s1008_603_b1_n16_random4_m3_p2.0_gradient"],
    ALL["gen_s1102_922_b1_n24_random2_m0_p0.1_ones"],
    ALL["gen_s352_299_b8_n32_random2_m0_p0.9_lengths_gradient"],
]
