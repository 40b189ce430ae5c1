"""Golden bundles: the arguments of one call and what it must return, in one file. See `python -m qbsa bundle`.

A bundle is a torch.save of tensors and plain values, loaded with weights_only=True, in the format of the public tests:

    case_id       str
    inputs        the keyword arguments of quant_block_sparse_attn
    expected      bfloat16 [T, N1, 128]
    expected_lse  float32 [N1, T], or None when the call returns none
    origin        str, where the expected values come from; absent in bundles of others
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import compare, manifest, npu, schema
from .attention import quant_block_sparse_attn

FOLDER_VARIABLE = "QBSA_GENERALIZED_BUNDLE_DIR"
MANIFEST_VARIABLE = "QBSA_PREFILL_BUNDLE_MANIFEST"
DEVICE_VARIABLE = "QBSA_TEST_DEVICE"


@dataclass(frozen=True)
class Bundle:
    case_id: str
    inputs: dict[str, Any]
    expected: torch.Tensor
    expected_lse: torch.Tensor | None
    origin: str = ""


def save(bundle: Bundle, path: Path) -> None:
    """Writes a bundle. Tensors keep their strides and shared storages, so clone views of larger ones first.

    A storage that tensors of several dtypes share is stored once for each, since torch.save takes one dtype only.
    """
    unfinished = path.with_suffix(".tmp")
    try:
        torch.save(dict(vars(bundle)) | {"inputs": _one_dtype_per_storage(bundle.inputs)}, unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def load(path: Path) -> Bundle:
    """Reads a bundle onto the CPU; a metadata entry among its inputs is left out, since plans are not portable.

    ValueError names the file and what is wrong with it, FileNotFoundError a file that is not there.
    """
    content = _load_dict(path)
    if not isinstance(content.get("inputs"), dict):
        raise ValueError(f"{path} is no bundle: it must hold a dict with a dict `inputs`")
    missing = [name for name in ("expected", "expected_lse") if name not in content]
    if missing:
        raise ValueError(f"{path} is no bundle: {', '.join(missing)} missing; it has {', '.join(map(str, content))}")
    inputs = _arguments(path, content["inputs"])
    _check_expected(path, inputs, content["expected"], content["expected_lse"])
    return Bundle(
        case_id=str(content.get("case_id", Path(path).stem)),
        inputs=inputs,
        expected=content["expected"],
        expected_lse=content["expected_lse"],
        origin=str(content.get("origin", "")),
    )


def load_inputs(path: Path) -> dict[str, Any]:
    """The keyword arguments that a file holds, on the CPU: a torch.save of them, or a bundle. Errors as load."""
    content = _load_dict(path)
    return _arguments(path, content["inputs"] if isinstance(content.get("inputs"), dict) else content)


def load_result(path: Path) -> tuple[torch.Tensor, torch.Tensor | None]:
    """out and lse, or None, that a file holds: a bundle's expected values, or a torch.save of out or of (out, lse)."""
    content = _load(path)
    if isinstance(content, dict):
        golden = load(path)
        return golden.expected, golden.expected_lse
    out, lse = content if isinstance(content, (tuple, list)) and len(content) == 2 else (content, None)
    if not isinstance(out, torch.Tensor) or not (lse is None or isinstance(lse, torch.Tensor)):
        raise ValueError(f"{path} must hold a bundle, out, or (out, lse); got {type(content).__name__}")
    return out, lse


def named_by_environment() -> list[Path]:
    """Bundles that the environment variables of the public tests name.

    QBSA_GENERALIZED_BUNDLE_DIR: a folder, every .pt in it. QBSA_PREFILL_BUNDLE_MANIFEST: a JSON file, case id -> path.
    FileNotFoundError or ValueError if a variable names something else.
    """
    paths: list[Path] = []
    if folder := os.environ.get(FOLDER_VARIABLE):
        if not Path(folder).is_dir():
            raise FileNotFoundError(f"{FOLDER_VARIABLE} must name a folder; got {folder}")
        paths += sorted(Path(folder).glob("*.pt"))
    if named := os.environ.get(MANIFEST_VARIABLE):
        try:
            paths += [entry.path for entry in manifest.read(Path(named))]
        except (OSError, ValueError) as error:
            text = f"{MANIFEST_VARIABLE} must name a JSON file with an object case id -> path; got {named}: {error}"
            raise ValueError(text) from error
    return paths


def committed() -> list[Path]:
    """The bundles that come with the package."""
    here = Path(__file__).resolve().parent
    folders = (here / "bundles", here.parent / "bundles")  # installed, in a checkout
    return sorted(path for folder in folders for path in folder.glob("*.pt"))


def replay(bundle: Bundle, device: str | None = None) -> list[compare.Report]:
    """Runs the operator on a bundle's inputs and measures the result: a report for out and, if stored, for LSE.

    Device and errors as result.
    """
    return compare.against_chain(*result(bundle, device), truth(bundle), bundle.inputs)


def result(bundle: Bundle, device: str | None = None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What the operator returns for a bundle's inputs, on the CPU.

    device None is what QBSA_TEST_DEVICE says, else cpu. RuntimeError if exactly one of result and bundle has an LSE.
    """
    device = device or os.environ.get(DEVICE_VARIABLE) or "cpu"
    out, lse = quant_block_sparse_attn(**to_device(bundle.inputs, device))
    if (lse is None) != (bundle.expected_lse is None):
        has = "none" if bundle.expected_lse is None else "one"
        raise RuntimeError(f"return_softmax_lse is {lse is not None}, but the bundle {bundle.case_id} stores {has}")
    return out.cpu(), None if lse is None else lse.cpu()


def to_device(inputs: dict[str, Any], device: str | torch.device) -> dict[str, Any]:
    """Keyword arguments with every tensor on the device: same strides, and views of one storage still share one."""
    if npu.device(device).type == "cpu":
        return inputs
    storages: dict[int, torch.Tensor] = {}  # as bytes, by address

    def move(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if key not in storages:
            storages[key] = torch.empty(0, dtype=torch.uint8).set_(storage).to(device)
        return _view_as(tensor, storages[key])

    return {name: move(value) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}


def dense(truth: compare.Truth, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """A truth of all rows as the operator would return it: bf16 [T, heads_q, 128], fp32 [heads_q, T]."""
    heads = inputs["sparse_indices"].shape[1]
    tokens = len(truth.token) // heads
    out = torch.empty(tokens, heads, truth.out.shape[1], dtype=torch.bfloat16)
    lse = torch.empty(heads, tokens)
    out[truth.token, truth.head] = truth.out.bfloat16()
    lse[truth.head, truth.token] = truth.lse.float()
    return out, lse


def _view_as(tensor: torch.Tensor, storage: torch.Tensor) -> torch.Tensor:
    """The view that tensor is of its own storage, of another one, which is given as bytes."""
    whole = storage[: len(storage) // tensor.element_size() * tensor.element_size()].view(tensor.dtype)
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _one_dtype_per_storage(inputs: dict[str, Any]) -> dict[str, Any]:
    owners: dict[int, torch.dtype] = {}  # by address of the storage
    copies: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    result = dict(inputs)
    for name, tensor in inputs.items():
        if not isinstance(tensor, torch.Tensor):
            continue
        address = tensor.untyped_storage().data_ptr()
        if owners.setdefault(address, tensor.dtype) == tensor.dtype:
            continue
        key = (address, tensor.dtype)
        if key not in copies:
            copies[key] = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).clone()
        result[name] = _view_as(tensor, copies[key])
    return result


def truth(golden: Bundle) -> compare.Truth:
    """All rows of a stored result. Peaks are not stored: 1/3 lets compare allow the most that any peak does."""
    tokens, heads, _ = golden.expected.shape
    token, head = (ids.flatten() for ids in torch.meshgrid(torch.arange(tokens), torch.arange(heads), indexing="ij"))
    lse = torch.zeros(heads, tokens) if golden.expected_lse is None else golden.expected_lse
    peak = torch.full(token.shape, 1 / 3, dtype=torch.float64)
    return compare.Truth(token, head, golden.expected[token, head].double(), lse[head, token].double(), peak)


def _load(path: Path) -> Any:
    try:
        _check_sums(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, IsADirectoryError):
        raise
    except Exception as error:  # torch.load raises what its parsers raise
        first_line = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} is no bundle, or a damaged one: {first_line}") from error


def _load_dict(path: Path) -> dict[Any, Any]:
    content = _load(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no bundle: it must hold a dict; got {type(content).__name__}")
    return content


def _check_sums(path: Path) -> None:
    """torch.save writes a zip file with check sums, which torch.load does not read."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"the check sum of {damaged} is wrong")


def _arguments(path: Path, inputs: dict[Any, Any]) -> dict[str, Any]:
    """inputs without metadata; ValueError unless their names are those of the operator's arguments."""
    known = schema.argument_types(schema.ATTENTION).keys()
    foreign = [str(name) for name in inputs if name not in known]
    absent = [name for name in known - schema.defaults(schema.ATTENTION).keys() if name not in inputs]
    for names, fault in ((foreign, "are no arguments of quant_block_sparse_attn"), (absent, "are missing")):
        if names:
            raise ValueError(f"{path} is no bundle: inputs {', '.join(sorted(names))} {fault}")
    return {name: value for name, value in inputs.items() if name != "metadata"}


def _check_expected(path: Path, inputs: dict[str, Any], expected: Any, expected_lse: Any) -> None:
    query = inputs["query"]
    if not isinstance(query, torch.Tensor) or query.dim() != 3:
        raise ValueError(f"{path} is no bundle: its query must be a tensor with 3 dimensions")
    ntd = inputs.get("layout_q") == "NTD"
    heads, tokens = query.shape[:2] if ntd else (query.shape[1], query.shape[0])
    wanted = {"expected": (expected, (tokens, heads, query.shape[2])), "expected_lse": (expected_lse, (heads, tokens))}
    for name, (tensor, shape) in wanted.items():
        if tensor is None and name == "expected_lse":
            continue
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or tensor.shape != shape:
            got = f"{tensor.dtype} {list(tensor.shape)}" if isinstance(tensor, torch.Tensor) else repr(tensor)
            raise ValueError(f"{path} is no bundle: {name} must be floating point {list(shape)}; got {got:.80}")
