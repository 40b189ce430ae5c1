"""Random calls of both operators, each a function of its seed: valid ones, broken values, and broken arguments.

    python tests/fuzz.py COUNT [FIRST [MODE]]

A valid call must agree with the reference (one in TRUTH_STRIDE is held against it). Values broken on the device (lists,
lengths, page ids, scales, data, plans) must neither fail nor reach outside a tensor, and every row of the result is
written. The value check (QBSA_CHECK) must take any of these, or name a value. A broken argument must be refused by
name. Without MODE odd seeds run on the checked twin, which knows the bytes of each tensor; under a sanitizer the fast
twin is watched as well. MODE race and hostile take valid calls only: broken lengths and plans can give a row to two
cores.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import random
import sys
import traceback
from typing import Any

import qbsa
import reference
import torch
from qbsa import backend, compare, library, plan, schema, validate, value_check
from split_truth import truth_of_plan

FP8 = torch.float8_e4m3fn
INT32 = torch.iinfo(torch.int32)
TRUTH_STRIDE = 5
MAX_CORES = 3  # AIC groups of a call: few, as each costs the checked twin the time to forget its memories
UNWRITTEN = {torch.bfloat16: (torch.int16, 0x7FA5), torch.float32: (torch.int32, 0x7FA5A5A5)}  # NaNs nobody computes
ROW_DIMENSIONS = {"query": 1, "key": 1, "value": 1}  # last ones, which must be contiguous
REFUSALS = (TypeError, ValueError, NotImplementedError)
OTHER_DTYPES = (torch.float16, torch.int64, torch.float64, torch.uint8)


@dataclasses.dataclass
class Call:
    seed: int
    inputs: dict[str, Any]
    kind: str = "valid"  # values, plan, argument
    broken: str = ""  # the argument, with kind "argument"


def make_call(seed: int) -> Call:
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    call = Call(seed, valid_inputs(rng, generator))
    choice = rng.random()
    if choice < 0.35:
        break_values(call, rng, generator)
        if rng.random() < 0.3:
            call.inputs["metadata"] = plan_for(call.inputs, rng, splits=rng.choice((0, 1, 2, 7)))
    elif choice < 0.45:
        break_plan(call, rng)
    elif choice < 0.6:
        break_argument(call, rng)
    elif choice < 0.8:
        call.inputs["metadata"] = plan_for(call.inputs, rng, splits=rng.choice((0, 1, 1, 2, 7)))
    return call


def valid_inputs(rng: random.Random, generator: torch.Generator) -> dict[str, Any]:
    batch, heads_kv = seldom_zero(rng, 3), rng.randint(1, 3)
    heads_q = heads_kv * rng.choice((1, 1, 2, 3, 16 if heads_kv == 1 else 4))
    q_lens = [rng.choice((0, 1, rng.randint(1, 40), rng.randint(1, 200))) for _ in range(batch)]
    kv_lens = [rng.choice((0, 1, 256, *(rng.randint(1, most) for most in (130, 500, 1800)))) for _ in range(batch)]
    tokens = sum(q_lens) + rng.choice((0, 0, 0, 1, 70))
    blocks = [-(-length // 128) for length in kv_lens]
    width, pages = max([0, *blocks]) + rng.choice((0, 0, 1)), seldom_zero(rng, 8)
    q_blocks = max([rng.choice((0, 1)), *(-(-length // 128) for length in q_lens)]) + rng.choice((0, 0, 0, 1))
    capacity = seldom_zero(rng, width + 2)

    def fp8(*shape):
        size = torch.Size(shape).numel()
        pool = normal_numbers()
        begin = rng.randrange(len(pool) - size)
        return pool[begin : begin + size].clone().reshape(shape)

    def scales(*shape):
        drawn = torch.empty(shape).uniform_(0.01, 0.3, generator=generator)
        return drawn.masked_fill(torch.rand(shape, generator=generator) < rng.choice((0, 0, 0.1)), 0)

    def integers(low, high, *shape):
        return torch.randint(low, max(low + 1, high), shape, generator=generator, dtype=torch.int32)

    layout_q = rng.choice(("TND", "NTD"))
    rows = (tokens, heads_q) if layout_q == "TND" else (heads_q, tokens)
    cache = (pages, heads_kv, 128)
    lists = (batch, heads_q, q_blocks)
    inputs = {
        "query": fp8(*rows, 128),
        "key": fp8(*cache, 128),
        "value": fp8(*cache, 128),
        "q_descale": scales(*rows),
        "k_descale": scales(*cache, 1),
        "v_descale": scales(heads_kv),
        "p_scale": rng.choice((None, torch.tensor([rng.choice((0.5, 1.0, 16.0, 256.0, 448.0))]))),
        "sparse_indices": integers(-1, width + 1, *lists, capacity),
        "sparse_seq_len": integers(0, capacity + 1, *lists),
        "atten_mask": None,
        "softmax_scale": rng.choice((128**-0.5, 0.01, 1.0)),
        "sparse_q_block_size": 128,
        "sparse_kv_block_size": 128,
        "cu_seqlens_q": torch.tensor([0, *q_lens]).cumsum(0).int(),
        "seqused_kv": torch.tensor(kv_lens, dtype=torch.int32),
        "block_table": integers(0, pages, batch, width),
        "layout_q": layout_q,
        "mask_mode": rng.choice((0, 3)),
        "return_softmax_lse": rng.random() < 0.8,
    }
    for name in ("query", "key", "value", "q_descale", "k_descale", "sparse_indices", "sparse_seq_len", "block_table"):
        inputs[name] = with_another_layout(inputs[name], ROW_DIMENSIONS.get(name, 0), rng)
    choice = rng.random()
    if choice < 0.15:
        inputs["k_descale"] = scales(1)
    elif choice < 0.3:
        inputs["k_descale"] = scales(1, heads_kv, 1, 1).expand(*cache, 1)
    return inputs


def seldom_zero(rng: random.Random, most: int) -> int:
    return rng.randint(1, most) if rng.random() < 0.95 else 0


@functools.cache
def normal_numbers() -> torch.Tensor:
    """Enough for the data of any call; a slice of it is quicker than new numbers."""
    return (torch.randn(2**21, generator=torch.Generator().manual_seed(0)) * 2).to(FP8)


def with_another_layout(tensor: torch.Tensor, fixed: int, rng: random.Random) -> torch.Tensor:
    """tensor, or its values by other strides with gaps; or one dimension expanded. The last `fixed` stay contiguous."""
    free = list(range(tensor.dim() - fixed))
    choice = rng.random()
    if choice < 0.5 or tensor.numel() == 0:
        return tensor
    if choice < 0.6:
        return tensor.narrow(rng.choice(free), 0, 1).expand_as(tensor) if free else tensor
    rng.shuffle(free)
    strides, step = [1] * tensor.dim(), tensor.shape[-1] if fixed else 1
    for dim in free:
        strides[dim] = step
        step = step * tensor.shape[dim] + rng.choice((0, 0, 3, 32))
    size = 1 + sum((length - 1) * stride for length, stride in zip(tensor.shape, strides))
    buffer = torch.full((size * tensor.element_size(),), 0xFF, dtype=torch.uint8).view(tensor.dtype)
    view = buffer.as_strided(tensor.shape, strides)
    integers = torch.uint8 if tensor.dtype == FP8 else torch.int32
    view.view(integers).copy_(tensor.view(integers))
    return view


def plan_for(inputs: dict[str, Any], rng: random.Random, splits: int = 1) -> torch.Tensor:
    """A plan for the call, or for other lengths."""
    lengths, heads_q, heads_kv = inputs["sparse_seq_len"], inputs["sparse_seq_len"].shape[1], inputs["key"].shape[1]
    if rng.random() < 0.5:
        lengths = torch.randint_like(lengths, INT32.min, INT32.max)
    ends = rng.choice((None, inputs["cu_seqlens_q"]))
    return qbsa.quant_block_sparse_attn_metadata(
        lengths, heads_q, heads_kv, 128, cu_seqlens_q=ends, max_kv_splits=splits
    )


def break_values(call: Call, rng: random.Random, generator: torch.Generator) -> None:
    """Any bits in one to four tensors; softmax_scale at the ends of its range."""
    call.kind = "values"
    tensors = [name for name, x in call.inputs.items() if isinstance(x, torch.Tensor)]
    for name in rng.sample(tensors, rng.randint(1, min(4, len(tensors)))):
        tensor = call.inputs[name].contiguous()
        if tensor.dtype == torch.int32:
            edges = (INT32.min, INT32.max, -1, 0, 1, 2, 127, 128, 129, INT32.max - 127, rng.randint(0, 500))
            bits = torch.tensor([rng.choice((*edges, rng.randint(INT32.min, INT32.max))) for _ in range(16)])
        elif tensor.dtype == torch.float32:
            edges = (0.0, -0.0, -1.0, 1e-45, 1e-38, 3.4e38, -3.4e38, 449.0, *(float(x) for x in ("nan", "inf", "-inf")))
            bits = torch.tensor([rng.choice((*edges, rng.uniform(-1e4, 1e4))) for _ in range(16)])
        else:
            bits = torch.tensor([rng.choice((0x7F, 0xFF, 0x7E, 0xFE, rng.randint(0, 255))) for _ in range(16)])
            bits = bits.to(torch.uint8).view(FP8)
        drawn = bits.to(tensor.dtype)[torch.randint(16, tensor.shape, generator=generator)]
        keep = torch.rand(tensor.shape, generator=generator) < rng.choice((0.0, 0.5, 0.95))
        integers = torch.uint8 if tensor.dtype == FP8 else torch.int32
        mixed = torch.where(keep, tensor.view(integers), drawn.view(integers)).view(tensor.dtype)
        call.inputs[name] = with_another_layout(mixed, ROW_DIMENSIONS.get(name, 0), rng) if tensor.dim() > 1 else mixed
    if rng.random() < 0.1:
        call.inputs["softmax_scale"] = rng.choice((1.2e-38, 3.4e38))


def break_plan(call: Call, rng: random.Random) -> None:
    """Fields of some records anything at all, their hashes most often right."""
    call.kind = "plan"
    plan = call.inputs["metadata"] = plan_for(call.inputs, rng, splits=rng.choice((0, 1, 3)))
    text = plan.numpy().view("uint8")
    records, constants = library.contract().records, library.contract().constants
    header = records["PlanHeader"].from_buffer(text)
    header.cores = rng.choice((header.cores, rng.randint(1, constants["kMaxCores"])))
    header.splits = rng.choice((header.splits, rng.randint(0, constants["kMaxCores"]), INT32.max))
    header.check = record_hash(header)
    at = ctypes.sizeof(header)
    tasks = call.inputs["sparse_seq_len"].numel()
    for kind in (records["CorePlan"], records["SplitTask"]):
        for _ in range(constants["kMaxCores"]):
            if at >= len(text):
                return
            record = kind.from_buffer(text, at)
            at += ctypes.sizeof(kind)
            for field, _ in kind._fields_[:-1]:
                if rng.random() < 0.3:
                    setattr(record, field, rng.choice((0, -1, 1, 5, tasks, rng.randint(INT32.min, INT32.max), 2**62)))
            if rng.random() < 0.95:
                record.check = record_hash(record)


def record_hash(record: ctypes.Structure) -> int:
    """The check of metadata/plan.h."""
    value = 14695981039346656037
    for field, _ in record._fields_[:-1]:
        value = ((value ^ (getattr(record, field) % 2**64)) * 1099511628211) % 2**64
    return (value ^ (value >> 32)) % 2**32


def break_argument(call: Call, rng: random.Random) -> None:
    """One argument of a wrong type, dtype, shape or value."""
    inputs = call.inputs
    name = rng.choice([name for name in inputs if name not in ("p_scale", "atten_mask", "return_softmax_lse")])
    value = inputs[name]
    if isinstance(value, torch.Tensor):
        choices = [None, 3, value.to(rng.choice(OTHER_DTYPES)), value.unsqueeze(0), value.to("meta")]
        if name != "query" and name != "key" and name != "sparse_indices":  # these say how large the others must be
            choices.append(value.new_empty((value.shape[0] + 1, *value.shape[1:])))
    else:
        wrong = {"softmax_scale": (0.0, -1.0, float("nan"), float("inf")), "mask_mode": (1, 2, -3, 1 << 40)}
        choices = [None, torch.zeros(1), *wrong.get(name, (64, "x", -1, "TDN"))]
    call.kind, call.broken = "argument", name
    inputs[name] = rng.choice(choices)


def run(call: Call, mode: str | None = None) -> None:
    """AssertionError, with the seed in its text, if the call does not do what its kind asks for. mode: of the twin."""
    outputs, values, cores = backend._outputs, backend._values, 1 + call.seed % MAX_CORES
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are small
    backend._outputs = lambda problem: tuple(unwritten(x) for x in outputs(problem))
    backend._values = lambda problem: values(problem) | {"cores": cores}
    try:
        with library.mode(mode or ("checked" if call.seed % 2 else "fast")):
            _run(call)
    except Exception as error:
        raise AssertionError(f"seed {call.seed}, {call.kind} {call.broken}: {error!r}") from error
    finally:
        backend._outputs, backend._values = outputs, values
        torch.set_num_threads(threads)


def _run(call: Call) -> None:
    if call.kind != "argument":
        check_values(call)
    try:
        out, lse = qbsa.quant_block_sparse_attn(**call.inputs)
    except REFUSALS as error:
        assert call.kind == "argument" and ": " not in str(error).split()[0], error
        names = (call.broken, *(name for name in call.inputs if isinstance(call.inputs[name], torch.Tensor)))
        assert str(error).startswith(tuple(f"{name} " for name in names)), error
        return
    except RuntimeError as error:
        assert call.kind == "plan" and "metadata" in str(error), error
        return
    assert call.kind != "argument", "not refused"
    if call.kind == "plan":
        return
    for result in (out, lse):
        assert result is None or not is_unwritten(result).any(), "an element of the result was not written"
    if call.inputs["key"].shape[0] == 0:
        assert not out.any() and (lse is None or bool((lse == compare.EMPTY_LSE).all())), "no page, but a result"
    elif call.kind == "valid" and call.seed % TRUTH_STRIDE == 0:
        metadata = call.inputs.get("metadata")
        cut = metadata is not None and plan.read_plan(metadata).splits
        truth = truth_of_plan(call.inputs, metadata) if cut else reference.fp8_chain(**call.inputs)
        reports = compare.against_chain(out, lse, truth, call.inputs)
        assert all(report.worst_share <= 1 for report in reports), "\n".join(map(str, reports))


def check_values(call: Call) -> None:
    problem = validate.attention_problem(**(schema.defaults(schema.ATTENTION) | call.inputs))
    try:
        value_check.check_attention(problem)
    except ValueError as error:
        names = [f"{name}[" for name, value in call.inputs.items() if isinstance(value, torch.Tensor)]
        assert str(error).startswith((*names, "metadata ")) and "; got " in str(error), error


def unwritten(tensor: torch.Tensor) -> torch.Tensor:
    integers, code = UNWRITTEN[tensor.dtype]
    tensor.view(integers).fill_(code)
    return tensor


def is_unwritten(tensor: torch.Tensor) -> torch.Tensor:
    integers, code = UNWRITTEN[tensor.dtype]
    return tensor.view(integers) == code


def main() -> None:
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    mode = sys.argv[3] if len(sys.argv) > 3 else None
    kinds: dict[str, int] = {}
    failed = 0
    for seed in range(first, first + count):
        call = make_call(seed)
        if mode in ("race", "hostile") and call.kind in ("values", "plan"):
            continue
        try:
            run(call, mode)
        except AssertionError:
            traceback.print_exc()
            failed += 1
        kinds[call.kind] = kinds.get(call.kind, 0) + 1
    by_kind = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    print(f"{sum(kinds.values())} calls from seed {first} on ({by_kind}): {failed} failed")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
