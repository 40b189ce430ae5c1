"""Checks of arguments for all public functions. One form of message: argument, rule, what was given."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import torch

Axes = Sequence[str | int]

FLOAT, INTEGER = "a floating-point dtype", "an integer dtype"  # any of the kind
_INT32_MAX = torch.iinfo(torch.int32).max


def refuse(kind: type[Exception], name: str, rule: str, got: Any) -> NoReturn:
    raise kind(f"{name} {rule}; got {got}")


def one_of(kind: type[Exception], name: str, value: Any, allowed: Iterable[Any]) -> None:
    allowed = tuple(allowed)
    if value not in allowed:
        choices = repr(allowed[0]) if len(allowed) == 1 else "one of " + ", ".join(map(repr, allowed))
        refuse(kind, name, f"must be {choices}", repr(value))


def python_type(name: str, value: Any, kinds: type | tuple[type, ...], wanted: str) -> None:
    """TypeError unless value is one of kinds. A bool is an int to Python, but here it is a mixed-up argument."""
    given_bool = isinstance(value, bool) and kinds not in (bool, (bool,))
    if given_bool or not isinstance(value, kinds):
        refuse(TypeError, name, f"must be {wanted}", described(value))


def dense_tensor(name: str, value: Any, wanted: str = "a torch.Tensor") -> None:
    python_type(name, value, torch.Tensor, wanted)
    if value.layout != torch.strided:
        refuse(ValueError, name, "must be a dense (torch.strided) tensor", value.layout)


def flag(name: str, value: Any) -> None:
    python_type(name, value, bool, "a bool")


def integer(name: str, value: Any, least: int = 0) -> None:
    python_type(name, value, numbers.Integral, "an int")
    if value < least:
        refuse(ValueError, name, f"must be at least {least}", value)


def token_counts(name: str, lens: Any) -> list[int]:
    """Tokens of each sequence: a sequence of ints, or a tensor or array of them with one dimension."""
    counts = lens.tolist() if hasattr(lens, "tolist") else lens
    python_type(name, counts, (list, tuple, range), "a sequence of ints, the tokens of each sequence")
    for index, count in enumerate(counts):
        python_type(f"{name}[{index}]", count, numbers.Integral, "an int")
        if not 0 <= count <= _INT32_MAX:
            refuse(ValueError, f"{name}[{index}]", f"must be in 0..{_INT32_MAX}", count)
    return [int(count) for count in counts]


def described(value: Any) -> str:
    """A value of a wrong type, for a message."""
    return "None" if value is None else f"{type(value).__name__} {value!r:.60}"


def brackets(sizes: Iterable[Any]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


class Sizes:
    """Axis sizes by name: the first tensor that has an axis fixes its size, every later one must agree.

    device None is that of the first tensor. The axis B+1 has one element more than B.
    """

    def __init__(self, fixed: dict[str, Any] | None = None, device: torch.device | None = None):
        self._device = device
        self._sizes = dict(fixed or {})
        self._source: dict[str, str] = {}

    def __getitem__(self, axis: str) -> Any:
        return self._sizes[axis]

    def tensor(self, name: str, tensor: Any, dtype: torch.dtype | str, axes: Axes, contiguous: bool = False) -> None:
        """Checks dtype (one, or FLOAT or INTEGER), device, shape and, if asked, contiguity."""
        dense_tensor(name, tensor)
        if not _has_dtype(tensor, dtype):
            wanted = dtype if isinstance(dtype, str) else f"dtype {dtype}"
            refuse(ValueError, name, f"must have {wanted}", tensor.dtype)
        self._device = self._device or tensor.device
        if tensor.device != self._device:
            refuse(ValueError, name, f"must be on {self._device}, where the other tensors are", tensor.device)
        self._shape(name, tensor.shape, axes)
        if contiguous and not tensor.is_contiguous():
            refuse(ValueError, name, "must be contiguous (pass a .contiguous() copy)", f"strides {tensor.stride()}")

    def _shape(self, name: str, shape: Sequence[Any], axes: Axes) -> None:
        if len(shape) != len(axes):
            rule = f"must have {len(axes)} dimensions {brackets(axes)}"
            refuse(ValueError, name, rule, f"shape {brackets(shape)}")
        for axis, size in zip(axes, shape):
            if axis in self._sizes or isinstance(axis, int) or axis == "B+1":
                continue
            self._sizes[axis], self._source[axis] = size, name
        for axis, size in zip(axes, shape):
            if size == self._expected(axis):
                continue
            kind = NotImplementedError if axis == "D" else ValueError
            others = [a for a in axes if isinstance(a, str) and self._source.get(a) != name]
            known = [f"{a} = {self._expected(a)}{self._origin(a)}" for a in others]
            rule = f"must have shape {brackets(axes)}" + (f" with {', '.join(known)}" if known else "")
            refuse(kind, name, rule, f"shape {brackets(shape)}")

    def _expected(self, axis: str | int) -> Any:
        if isinstance(axis, int):
            return axis
        return self._sizes["B"] + 1 if axis == "B+1" else self._sizes[axis]

    def _origin(self, axis: str) -> str:
        source = self._source.get(axis.removesuffix("+1"))
        return f" (from {source})" if source else ""


def _has_dtype(tensor: torch.Tensor, dtype: torch.dtype | str) -> bool:
    if isinstance(dtype, torch.dtype):
        return tensor.dtype == dtype
    if dtype == FLOAT:
        return tensor.is_floating_point()
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
