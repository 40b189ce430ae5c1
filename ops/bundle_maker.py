"""Makes bundles. Their expected values are the fp64 truth of a checkout's tests, never the operator's own result."""

from __future__ import annotations

import difflib
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from . import schema, validate
from .bundle import Bundle, dense, load_inputs

ORIGIN = "tests/reference.py fp8_chain"
_TESTS = Path(__file__).resolve().parents[1] / "tests"


def make(source: str, layout_q: str = "TND") -> Bundle:
    """A bundle of the case `source` in the given layout, or of the keyword arguments in the file `source`.

    ValueError or FileNotFoundError if source names neither, or the file holds something else; RuntimeError outside a
    checkout.
    """
    if Path(source).suffix == ".pt":
        return from_inputs(Path(source).stem, load_inputs(Path(source)))
    cases, generalized = _module("cases"), _module("cases_generalized")
    known = {case.id: case for case in cases.DSL} | generalized.ALL
    if source not in known:
        near = difflib.get_close_matches(source, known, n=5, cutoff=0.3)
        raise ValueError(
            f"{source} is neither a file (.pt) nor one of {len(known)} cases; near: {', '.join(near) or 'none'}"
        )
    return from_inputs(source, cases.make_inputs(known[source], layout_q))


def from_inputs(case_id: str, inputs: dict[str, Any]) -> Bundle:
    """A bundle of keyword arguments of quant_block_sparse_attn, which may raise what that raises for them.

    A causal mask tensor is not stored: the operator does not read it.
    """
    arguments = schema.defaults(schema.ATTENTION) | inputs
    validate.check_types(arguments, schema.argument_types(schema.ATTENTION))
    validate.attention_problem(**arguments)
    inputs = inputs | {"atten_mask": None}
    out, lse = dense(_module("reference").fp8_chain(**inputs), inputs)
    return Bundle(case_id, inputs, out, lse if inputs.get("return_softmax_lse") else None, ORIGIN)


def _module(name: str) -> ModuleType:
    if not (_TESTS / f"{name}.py").exists():
        raise RuntimeError("bundles are made in a checkout of qbsa (pip install -e .): the truth is in its tests")
    if str(_TESTS) not in sys.path:
        sys.path.append(str(_TESTS))
    return importlib.import_module(name)
