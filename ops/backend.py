"""Registers torch.ops.qbsa.*: one schema, and per operator a CPU, an NPU and a fake implementation.

CPU: the twin through ctypes. NPU: npu.py, which raises the reason where it cannot compute; without an implementation
torch_npu would copy the tensors and compute on the CPU without a word. Fake: shapes only (torch.compile, meta tensors).
There are no gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import library, npu, schema, value_check
from .validate import Problem, attention_problem, metadata_problem


def attention_cpu(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _attention(library.current(), attention_problem(*args, **kwargs))


def metadata_cpu(*args: Any, **kwargs: Any) -> torch.Tensor:
    return _metadata(library.current(), metadata_problem(*args, **kwargs))


def attention_npu(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    problem = attention_problem(*args, **kwargs)
    return _attention(npu.load(problem.device), problem)


def metadata_npu(*args: Any, **kwargs: Any) -> torch.Tensor:
    problem = metadata_problem(*args, **kwargs)
    return _metadata(npu.load(problem.device), problem)


def attention_fake(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _outputs(attention_problem(*args, **kwargs))


def metadata_fake(*args: Any, **kwargs: Any) -> torch.Tensor:
    return _empty_plan(metadata_problem(*args, **kwargs))


def _attention(target: library.Twin | npu.Npu, problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    if value_check.enabled():
        value_check.check_attention(problem)
    out, lse = _outputs(problem)
    if problem.numbers["tokens"] == 0:
        return out, lse
    plan = _plan(target, problem) if problem.plan is None else problem.plan
    values = _values(problem) | {"plan": plan, "plan_words": plan.numel(), "reserved": 0, "workspace": None}
    values |= {"out": out, "lse": lse if problem.return_lse else None}
    workspace = torch.empty(target.workspace_bytes(values), dtype=torch.uint8, device=problem.device)
    target.attention(values | {"workspace": workspace})
    return out, lse


def _metadata(target: library.Twin | npu.Npu, problem: Problem) -> torch.Tensor:
    if value_check.enabled():
        value_check.check_metadata(problem)
    return _plan(target, problem)


def _outputs(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, heads = problem.numbers["tokens"], problem.numbers["heads_q"]
    query = problem.tensors["query"]
    out = torch.empty((tokens, heads, query.shape[-1]), dtype=torch.bfloat16, device=query.device)
    lse = torch.empty((heads, tokens) if problem.return_lse else (0,), dtype=torch.float32, device=query.device)
    return out, lse


def _plan(target: library.Twin | npu.Npu, problem: Problem) -> torch.Tensor:
    plan = _empty_plan(problem)
    target.schedule({"max_kv_splits": 1} | _values(problem) | {"plan": plan})
    return plan


def _empty_plan(problem: Problem) -> torch.Tensor:
    words = library.plan_words(problem.numbers.get("max_kv_splits", 1))
    return torch.empty(words, dtype=torch.int32, device=problem.device)


def _values(problem: Problem) -> dict[str, Any]:
    """Field name -> number or tensor. cores 0: all that the plan names, or all of the device."""
    return problem.numbers | problem.tensors | {"cores": 0}


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
    for text, on_cpu, on_npu, fake in _OPERATORS:
        name = owner.define(text)
        owner.impl(name, _with_defaults(text, on_cpu), "CPU")
        owner.impl(name, _with_defaults(text, on_npu), "PrivateUse1")
        torch.library.register_fake(f"{schema.NAMESPACE}::{name}", _with_defaults(text, fake), lib=owner)
    namespace._owner = owner


def _with_defaults(text: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    """torch leaves out keyword arguments that equal their default; the implementations get them all."""
    defaults = schema.defaults(text)

    @functools.wraps(implementation)
    def call(*args: Any, **kwargs: Any) -> Any:
        return implementation(*args, **(defaults | kwargs))

    return call
