"""`python -m qbsa bundle ACTION`: see bundle.py."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import bundle, bundle_diff, bundle_maker, library, manifest
from .console import Answer, Console, table

TEXT = "make, verify, compare and list bundles: the arguments of one call and what it must return, in one file"
MAKE_EXAMPLES = """
python -m qbsa bundle make gen_s64_315_b1_n8_random2_m3_pNone_gradient
python -m qbsa bundle make call.pt -o golden.pt   call.pt: torch.save of keyword arguments, or a recorded bundle"""
VERIFY_EXAMPLES = """
python -m qbsa bundle verify                             what comes with the package, on the CPU
python -m qbsa bundle verify recorded/ --device npu:0
python -m qbsa bundle verify x.pt --mode checked --mode race"""
DIFF_EXAMPLES = """
python -m qbsa bundle diff golden.pt --device npu:0 --png errors.png
python -m qbsa bundle diff golden.pt recorded/call_0000.pt    two bundles of one call
python -m qbsa bundle diff golden.pt result.pt                result.pt: torch.save of out, or of (out, lse)"""
MANIFEST_EXAMPLES = """
python -m qbsa bundle manifest recorded/                 writes recorded/manifest.json; verify looks at it"""
_FAULTS = (OSError, NotImplementedError, RuntimeError, TypeError, ValueError)


def add_commands(commands: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    actions = commands.add_parser("bundle", help=TEXT, description=TEXT).add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    text = "make a bundle; in a checkout, whose tests hold the truth and the cases"
    make = add(actions, "make", _make, text, MAKE_EXAMPLES)
    make.add_argument("source", help="a case of the tests by its id, or a file: torch.save of the keyword arguments")
    make.add_argument("-o", "--output", type=Path, metavar="FILE.pt", help="default: the case id or file name, here")
    make.add_argument("--layout-q", choices=("TND", "NTD"), default="TND", help="of a case; a file has its own")
    verify = add(actions, "verify", _verify, "replay bundles; exit code 1 if one fails", VERIFY_EXAMPLES)
    add_where(verify)
    text = "tell where two results of one call differ; exit code 1 if one is beyond its cap"
    diff = add(actions, "diff", _diff, text, DIFF_EXAMPLES)
    diff.add_argument("expected", type=Path, metavar="BUNDLE", help="arguments and expected values")
    text = "a bundle of the same call, or a saved result; without it the bundle is replayed"
    diff.add_argument("got", type=Path, nargs="?", metavar="RESULT", help=text)
    diff.add_argument("--png", type=Path, metavar="FILE.png", help="draw where the errors are; needs qbsa[plot]")
    add_where(diff)
    text = f"write the SHA-256 of the bundles of a folder to {manifest.NAME} in it"
    sums = add(actions, "manifest", _manifest, text, MANIFEST_EXAMPLES)
    sums.add_argument("folder", type=Path, metavar="FOLDER")
    named = f"default: those of the package, and those that {bundle.FOLDER_VARIABLE} (a folder) and "
    named += f"{bundle.MANIFEST_VARIABLE} (JSON, case id -> path) name"
    for command in (verify, add(actions, "list", _list, "show ids, shapes and sizes of bundles")):
        command.add_argument("paths", nargs="*", type=Path, metavar="PATH", help=f"bundles or folders; {named}")


def add_where(parser: argparse.ArgumentParser) -> None:
    """Where a bundle is replayed."""
    parser.add_argument("--device", help=f"default: {bundle.DEVICE_VARIABLE}, else cpu")
    text = f"of the twin, on the CPU: {', '.join(library.MODES)}; may be given more than once"
    parser.add_argument("--mode", action="append", choices=library.MODES, metavar="MODE", help=text)


def _make(options: argparse.Namespace, _: Console) -> Answer:
    made = bundle_maker.make(options.source, options.layout_q)
    path = options.output or Path(f"{made.case_id}.pt")
    bundle.save(made, path)
    size = path.stat().st_size
    return Answer(f"{path}: {size} bytes, {_shapes(made)}", {"path": str(path), "bytes": size, **_described(made)})


def _verify(options: argparse.Namespace, console: Console) -> Answer:
    paths = _paths(options.paths)
    modes = options.mode or [library.current_mode()]
    runs = [(path, mode) for path in paths for mode in modes]
    rows, data = [], []
    for path, mode in console.progress(runs, lambda run: f"{run[0].stem} ({run[1]})"):
        name, cells, result = _replayed(path, mode, options.device)
        rows.append([name if len(modes) == 1 else f"{name} ({mode})", *cells])
        data.append({"path": str(path), "mode": mode, **result})
    head = ("bundle", "values", "misses", "worst error", "of cap", "LSE error", "result")
    failed = sum(not result["ok"] for result in data)
    failure = f"{failed} of {len(runs)} bundles failed" if failed else ""
    lines = [table(head, rows)]
    if not failed:
        lines.append(f"{len(runs)} of {len(runs)} bundles replay within tolerance")
    return Answer("\n".join(lines), data, failure)


def _replayed(path: Path, mode: str, device: str | None) -> tuple[str, list[str], dict[str, Any]]:
    """Name, cells of the table and data."""
    try:
        manifest.check_beside(path)
        golden = bundle.load(path)
        with library.mode(mode):
            reports = bundle.replay(golden, device)
    except _FAULTS as error:
        return path.stem, [*["-"] * 5, f"error: {error}"], {"ok": False, "failures": [str(error)]}
    failures = [failure for report in reports for failure in report.failures]
    out, lse = reports[0], reports[1] if len(reports) > 1 else None
    cells = [str(out.elements), str(out.misses), f"{out.worst_error:.2e}", f"{out.worst_share:.0%}"]
    cells += [f"{lse.worst_error:.2e}" if lse else "-", "; ".join(failures) or "ok"]
    return (
        golden.case_id,
        cells,
        {"ok": not failures, "failures": failures, "reports": [vars(report) for report in reports]},
    )


def _diff(options: argparse.Namespace, _: Console) -> Answer:
    golden = bundle.load(options.expected)
    texts, data, beyond = [], [], 0
    modes = options.mode or [library.current_mode()]
    for mode in modes if options.got is None else [""]:
        if options.got is None:
            with library.mode(mode):
                out, lse = bundle.result(golden, options.device)
        else:
            out, lse = bundle.load_result(options.got)
        found = bundle_diff.compare_results(golden, out, lse)
        beyond += sum(difference.beyond_cap for difference in found)
        got = options.got or f"replayed on {options.device or 'cpu'}, {mode}"
        texts.append("\n".join([f"{options.expected} against {got}", *map(str, found)]))
        data.append({"got": str(got), "differences": [dataclasses.asdict(difference) for difference in found]})
        if options.png:
            several = len(modes) > 1 and options.got is None
            png = options.png.with_stem(f"{options.png.stem}_{mode}") if several else options.png
            bundle_diff.draw(golden, out, png)
    failure = f"{beyond} elements are beyond their cap" if beyond else ""
    return Answer("\n\n".join(texts), data, failure)


def _manifest(options: argparse.Namespace, console: Console) -> Answer:
    paths = _paths([options.folder])
    named = [(bundle.load(path).case_id, path) for path in console.progress(paths, lambda path: path.stem)]
    twice = {case_id for case_id, _ in named if sum(case_id == other for other, _ in named) > 1}
    if twice:
        raise ValueError(f"case ids must be distinct; got {', '.join(sorted(twice))} more than once")
    target = options.folder / manifest.NAME
    manifest.write(target, named)
    return Answer(f"{target}: {len(named)} bundles", {"path": str(target), "bundles": len(named)})


def _list(options: argparse.Namespace, _: Console) -> Answer:
    lines, data = [], []
    for path in _paths(options.paths):
        golden = bundle.load(path)
        lse = "no LSE" if golden.expected_lse is None else "LSE"
        size = path.stat().st_size
        lines.append(f"{golden.case_id}: {size} bytes, {_shapes(golden)}, {lse}, {golden.origin or path}")
        data.append({"path": str(path), "bytes": size, **_described(golden)})
    return Answer("\n".join(lines), data)


def _shapes(golden: bundle.Bundle) -> str:
    names = ("query", "key", "sparse_indices")
    return ", ".join(f"{name} {list(golden.inputs[name].shape)}" for name in names)


def _described(golden: bundle.Bundle) -> dict[str, Any]:
    shapes = {name: list(value.shape) for name, value in golden.inputs.items() if hasattr(value, "shape")}
    return {
        "case_id": golden.case_id,
        "shapes": shapes,
        "lse": golden.expected_lse is not None,
        "origin": golden.origin,
    }


def _paths(given: Sequence[Path]) -> list[Path]:
    paths: list[Path] = []
    for path in given:
        paths += sorted(path.glob("*.pt")) if path.is_dir() else [path]
    paths = paths if given else bundle.committed() + bundle.named_by_environment()
    if not paths:
        raise FileNotFoundError("there is no bundle (*.pt) where it looked")
    return paths
