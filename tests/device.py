"""Where operator tests compute: QBSA_TEST_DEVICE, else the CPU. Data goes there and back by explicit copies."""

import os

import qbsa
from qbsa import bundle, npu

DEVICE = npu.device(os.environ.get(bundle.DEVICE_VARIABLE) or "cpu")


def moved(inputs, device=None):
    """Keyword arguments with every tensor on the device, DEVICE unless another is given."""
    return bundle.to_device(inputs, DEVICE if device is None else device)


def attend(inputs):
    """quant_block_sparse_attn(**inputs) on the device; out and lse on the CPU."""
    out, lse = qbsa.quant_block_sparse_attn(**moved(inputs))
    return out.cpu(), lse if lse is None else lse.cpu()
