"""Where the time of a call would go on a chip, by the clock of the twin. Every figure is a model, none a measurement.

profile() runs one call in mode "timed"; docs/clock.md has the model, its constants and how far it is off.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import bundle, library

BLOCK, HEAD_DIM = 128, 128


@dataclass(frozen=True)
class Case:
    """A call whose values do not matter: each list holds `blocks` blocks, or `share` of those its query block sees."""

    text: str
    heads: tuple[int, int]  # query heads, KV heads
    q_lens: tuple[int, ...]
    kv_lens: tuple[int, ...]
    blocks: int = 0
    share: float = 1.0


CASES = {
    "prefill_8k_quarter": Case(
        "prefill of 8,192 tokens, one group of 8 query heads on 1 KV head, a quarter of the visible blocks",
        (8, 1), (8192,), (8192,), share=0.25,
    ),
    "chunk_1k_on_16k": Case(
        "1,024 tokens behind 15,360, 16 query heads on 2 KV heads, 32 blocks a list",
        (16, 2), (1024,), (16384,), 32,
    ),
    "decode_b8": Case(
        "one token of each of 8 sequences of 32,768, 32 query heads on 4 KV heads, 64 blocks a list",
        (32, 4), (1,) * 8, (32768,) * 8, 64,
    ),
    "steady_128": Case(
        "one query block a core, 128 blocks a list: the steady state",
        (32, 4), (128,), (16384,), 128,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Profile:
    """What the clock says about one call.

    report["columns"] has the names of the profiler's columns; report["calls"] every call and wait with its place in the
    source, summed over the AICs or AIVs; report["cores"] the same for each core. Cycles unless a name says us.
    """

    case: str
    report: dict[str, Any]

    def json(self) -> str:
        return json.dumps({"case": self.case, **self.report}, indent=1)

    def busiest_pipe(self) -> tuple[str, float]:
        """Column name and ratio of the pipe that is busy most."""
        columns = self.report["columns"]
        ratios = {name.removesuffix("_ratio"): value for name, value in columns.items() if name.endswith("_ratio")}
        return max(ratios.items(), key=lambda item: item[1])

    def waits(self, kind: str) -> dict[str, list[tuple[str, float]]]:
        """Pipe -> (flag and place, share of the time of the cores of that kind), longest first; kind: AIC or AIV."""
        columns = self.report["columns"]
        total = columns["aic_total_cycles" if kind == "AIC" else "aiv_total_cycles"]
        found = defaultdict(list)
        for call in self.report["calls"]:
            if call["kind"] == kind and call["waited"] > 0:
                found[call["pipe"]].append((f"{call['call']} ({call['place']})", call["waited"] / total))
        return {pipe: sorted(waits, key=lambda wait: -wait[1]) for pipe, waits in found.items()}

    def table(self) -> str:
        """For people: totals, columns, longest waits."""
        report = self.report
        columns, total = report["columns"], report["l2_bytes"]
        hits = 1 - min(1.0, report["hbm_bytes"] / total) if total else 0.0
        pipe, ratio = self.busiest_pipe()
        lines = [
            f"{self.case} on {report['chip']}, {report['groups']} groups at {report['mhz']:g} MHz: model, not measured",
            f"duration(us)        {report['duration_us']:12.2f}   {report['cycles']} cycles",
            f"busiest pipe        {pipe:>12}   {ratio:.3f} of its time",
            f"L2, HBM (MB)        {total / 1e6:12.2f}   {report['hbm_bytes'] / 1e6:.2f}, {hits:.0%} from L2",
        ]
        lines += [f"{name:<20}{value:12.6g}" for name, value in columns.items()]
        for kind in ("AIC", "AIV"):
            for pipe, waits in sorted(self.waits(kind).items()):
                lines += [
                    f"{kind} {pipe:<7} waited {share:6.1%} for {name}" for name, share in waits[:3] if share >= 0.005
                ]
        return "\n".join(lines)


def profile(
    inputs: dict[str, Any], soc: str = "950PR", trace: Path | None = None, traced_groups: int = 1, case: str = "call"
) -> Profile:
    """Times one call of quant_block_sparse_attn on a chip.

    inputs: its keyword arguments, CPU tensors. trace: gets a Chrome trace (chrome://tracing, Perfetto) of the
    traced_groups groups that have most to do. ValueError for an unknown soc, otherwise what the call itself raises.
    """
    with library.clock(library.Clock(soc, trace, traced_groups)):
        torch.ops.qbsa.quant_block_sparse_attn(**inputs)
        return Profile(case, library.current().clock_report())


def profile_case(name: str, soc: str = "950PR", trace: Path | None = None, traced_groups: int = 1) -> Profile:
    """Like profile, for a name of CASES or the path of a bundle."""
    if name in CASES:
        return profile(make_inputs(CASES[name]), soc, trace, traced_groups, name)
    if not Path(name).is_file():
        raise ValueError(f"CASE must be one of {', '.join(CASES)}, or the path of a bundle; got {name!r}")
    found = bundle.load(Path(name))
    return profile(found.inputs, soc, trace, traced_groups, found.case_id)


def make_inputs(case: Case) -> dict[str, Any]:
    """The keyword arguments of the attention operator. The clock does not look at values: data are random bytes."""
    generator = torch.Generator().manual_seed(1)
    heads_q, heads_kv = case.heads
    tokens, batch = sum(case.q_lens), len(case.q_lens)
    width = max(_blocks(length) for length in case.kv_lens)
    pages = batch * width
    cache = (pages, heads_kv, BLOCK, HEAD_DIM)
    indices, lengths = _lists(case, width, generator)
    return {
        "query": _random_fp8((tokens, heads_q, HEAD_DIM), generator),
        "key": _random_fp8(cache, generator),
        "value": _random_fp8(cache, generator),
        "q_descale": torch.ones(tokens, heads_q),
        "k_descale": torch.ones(pages, heads_kv, BLOCK, 1),
        "v_descale": torch.ones(heads_kv),
        "p_scale": None,
        "sparse_indices": indices,
        "sparse_seq_len": lengths,
        "atten_mask": None,
        "softmax_scale": HEAD_DIM**-0.5,
        "sparse_q_block_size": BLOCK,
        "sparse_kv_block_size": BLOCK,
        "cu_seqlens_q": torch.tensor([0, *case.q_lens]).cumsum(0).int(),
        "seqused_kv": torch.tensor(case.kv_lens, dtype=torch.int32),
        "block_table": torch.randperm(pages, generator=generator).reshape(batch, width).int(),
        "mask_mode": 3,
        "return_softmax_lse": True,
    }


def _lists(case: Case, width: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Random blocks of those that a query block sees, its own one always among them."""
    heads, q_blocks = case.heads[0], max(_blocks(length) for length in case.q_lens)
    indices = torch.full((len(case.q_lens), heads, q_blocks, width), -1, dtype=torch.int32)
    lengths = torch.zeros(len(case.q_lens), heads, q_blocks, dtype=torch.int32)
    for sequence, (q_len, kv_len) in enumerate(zip(case.q_lens, case.kv_lens)):
        for q_block in range(_blocks(q_len)):
            last_row = min((q_block + 1) * BLOCK, q_len) - 1
            visible = _blocks(last_row + 1 + kv_len - q_len)
            count = min(visible, case.blocks or max(1, round(case.share * visible)))
            for head in range(heads):
                others = torch.randperm(visible - 1, generator=generator)[: count - 1].sort().values
                indices[sequence, head, q_block, :count] = torch.cat([others, torch.tensor([visible - 1])]).int()
                lengths[sequence, head, q_block] = count
    return indices, lengths


def _random_fp8(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Small values of either sign: no code of NaN."""
    return torch.randint(0, 64, shape, dtype=torch.uint8, generator=generator).view(torch.float8_e4m3fn)


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK)


def plot(trace: Path, png: Path, title: str = "") -> None:
    """Draws a Chrome trace of profile() as a timeline, one row a pipe. RuntimeError without matplotlib."""
    try:
        from matplotlib import figure
    except ImportError:
        raise RuntimeError("drawing needs matplotlib: pip install 'qbsa[plot]'") from None
    events = json.loads(trace.read_text())["traceEvents"]
    cores = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    rows: dict[str, list] = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["cat"] == "run":
            rows[f"{cores[event['pid']]} {event['tid']}"].append((event["ts"], event["dur"]))
    canvas = figure.Figure(figsize=(14, 1 + 0.28 * len(rows)), layout="constrained")
    axes = canvas.subplots()
    for row, spans in enumerate(rows.values()):
        axes.broken_barh(spans, (row - 0.4, 0.8), color=f"C{row % 10}")
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel("us (model)")
    axes.set_title(f"{title} (model, not measured)".strip())
    canvas.savefig(png, dpi=110)


@contextlib.contextmanager
def kept_or_temporary(trace: Path | None) -> Iterator[Path]:
    """`trace`, or a file that is gone afterwards."""
    if trace:
        yield trace
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "trace.json"
