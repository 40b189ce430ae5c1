"""What torch users expect beyond test_ops.py: autocast, no_grad, inference mode, gradients, threads that differ."""

import threading
from concurrent.futures import ThreadPoolExecutor

import cases
import pytest
import qbsa
import torch
from cases import Case


@pytest.fixture(scope="module")
def inputs():
    return cases.make_inputs(Case("", (4, 2), (140, 40), (300, 131), "dense", 0))


@pytest.fixture(scope="module")
def expected(inputs):
    return qbsa.quant_block_sparse_attn(**inputs)


def same(one, other):
    return all(torch.equal(x, y) for x, y in zip(one, other, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_nothing(inputs, expected, dtype):
    """Scales stay fp32 and are not cast behind the caller's back."""
    with torch.autocast("cpu", dtype=dtype):
        assert same(qbsa.quant_block_sparse_attn(**inputs), expected)


def test_grad_modes_change_nothing(inputs, expected):
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            result = qbsa.quant_block_sparse_attn(**inputs)
        assert same(result, expected) and not any(tensor.requires_grad for tensor in result)


def test_backward_warns_and_gives_nothing(inputs):
    """There are no gradients; torch says so."""
    scales = inputs["q_descale"].clone().requires_grad_()
    out, _ = qbsa.quant_block_sparse_attn(**(inputs | {"q_descale": scales}))
    with pytest.warns(UserWarning, match="an autograd kernel was not registered"):
        out.float().sum().backward()
    assert scales.grad is None


def test_different_calls_at_once_do_not_mix(inputs):
    """Each thread plans and attends for itself; sizes, modes and LSE differ between them."""
    changes = [{"mask_mode": mode, "return_softmax_lse": lse} for mode in (0, 3) for lse in (False, True)]
    expected = [qbsa.quant_block_sparse_attn(**(inputs | change)) for change in changes]
    start = threading.Barrier(len(changes))

    def call(index):
        start.wait()
        return [qbsa.quant_block_sparse_attn(**(inputs | changes[index])) for _ in range(3)]

    with ThreadPoolExecutor(len(changes)) as pool:
        for results, (out, lse) in zip(pool.map(call, range(len(changes))), expected):
            for got_out, got_lse in results:
                assert torch.equal(got_out, out) and (lse is None) == (got_lse is None)
                assert lse is None or torch.equal(got_lse, lse)
