"""Replays bundles: those in bundles/ and those that the environment variables of the public tests name."""

import os
from pathlib import Path

import make_bundle
import pytest
import qbsa
import torch
from qbsa import bundle, compare
from reference import Truth

DEVICE = os.environ.get("QBSA_TEST_DEVICE", "cpu")
COMMITTED = sorted(make_bundle.FOLDER.glob("*.pt"))
LARGEST_BYTES = 256 * 1024


def truth_of(golden: bundle.Bundle) -> Truth:
    """All rows of a stored result. Peaks are not stored: 1/3 lets compare allow the most that any peak does."""
    tokens, heads, _ = golden.expected.shape
    token, head = (ids.flatten() for ids in torch.meshgrid(torch.arange(tokens), torch.arange(heads), indexing="ij"))
    lse = torch.zeros(heads, tokens) if golden.expected_lse is None else golden.expected_lse
    peak = torch.full(token.shape, 1 / 3, dtype=torch.float64)
    return Truth(token, head, golden.expected[token, head].double(), lse[head, token].double(), peak)


def replay(golden: bundle.Bundle) -> None:
    on_device = {name: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for name, v in golden.inputs.items()}
    out, lse = qbsa.quant_block_sparse_attn(**on_device)
    assert (lse is None) == (golden.expected_lse is None)
    lse = None if lse is None else lse.cpu()
    compare.check(compare.against_chain(out.cpu(), lse, truth_of(golden), golden.inputs))


@pytest.mark.parametrize("path", COMMITTED + bundle.named_by_environment(), ids=lambda path: path.stem)
def test_replay(path):
    replay(bundle.load(path))


def test_committed_bundles_are_small_and_at_least_one():
    assert COMMITTED and all(path.stat().st_size < LARGEST_BYTES for path in COMMITTED)


def test_a_committed_bundle_holds_what_the_reference_says():
    made, stored = make_bundle.make(), bundle.load(make_bundle.FOLDER / f"{make_bundle.CASE.id}.pt")
    assert stored.origin == make_bundle.ORIGIN and stored.inputs.keys() == made.inputs.keys()
    for name, value in made.inputs.items():
        same = torch.equal if isinstance(value, torch.Tensor) else (lambda a, b: a == b)
        assert same(stored.inputs[name], value), name
    # One bf16 step where another libm moves an fp64 value over a tie.
    assert bool(((stored.expected.float() - made.expected.float()).abs() <= made.expected.float().abs() * 2**-7).all())
    assert torch.allclose(stored.expected_lse, made.expected_lse, rtol=2**-22, atol=2**-22)


def test_a_wrong_result_does_not_pass():
    golden = make_bundle.make()
    golden.expected[3, 0] = -golden.expected[3, 0]
    with pytest.raises(AssertionError, match="beyond their cap"):
        replay(golden)


def test_the_public_format_loads_and_a_stale_plan_is_left_out(tmp_path):
    golden = make_bundle.make()
    public = {
        "case_id": "public",
        "inputs": golden.inputs | {"metadata": torch.zeros(3, dtype=torch.int32)},
        "expected": golden.expected,
        "expected_lse": golden.expected_lse,
    }
    torch.save(public, tmp_path / "x.pt")
    loaded = bundle.load(tmp_path / "x.pt")
    assert (loaded.case_id, loaded.origin) == ("public", "") and "metadata" not in loaded.inputs
    replay(loaded)


def test_environment_variables_name_bundles(tmp_path, monkeypatch):
    for name in ("b.pt", "a.pt", "other.txt"):
        (tmp_path / name).touch()
    manifest = tmp_path / "manifest.json"
    manifest.write_text('{"prefill": "/elsewhere/c.pt"}')
    monkeypatch.setenv(bundle.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(bundle.MANIFEST_VARIABLE, str(manifest))
    assert bundle.named_by_environment() == [tmp_path / "a.pt", tmp_path / "b.pt", Path("/elsewhere/c.pt")]


class Foreign:
    """Not a plain value: loading it would run code of the file."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is no bundle, or a damaged one"),
        (Foreign(), "is no bundle, or a damaged one"),
        ([1, 2], "must hold a dict"),
        ({"inputs": 1}, "dict `inputs`"),
        ({"inputs": {}, "expected": torch.zeros(1)}, "expected_lse missing"),
    ],
)
def test_a_file_that_is_no_bundle_is_refused(tmp_path, content, message):
    path = tmp_path / "x.pt"
    torch.save(content, path)
    if content is None:
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=message):
        bundle.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent.pt"):
        bundle.load(tmp_path / "absent.pt")
