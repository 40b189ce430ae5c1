"""Registers torch.ops.qbsa.*: one schema, and per operator a CPU, an NPU and a fake implementation.

CPU: the twin through ctypes. NPU: without the NPU library an error, since torch_npu would otherwise copy the tensors
and compute on the CPU without a word. Fake: shapes only (torch.compile, meta tensors). There are no gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from . import library, schema
from .validate import Problem, attention_problem, metadata_problem

# LSE of a row that sees no key; its output is 0.
_EMPTY_LSE = torch.finfo(torch.float32).min


def attention_cpu(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    problem = attention_problem(*args, **kwargs)
    out, lse = _outputs(problem)
    sizes = problem.numbers
    if sizes["tokens"] == 0:
        return out, lse
    if 0 in (sizes["batch"], sizes["q_blocks"], sizes["list_capacity"], sizes["pages"], sizes["table_width"]):
        return out.zero_(), lse.fill_(_EMPTY_LSE)
    twin = library.current()
    plan = _plan(twin, problem) if problem.plan is None else problem.plan
    values = _values(problem) | {"plan": plan.data_ptr(), "out": out.data_ptr(), "workspace": 0}
    values |= {"lse": lse.data_ptr() if problem.return_lse else 0, "plan_words": plan.numel(), "reserved": 0}
    workspace = torch.empty(twin.workspace_bytes(values), dtype=torch.uint8)
    twin.attention(values | {"workspace": workspace.data_ptr()})
    return out, lse


def metadata_cpu(*args: Any, **kwargs: Any) -> torch.Tensor:
    return _plan(library.current(), metadata_problem(*args, **kwargs))


def attention_fake(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _outputs(attention_problem(*args, **kwargs))


def metadata_fake(*args: Any, **kwargs: Any) -> torch.Tensor:
    problem = metadata_problem(*args, **kwargs)
    return torch.empty(_plan_words(problem), dtype=torch.int32, device=problem.device)


def attention_npu(*args: Any, **kwargs: Any) -> NoReturn:
    _explain_npu(attention_problem(*args, **kwargs))


def metadata_npu(*args: Any, **kwargs: Any) -> NoReturn:
    _explain_npu(metadata_problem(*args, **kwargs))


def _explain_npu(problem: Problem) -> NoReturn:
    raise RuntimeError(
        f"the tensors are on {problem.device}, but this installation of qbsa has no NPU library: libqbsa_npu.so is "
        f"missing in {library.FOLDER}. This release computes on CPU tensors: pass .cpu() copies of all arguments"
    )


def _outputs(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, heads = problem.numbers["tokens"], problem.numbers["heads_q"]
    query = problem.tensors["query"]
    out = torch.empty((tokens, heads, query.shape[-1]), dtype=torch.bfloat16, device=query.device)
    lse = torch.empty((heads, tokens) if problem.return_lse else (0,), dtype=torch.float32, device=query.device)
    return out, lse


def _plan(twin: library.Twin, problem: Problem) -> torch.Tensor:
    plan = torch.empty(_plan_words(problem), dtype=torch.int32)
    twin.schedule({"max_kv_splits": 1} | _values(problem) | {"plan": plan.data_ptr()})
    return plan


def _plan_words(problem: Problem) -> int:
    return library.plan_words(problem.numbers.get("max_kv_splits", 1))


def _values(problem: Problem) -> dict[str, Any]:
    """Field name -> number or address. cores 0: all that the plan names, or all of this machine."""
    addresses = {name: _address(name, tensor) for name, tensor in problem.tensors.items()}
    return problem.numbers | addresses | {"cores": 0}


def _address(name: str, tensor: torch.Tensor | None) -> int:
    if tensor is None:
        return 0
    address = tensor.data_ptr()
    if address % tensor.element_size() != 0:
        rule = f"must begin at a multiple of its element size, {tensor.element_size()} bytes"
        raise ValueError(f"{name} {rule}; got address {address:#x}")
    return address


_OPERATORS = (
    (schema.ATTENTION, attention_cpu, attention_npu, attention_fake),
    (schema.METADATA, metadata_cpu, metadata_npu, metadata_fake),
)


def register() -> None:
    """Defines and implements both operators, once a process however often qbsa is imported.

    torch takes operators away with their Library object, so it is kept where the operators are: in torch.ops.qbsa.
    """
    namespace = getattr(torch.ops, schema.NAMESPACE)
    if hasattr(namespace, "_owner"):
        return
    owner = torch.library.Library(schema.NAMESPACE, "FRAGMENT")
    for text, cpu, npu, fake in _OPERATORS:
        name = owner.define(text)
        owner.impl(name, _with_defaults(text, cpu), "CPU")
        owner.impl(name, _with_defaults(text, npu), "PrivateUse1")
        torch.library.register_fake(f"{schema.NAMESPACE}::{name}", _with_defaults(text, fake), lib=owner)
    namespace._owner = owner


def _with_defaults(text: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    """torch leaves out keyword arguments that equal their default; the implementations get them all."""
    defaults = schema.defaults(text)

    @functools.wraps(implementation)
    def call(*args: Any, **kwargs: Any) -> Any:
        return implementation(*args, **(defaults | kwargs))

    return call
