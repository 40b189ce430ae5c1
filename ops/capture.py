"""Records the calls of a model as bundles: `with qbsa.capture("recorded"): model(tokens)`. See bundle.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from . import library, manifest, npu, schema
from .bundle import Bundle, save

_PAGED = ("key", "value", "k_descale")


class capture(TorchDispatchMode):  # a context, spelt as a function like torch.no_grad
    """Within this context each call of quant_block_sparse_attn is written to folder as a bundle, then a manifest.

    Args:
        folder: gets <name>_0000.pt and so on, and manifest.json with their SHA-256. Made if absent; it may hold no
            manifest.
        most: calls that are recorded, the first ones; later ones only run.
        name: begin of the file names and case ids.

    A bundle holds the arguments on the CPU, of the caches only the pages that the sequences use (their memory layout
    stays), and as expected values what the call returned: the result of that device, not the truth. So `python -m qbsa
    bundle verify` tells whether another device agrees; `bundle make FILE` makes a bundle with the truth from it. Each
    recorded call waits for the device and copies. Calls of other threads are not seen; fake tensors are passed over.

    Attribute paths: the bundles written so far.

    Raises: FileExistsError for a folder with a manifest; RuntimeError for a call inside the capture of an NPU graph.
    """

    def __init__(self, folder: str | os.PathLike[str], *, most: int = 16, name: str = "call"):
        super().__init__()  # type: ignore[no-untyped-call]
        self._folder, self._most, self._name = Path(folder), most, name
        self.paths: list[Path] = []

    def __enter__(self) -> capture:
        self._folder.mkdir(parents=True, exist_ok=True)
        if (self._folder / manifest.NAME).exists():
            raise FileExistsError(f"capture needs a folder without {manifest.NAME}; got {self._folder}")
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        manifest.write(self._folder / manifest.NAME, ((path.stem, path) for path in self.paths))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.qbsa.quant_block_sparse_attn.default and len(self.paths) < self._most:
            names = [argument.name for argument in func._schema.arguments]
            arguments = schema.defaults(schema.ATTENTION) | dict(zip(names, args)) | (kwargs or {})
            if not isinstance(result[0], FakeTensor):
                self._record(arguments, *result)
        return result

    def _record(self, arguments: dict[str, Any], out: torch.Tensor, lse: torch.Tensor) -> None:
        if out.device.type != "cpu" and npu.runtime().is_current_stream_capturing():
            raise RuntimeError("qbsa.capture cannot record inside the capture of a graph: record an eager call")
        path = self._folder / f"{self._name}_{len(self.paths):04d}.pt"
        metadata = arguments["metadata"]
        with_splits = metadata is not None and metadata.numel() == library.plan_words(max_kv_splits=0)
        origin = f"recorded on {_device_name(out.device)}{', lists may be split' if with_splits else ''}; not the truth"
        expected_lse = lse.cpu() if arguments["return_softmax_lse"] else None
        save(Bundle(path.stem, on_host(arguments), out.cpu(), expected_lse, origin), path)
        self.paths.append(path)


def on_host(arguments: dict[str, Any]) -> dict[str, Any]:
    """Copies of the arguments on the CPU that hold nothing else: without plan and mask, only pages in use."""
    copied = {
        name: _copy(value) if isinstance(value, torch.Tensor) else value
        for name, value in arguments.items()
        if name not in (*_PAGED, "metadata", "atten_mask")
    }
    table, pages = copied["block_table"], arguments["key"].shape[0]
    block_keys = library.contract().constants["kBlockKeys"]
    blocks = (copied["seqused_kv"].long() + block_keys - 1) // block_keys
    live = (torch.arange(table.shape[1]) < blocks[:, None]) & (table >= 0) & (table < pages)
    used, place = table[live].unique(return_inverse=True)
    copied["block_table"] = torch.full_like(table, -1).masked_scatter(live, place.to(table.dtype))
    copied["atten_mask"] = None
    return copied | _take_pages({name: arguments[name] for name in _PAGED}, used.tolist())


def _take_pages(tensors: dict[str, torch.Tensor], used: list[int]) -> dict[str, torch.Tensor]:
    """The pages `used` of each, with the strides they have; tensors that share a storage page by page still do."""
    taken: dict[str, torch.Tensor] = {}
    for group in _groups(tensors):
        first = next(iter(group.values()))
        page_bytes = first.stride(0) * first.element_size()
        begin = min(_begin(tensor) for tensor in group.values()) // 4 * 4  # of bytes: fp32 scales stay aligned
        span = max(_begin(tensor) + _extent(tensor, 1) for tensor in group.values()) - begin
        if not 0 < span <= page_bytes:  # pages that overlap, or are not the outermost dimension
            for name, tensor in group.items():
                taken[name] = torch.cat([tensor[:0].cpu(), *(_copy(tensor[page : page + 1]) for page in used)])
            continue
        source = _storage(first)
        slabs = torch.zeros(len(used), page_bytes, dtype=torch.uint8)
        for index, page in enumerate(used):
            at = begin + page * page_bytes
            slabs[index, :span] = source[at : at + span].cpu()
        for name, tensor in group.items():
            taken[name] = _view(tensor, slabs.flatten(), _begin(tensor) - begin, len(used))
    return taken


def _groups(tensors: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """By storage and bytes from page to page."""
    groups: dict[tuple[int, int], dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        key = tensor.untyped_storage().data_ptr(), tensor.stride(0) * tensor.element_size()
        groups.setdefault(key, {})[name] = tensor
    return list(groups.values())


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, dense; by bytes, so that no kernel of the device is needed."""
    source, begin = _storage(tensor), _begin(tensor)
    host = source[begin : begin + _extent(tensor, 0)].cpu()
    return _view(tensor, host, 0, tensor.shape[0] if tensor.dim() else 0).clone()


def _view(tensor: torch.Tensor, host: torch.Tensor, begin: int, outermost: int) -> torch.Tensor:
    """The view that tensor is of its own storage, of bytes on the host, with another size of its first dimension."""
    typed = host[: host.numel() // tensor.element_size() * tensor.element_size()].view(tensor.dtype)
    shape = (outermost, *tensor.shape[1:]) if tensor.dim() else ()
    return typed.as_strided(shape, tensor.stride(), typed.storage_offset() + begin // tensor.element_size())


def _storage(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _begin(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.element_size()


def _extent(tensor: torch.Tensor, outer: int) -> int:
    """Bytes from the first element to behind the last one, over the dimensions from `outer` on."""
    if tensor.numel() == 0:
        return 0
    steps = zip(tensor.shape[outer:], tensor.stride()[outer:])
    return (1 + sum((size - 1) * stride for size, stride in steps)) * tensor.element_size()


def _device_name(device: torch.device) -> str:
    if device.type == "cpu":
        return library.current().path.name
    return f"{device} ({npu.runtime().get_device_name(npu.device(device))})"
