"""Lists of bundles with their SHA-256: manifest.json beside them, and the JSON file of the public tests.

    {"case id": {"path": "file.pt", "sha256": "...", "bytes": 1234}, "another": "/some/where/file.pt"}

A path in an object is relative to the manifest; a plain string, the public form, is taken as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NAME = "manifest.json"


@dataclass(frozen=True)
class Entry:
    case_id: str
    path: Path
    sha256: str = ""  # "": not stated


def write(manifest: Path, bundles: Iterable[tuple[str, Path]]) -> None:
    """Writes (case id, path) pairs; paths below the manifest's folder are stored relative to it."""
    folder = manifest.resolve().parent
    content = {}
    for case_id, path in bundles:
        absolute = path.resolve()
        shown = absolute.relative_to(folder) if absolute.is_relative_to(folder) else absolute
        content[case_id] = {"path": str(shown), "sha256": digest(path), "bytes": path.stat().st_size}
    manifest.write_text(json.dumps(content, indent=1) + "\n")


def read(manifest: Path) -> list[Entry]:
    """ValueError for something else than the object above, OSError if it cannot be read."""
    try:
        content = json.loads(manifest.read_text())
        return [_entry(manifest, case_id, value) for case_id, value in content.items()]
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        rule = "must be a JSON object, case id -> path or {path, sha256}"
        raise ValueError(f"{manifest} {rule}; got {error!r:.80}") from error


def check(entry: Entry) -> None:
    """ValueError if the file is not the one that the manifest was written for, OSError if it is not there."""
    if entry.sha256 and (found := digest(entry.path)) != entry.sha256:
        raise ValueError(f"{entry.path} must have the SHA-256 {entry.sha256} of its manifest; got {found}")


def check_beside(bundle: Path) -> None:
    """check, if a manifest.json beside the bundle names it."""
    manifest = bundle.parent / NAME
    for entry in read(manifest) if manifest.exists() else ():
        if entry.path.resolve() == bundle.resolve():
            check(entry)


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        sha256 = hashlib.sha256()
        while part := file.read(2**20):
            sha256.update(part)
    return sha256.hexdigest()


def _entry(manifest: Path, case_id: str, value: str | dict[str, str]) -> Entry:
    if isinstance(value, str):
        return Entry(case_id, Path(value).expanduser())
    return Entry(case_id, manifest.parent / value["path"], value.get("sha256", ""))
