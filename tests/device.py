"""Where operator tests compute: QBSA_TEST_DEVICE, else the CPU. Data goes there and back by explicit copies."""

import os

import qbsa
import torch
from qbsa import bundle

DEVICE = torch.device(os.environ.get(bundle.DEVICE_VARIABLE) or "cpu")


def moved(inputs, device=None):
    """Keyword arguments with every tensor on the device: same strides, and views of one storage still share one."""
    device = DEVICE if device is None else torch.device(device)
    if device.type == "cpu":
        return inputs
    storages = {}

    def move(x):
        storage = x.untyped_storage()
        key = storage.data_ptr()
        if key not in storages:
            storages[key] = torch.empty(0, dtype=torch.uint8).set_(storage).to(device)
        return storages[key].view(x.dtype).as_strided(x.shape, x.stride(), x.storage_offset())

    return {name: move(x) if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}


def attend(inputs):
    """quant_block_sparse_attn(**inputs) on the device; out and lse on the CPU."""
    out, lse = qbsa.quant_block_sparse_attn(**moved(inputs))
    return out.cpu(), lse if lse is None else lse.cpu()
