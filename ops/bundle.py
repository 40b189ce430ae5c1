"""Golden bundles: the arguments of one call and what it must return, in one file.

A bundle is a torch.save of tensors and plain values, loaded with weights_only=True, in the format of the public tests:

    case_id       str
    inputs        the keyword arguments of quant_block_sparse_attn
    expected      bfloat16 [T, N1, 128]
    expected_lse  float32 [N1, T], or None when the call returns none
    origin        str, where the expected values come from; absent in bundles of others
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

FOLDER_VARIABLE = "QBSA_GENERALIZED_BUNDLE_DIR"
MANIFEST_VARIABLE = "QBSA_PREFILL_BUNDLE_MANIFEST"


@dataclass(frozen=True)
class Bundle:
    case_id: str
    inputs: dict[str, Any]
    expected: torch.Tensor
    expected_lse: torch.Tensor | None
    origin: str = ""


def save(bundle: Bundle, path: Path) -> None:
    """Writes a bundle. Tensors are stored as they are, so clone views of larger ones first."""
    torch.save(asdict(bundle), path)


def load(path: Path) -> Bundle:
    """Reads a bundle onto the CPU; a metadata entry among its inputs is left out, since plans are not portable.

    ValueError names the file and what is wrong with it, FileNotFoundError a file that is not there.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # torch.load raises what its parsers raise
        raise ValueError(f"{path} is no bundle, or a damaged one: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("inputs"), dict):
        raise ValueError(f"{path} is no bundle: it must hold a dict with a dict `inputs`")
    missing = [name for name in ("expected", "expected_lse") if name not in content]
    if missing:
        raise ValueError(f"{path} is no bundle: {', '.join(missing)} missing; it has {', '.join(map(str, content))}")
    return Bundle(
        case_id=content.get("case_id", Path(path).stem),
        inputs={name: value for name, value in content["inputs"].items() if name != "metadata"},
        expected=content["expected"],
        expected_lse=content["expected_lse"],
        origin=content.get("origin", ""),
    )


def named_by_environment() -> list[Path]:
    """Bundles that the environment variables of the public tests name.

    QBSA_GENERALIZED_BUNDLE_DIR: a folder, every .pt in it. QBSA_PREFILL_BUNDLE_MANIFEST: a JSON file, case id -> path.
    """
    paths: list[Path] = []
    if folder := os.environ.get(FOLDER_VARIABLE):
        paths += sorted(Path(folder).glob("*.pt"))
    if manifest := os.environ.get(MANIFEST_VARIABLE):
        paths += [Path(path).expanduser() for path in json.loads(Path(manifest).read_text()).values()]
    return paths
