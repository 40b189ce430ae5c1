"""The one validator: arguments of either operator -> a Problem, or one error with argument, rule, value and limits.

The CPU, NPU and fake implementations all come through here. It reads types, shapes, strides, dtypes and devices, never
the contents of a tensor, so it neither waits for a device nor minds symbolic sizes. ValueError: shape, stride, dtype,
device or value. NotImplementedError: a mode, layout or head size that this release does not have. TypeError: a wrong
Python type, or None for a required argument.
"""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any

import torch

from . import check, library

LAYOUTS_Q = ("TND", "NTD")
LAYOUTS_KV = ("PA_BNBD",)
LAYOUTS_LISTS = ("B_N_Qb_Kb",)
LAYOUTS_OUT = ("TND",)
MASK_SHAPE = (2048, 2048)

_FP8 = torch.float8_e4m3fn
_FP32 = torch.finfo(torch.float32)
_INT64 = torch.iinfo(torch.int64)

# Schema type -> the Python types that stand for it.
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "int": (numbers.Integral, torch.SymInt),
    "float": (numbers.Real, torch.SymFloat),
    "str": (str,),
    "bool": (bool,),
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """A checked call in the words of contract.h.

    tensors: torch.Tensor, or None for address 0, by the name of the pointer field.
    numbers: every size, stride and mode by the name of its field, strides in elements.
    plan: the caller's metadata, if any.
    layout_q: the axes of query and q_descale.
    """

    tensors: dict[str, Any]
    numbers: dict[str, Any]
    plan: torch.Tensor | None = None
    return_lse: bool = False
    layout_q: str = "TND"

    @property
    def device(self) -> torch.device:
        device: torch.device = self.tensors["sparse_seq_len"].device
        return device


def check_types(arguments: dict[str, Any], types: dict[str, str]) -> None:
    """TypeError unless each argument has the Python type that its schema type asks for.

    ValueError for what torch would refuse before any code of ours sees it: sparse tensors and ints beyond 64 bits.
    """
    for name, declared in types.items():
        value = arguments[name]
        optional = declared.startswith("Optional[")
        kind = declared.removeprefix("Optional[").removesuffix("]")
        if value is None and optional:
            continue
        wanted = {"Tensor": "a torch.Tensor", "int": "an int"}.get(kind, f"a {kind}")
        wanted += " or None" if optional else ""
        if kind == "Tensor":
            check.dense_tensor(name, value, wanted)
        else:
            check.python_type(name, value, _PYTHON_TYPES[kind], wanted)
        if isinstance(value, numbers.Integral) and not _INT64.min <= int(value) <= _INT64.max:
            check.refuse(ValueError, name, "must fit in 64 bits", value)


def attention_problem(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    q_descale: torch.Tensor,
    k_descale: torch.Tensor,
    v_descale: torch.Tensor,
    p_scale: torch.Tensor | None,
    sparse_indices: torch.Tensor,
    sparse_seq_len: torch.Tensor,
    atten_mask: torch.Tensor | None,
    softmax_scale: float,
    sparse_q_block_size: int,
    sparse_kv_block_size: int,
    *,
    cu_seqlens_q: torch.Tensor | None,
    cu_seqlens_kv: torch.Tensor | None,
    seqused_q: torch.Tensor | None,
    seqused_kv: torch.Tensor | None,
    block_table: torch.Tensor | None,
    metadata: torch.Tensor | None,
    layout_kv: str,
    layout_q: str,
    layout_sparse_indices: str,
    layout_out: str,
    quant_mode: int,
    mask_mode: int,
    return_softmax_lse: bool,
) -> Problem:
    """Checks a call of quant_block_sparse_attn; arguments as there."""
    contract = library.contract()
    head_dim, block_keys = contract.constants["kHeadDim"], contract.constants["kBlockKeys"]
    _modes(contract, quant_mode, mask_mode)
    check.one_of(ValueError, "sparse_q_block_size", sparse_q_block_size, (contract.constants["kBlockRows"],))
    check.one_of(ValueError, "sparse_kv_block_size", sparse_kv_block_size, (block_keys,))
    _layouts(layout_q, layout_kv, layout_sparse_indices)
    check.one_of(NotImplementedError, "layout_out", layout_out, LAYOUTS_OUT)
    _reserved(cu_seqlens_kv, seqused_q)
    cu_seqlens_q = _required("cu_seqlens_q", cu_seqlens_q)
    seqused_kv = _required("seqused_kv", seqused_kv)
    block_table = _required("block_table", block_table)
    _softmax_scale(softmax_scale)

    device = query.device
    query_axes = ("T", "N1") if layout_q == "TND" else ("N1", "T")
    sizes = check.Sizes({"D": head_dim, "token": block_keys}, device)
    sizes.tensor("query", query, _FP8, (*query_axes, "D"))
    sizes.tensor("key", key, _FP8, ("P", "N2", "token", "D"))
    _group(contract, sizes["N1"], sizes["N2"], "query", "key")
    sizes.tensor("value", value, _FP8, ("P", "N2", "token", "D"))
    sizes.tensor("q_descale", q_descale, torch.float32, query_axes)
    if k_descale.dim() == 1 and k_descale.numel() == 1:  # one scale for all keys
        k_descale = k_descale.expand(sizes["P"], sizes["N2"], block_keys, 1)
    sizes.tensor("k_descale", k_descale, torch.float32, ("P", "N2", "token", 1))
    sizes.tensor("v_descale", v_descale, torch.float32, ("N2",), contiguous=True)
    if p_scale is not None:
        sizes.tensor("p_scale", p_scale, torch.float32, (1,))
    sizes.tensor("sparse_indices", sparse_indices, torch.int32, ("B", "N1", "Qb", "Kb"))
    sizes.tensor("sparse_seq_len", sparse_seq_len, torch.int32, ("B", "N1", "Qb"))
    sizes.tensor("cu_seqlens_q", cu_seqlens_q, torch.int32, ("B+1",), contiguous=True)
    sizes.tensor("seqused_kv", seqused_kv, torch.int32, ("B",), contiguous=True)
    sizes.tensor("block_table", block_table, torch.int32, ("B", "L"))
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        _contiguous_rows(name, tensor)
    _mask(sizes, contract, atten_mask, mask_mode)
    if metadata is not None:
        plain, with_splits = library.plan_words(), library.plan_words(max_kv_splits=0)
        words = with_splits if metadata.numel() == with_splits else plain
        sizes.tensor("metadata", metadata, torch.int32, (words,), contiguous=True)

    by_token = (0, 1) if layout_q == "TND" else (1, 0)
    values = {
        "tokens": sizes["T"],
        **_list_sizes(sizes),
        "list_capacity": sizes["Kb"],
        "pages": sizes["P"],
        "table_width": sizes["L"],
        **_strides("query", query.permute(*by_token, 2), "token", "head"),
        **_strides("q_descale", q_descale.permute(by_token), "token", "head"),
        **_strides("key", key, "page", "head", "token"),
        **_strides("value", value, "page", "head", "token"),
        **_strides("k_descale", k_descale, "page", "head", "token"),
        **_strides("indices", sparse_indices, "batch", "head", "block", "entry"),
        **_strides("seq_len", sparse_seq_len, "batch", "head", "block"),
        **_strides("table", block_table, "batch", "entry"),
        "softmax_scale": softmax_scale,
        "quant_mode": quant_mode,
        "mask_mode": mask_mode,
    }
    tensors = {
        "query": query,
        "key": key,
        "value": value,
        "q_descale": q_descale,
        "k_descale": k_descale,
        "v_descale": v_descale,
        "p_scale": p_scale,
        "sparse_indices": sparse_indices,
        "sparse_seq_len": sparse_seq_len,
        "cu_seqlens_q": cu_seqlens_q,
        "seqused_kv": seqused_kv,
        "block_table": block_table,
    }
    return Problem(tensors, values, metadata, return_softmax_lse, layout_q)


def metadata_problem(
    sparse_seq_len: torch.Tensor,
    num_heads_q: int,
    num_heads_kv: int,
    head_dim: int,
    *,
    cu_seqlens_q: torch.Tensor | None,
    cu_seqlens_kv: torch.Tensor | None,
    seqused_q: torch.Tensor | None,
    seqused_kv: torch.Tensor | None,
    sparse_block_size_q: int,
    sparse_block_size_k: int,
    quant_mode: int,
    mask_mode: int,
    layout_q: str,
    layout_kv: str,
    layout_sparse_indices: str,
    max_kv_splits: int,
) -> Problem:
    """Checks a call of quant_block_sparse_attn_metadata; arguments as there."""
    contract = library.contract()
    _modes(contract, quant_mode, mask_mode)
    check.one_of(ValueError, "sparse_block_size_q", sparse_block_size_q, (contract.constants["kBlockRows"],))
    check.one_of(ValueError, "sparse_block_size_k", sparse_block_size_k, (contract.constants["kBlockKeys"],))
    _layouts(layout_q, layout_kv, layout_sparse_indices)
    _reserved(cu_seqlens_kv, seqused_q)
    check.one_of(NotImplementedError, "head_dim", head_dim, (contract.constants["kHeadDim"],))
    if max_kv_splits < 0:
        check.refuse(ValueError, "max_kv_splits", "must be 0 (as many as pay), 1 (none) or more", max_kv_splits)
    _group(contract, num_heads_q, num_heads_kv, "num_heads_q", "num_heads_kv")

    sizes = check.Sizes({"N1": num_heads_q, "N2": num_heads_kv}, sparse_seq_len.device)
    sizes.tensor("sparse_seq_len", sparse_seq_len, torch.int32, ("B", "N1", "Qb"))
    for name, tensor, axis in (("cu_seqlens_q", cu_seqlens_q, "B+1"), ("seqused_kv", seqused_kv, "B")):
        if tensor is not None:
            sizes.tensor(name, tensor, torch.int32, (axis,), contiguous=True)
    values = {
        **_list_sizes(sizes),
        **_strides("seq_len", sparse_seq_len, "batch", "head", "block"),
        "max_kv_splits": min(max_kv_splits, contract.constants["kMaxCores"]),
    }
    return Problem({"sparse_seq_len": sparse_seq_len, "cu_seqlens_q": cu_seqlens_q}, values)


def _modes(contract: library.Contract, quant_mode: int, mask_mode: int) -> None:
    check.one_of(NotImplementedError, "quant_mode", quant_mode, contract.quant_modes.values())
    check.one_of(NotImplementedError, "mask_mode", mask_mode, contract.mask_modes.values())


def _layouts(layout_q: str, layout_kv: str, layout_sparse_indices: str) -> None:
    check.one_of(NotImplementedError, "layout_q", layout_q, LAYOUTS_Q)
    check.one_of(NotImplementedError, "layout_kv", layout_kv, LAYOUTS_KV)
    check.one_of(NotImplementedError, "layout_sparse_indices", layout_sparse_indices, LAYOUTS_LISTS)


def _reserved(cu_seqlens_kv: torch.Tensor | None, seqused_q: torch.Tensor | None) -> None:
    for name, value in (("cu_seqlens_kv", cu_seqlens_kv), ("seqused_q", seqused_q)):
        if value is not None:
            check.refuse(ValueError, name, "is reserved and must be None", "a tensor")


def _required(name: str, value: torch.Tensor | None) -> torch.Tensor:
    if value is None:
        check.refuse(TypeError, name, "is required and must be a torch.Tensor", "None")
    return value


def _softmax_scale(scale: float) -> None:
    # Comparisons only: they also refuse NaN, and a symbolic scale stays symbolic.
    if not (scale >= _FP32.tiny and scale <= _FP32.max):
        rule = f"must be a finite fp32 number > 0 ({_FP32.tiny:.3g} to {_FP32.max:.3g})"
        check.refuse(ValueError, "softmax_scale", rule, scale)


def _group(contract: library.Contract, heads_q: Any, heads_kv: Any, name_q: str, name_kv: str) -> None:
    limit = contract.constants["kMaxGroup"]
    if heads_kv < 1:
        check.refuse(ValueError, name_kv, "must have at least one KV head (N2 >= 1)", heads_kv)
    if heads_q < heads_kv or heads_q % heads_kv != 0 or heads_q // heads_kv > limit:
        rule = f"must have N1 heads with N1 a multiple of N2 (from {name_kv}) and 1 <= N1 / N2 <= {limit}"
        check.refuse(ValueError, name_q, rule, f"N1 = {heads_q}, N2 = {heads_kv}")


def _contiguous_rows(name: str, tensor: torch.Tensor) -> None:
    """Rows of D bytes; the other dimensions may have any stride, 0 (expanded) included."""
    if tensor.stride(-1) != 1:
        check.refuse(ValueError, name, "must have a contiguous last dimension (stride 1)", f"strides {tensor.stride()}")


def _mask(sizes: check.Sizes, contract: library.Contract, atten_mask: torch.Tensor | None, mask_mode: int) -> None:
    if atten_mask is None:
        return
    if mask_mode != contract.mask_modes["kCausal"]:
        check.refuse(ValueError, "atten_mask", f"must be None with mask_mode {mask_mode}", "a tensor")
    sizes.tensor("atten_mask", atten_mask, torch.uint8, MASK_SHAPE)


def _list_sizes(sizes: check.Sizes) -> dict[str, Any]:
    return {"batch": sizes["B"], "heads_q": sizes["N1"], "heads_kv": sizes["N2"], "q_blocks": sizes["Qb"]}


def _strides(prefix: str, tensor: torch.Tensor, *axes: str) -> dict[str, Any]:
    return {f"{prefix}_{axis}_stride": stride for axis, stride in zip(axes, tensor.stride())}
