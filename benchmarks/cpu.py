"""The operator on a CPU against the best that torch offers there: seconds of wall clock and of CPU time, and memory.

python benchmarks/cpu.py [--tokens 8192] [--heads 32 4] [--density 0.25] [--repeats 5]

All contenders get the same values in one run, one after the other in each repeat: the operator in mode fast on FP8 and
a paged cache, planning included; torch's flex_attention, compiled, with a block mask of the same lists; and dense
causal scaled_dot_product_attention. Torch works on contiguous tensors, in fp32 (the dequantised values) and bfloat16.
The first call of each is not counted: torch compiles there. Exit code 1 if the results of qbsa and flex_attention
differ by more than FP8 explains. The full size takes some minutes; --tokens 2048 --heads 8 2 gives a quick look.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import qbsa
import torch
from qbsa import compare, library, quantize, sparsity
from torch.nn.attention.flex_attention import BlockMask, flex_attention

HEAD_DIM, BLOCK = 128, 128
EXACT = "flex float32, KV heads shared"  # exact softmax of the same lists in fp32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=8192, help="of one sequence, a multiple of 128")
    parser.add_argument("--heads", type=int, nargs=2, default=(32, 4), metavar=("QUERY", "KV"))
    parser.add_argument("--density", type=float, default=0.25, help="of each query block's visible blocks, 0..1")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    mask = choose_blocks(given.tokens, given.heads[0], given.density, generator)
    shapes = [(given.tokens, heads, HEAD_DIM) for heads in (given.heads[0], given.heads[1], given.heads[1])]
    query, key, value = (torch.randn(shape, generator=generator) for shape in shapes)
    fp8 = quantise(query, key, value)
    contenders = {"qbsa": operator(fp8, mask), **of_torch(dequantise(fp8), mask)}
    with torch.no_grad(), library.mode("fast"):
        measured, results = race(contenders, given.repeats)
    distance = {name: rel_l2(out, results[EXACT]) for name, out in results.items() if not name.startswith("dense")}
    print_table(given, mask, measured, distance)
    allowed = compare.P_NOISE + compare.CHAIN_REL_L2
    print("results agree" if distance["qbsa"] <= allowed else f"qbsa is farther off than {allowed:.1e}")
    return int(distance["qbsa"] > allowed)


def choose_blocks(tokens: int, heads: int, density: float, generator: torch.Generator) -> torch.Tensor:
    """Block mask [1, heads, blocks, blocks]: of each query block its own block and a random choice of those before."""
    visible = sparsity.visible_blocks([tokens], [tokens])[0]
    blocks = len(visible)
    scores = torch.rand(heads, blocks, blocks, generator=generator).masked_fill(~visible, -1.0)
    scores.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    quota = (visible.sum(-1) * density).round().clamp(min=1)
    rank = scores.argsort(-1, descending=True).argsort(-1)
    return (rank < quota[:, None])[None]


def quantise(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> dict[str, torch.Tensor]:
    query8, q_descale = quantize.quantize_tokens(query)
    key8, k_descale = quantize.quantize_tokens(key)
    value8, v_descale = quantize.quantize_heads(value)
    return {
        **{"query": query8, "key": key8, "value": value8},
        **{"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale},
    }


def dequantise(fp8: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """query, key, value: fp32 [1, heads, tokens, 128], contiguous."""
    values = [
        fp8["query"].float() * fp8["q_descale"].unsqueeze(-1),
        fp8["key"].float() * fp8["k_descale"].unsqueeze(-1),
        fp8["value"].float() * fp8["v_descale"].view(1, -1, 1),
    ]
    return [x.transpose(0, 1)[None].contiguous() for x in values]


def operator(fp8: dict[str, torch.Tensor], mask: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The call, planning included -> [1, heads, tokens, 128]."""
    tokens, heads_q, _ = fp8["query"].shape
    cache = quantize.write_paged_cache(fp8["key"], fp8["value"], fp8["k_descale"], [tokens])
    indices, seq_len = sparsity.mask_to_lists(mask, newest_first=True)
    cu_seqlens_q = torch.tensor([0, tokens], dtype=torch.int32)

    def call() -> torch.Tensor:
        out, _ = qbsa.quant_block_sparse_attn(
            **{"query": fp8["query"], "key": cache.key, "value": cache.value},
            **{"q_descale": fp8["q_descale"], "k_descale": cache.k_descale, "v_descale": fp8["v_descale"]},
            **{"p_scale": quantize.default_p_scale(), "sparse_indices": indices, "sparse_seq_len": seq_len},
            **{"atten_mask": None, "softmax_scale": HEAD_DIM**-0.5},
            **{"sparse_q_block_size": BLOCK, "sparse_kv_block_size": BLOCK},
            **{"cu_seqlens_q": cu_seqlens_q, "seqused_kv": cache.seqused_kv, "block_table": cache.block_table},
            metadata=qbsa.quant_block_sparse_attn_metadata(
                seq_len, heads_q, fp8["key"].shape[1], HEAD_DIM, cu_seqlens_q=cu_seqlens_q
            ),
        )
        return out.transpose(0, 1)[None]

    return call


def of_torch(values: list[torch.Tensor], mask: torch.Tensor) -> dict[str, Callable[[], torch.Tensor]]:
    """flex_attention also with repeated KV heads, which is sometimes faster. Name -> call."""
    flex = torch.compile(flex_attention, dynamic=False)
    dense = torch.nn.functional.scaled_dot_product_attention
    block_mask = to_block_mask(mask)
    contenders: dict[str, Callable[[], torch.Tensor]] = {}
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        query, key, value = (x.to(dtype) for x in values)
        all_keys, all_values = (x.repeat_interleave(query.shape[1] // key.shape[1], 1) for x in (key, value))
        contenders[f"flex {name}, KV heads shared"] = functools.partial(
            flex, query, key, value, block_mask=block_mask, enable_gqa=True
        )
        contenders[f"flex {name}, KV heads repeated"] = functools.partial(
            flex, query, all_keys, all_values, block_mask=block_mask
        )
        contenders[f"dense {name}"] = functools.partial(dense, query, key, value, is_causal=True, enable_gqa=True)
    return contenders


def to_block_mask(mask: torch.Tensor) -> BlockMask:
    """The lists of a block mask as flex_attention takes them: only blocks on the diagonal look at single keys."""
    blocks = mask.shape[-1]
    diagonal = torch.eye(blocks, dtype=torch.bool)
    lists = []
    for part in (mask & diagonal, mask & ~diagonal):
        indices, lengths = sparsity.mask_to_lists(part, capacity=blocks)
        lists += [lengths, indices.clamp(min=0)]
    length = blocks * BLOCK
    return BlockMask.from_kv_blocks(
        *lists, BLOCK_SIZE=BLOCK, mask_mod=lambda b, h, row, key: row >= key, seq_lengths=(length, length)
    )


def race(contenders: dict[str, Callable[[], torch.Tensor]], repeats: int) -> tuple[dict, dict]:
    """Name -> (wall seconds, CPU seconds) of each repeat and MiB of the first call, and name -> result."""
    measured, results = {}, {}
    for name, call in contenders.items():
        print(f"first call of {name}", file=sys.stderr)
        results[name], mib = with_memory(call)
        measured[name] = ([], [], mib)
    for repeat in range(repeats):
        print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr)
        for name, call in contenders.items():
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            measured[name][0].append(time.perf_counter() - wall)
            measured[name][1].append(time.process_time() - cpu)
    return measured, results


def with_memory(call: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
    """The result of a call, and the MiB by which it raises the resident memory of the process at its peak."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from what is resident now
    before = resident_mib("VmRSS")
    result = call()
    return result, resident_mib("VmHWM") - before


def resident_mib(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def rel_l2(result: torch.Tensor, truth: torch.Tensor) -> float:
    return float((result.double() - truth.double()).norm() / truth.double().norm())


def print_table(given: argparse.Namespace, mask: torch.Tensor, measured: dict, distance: dict[str, float]) -> None:
    visible = sparsity.visible_blocks([given.tokens], [given.tokens])
    cpus = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in cpus if line.startswith("model name")), "CPU")
    print(f"measured on {model} ({platform.machine()}), {torch.get_num_threads()} threads, {datetime.date.today()}")
    print(f"qbsa {library.load('fast').path.name}, torch {torch.__version__}, medians of {given.repeats} repeats")
    print(f"{given.tokens} tokens, {given.heads[0]}/{given.heads[1]} heads, {sparsity.density(mask, visible)}")
    print(f"\n{'':34} {'wall s':>8} {'CPU s':>8} {'x wall':>8} {'x CPU':>8} {'MiB':>8} {'rel. L2':>9}")
    wall0, cpu0 = (statistics.median(times) for times in measured["qbsa"][:2])
    for name, (walls, cpus, mib) in measured.items():
        wall, cpu = statistics.median(walls), statistics.median(cpus)
        off = f"{distance[name]:.1e}" if name in distance else ""
        print(f"{name:34} {wall:8.3f} {cpu:8.3f} {wall / wall0:8.2f} {cpu / cpu0:8.2f} {mib:8.0f} {off:>9}")
    print("\nx: times of qbsa. MiB: peak of the first call above what was resident, compilation included.")
    print(f"rel. L2: distance of the result to that of {EXACT}.")


if __name__ == "__main__":
    sys.exit(main())
