"""Replays bundles: those in bundles/ and those that the environment variables of the public tests name."""

import re
from pathlib import Path

import make_bundle
import pytest
import torch
from qbsa import bundle, bundle_maker, cli, compare

COMMITTED = sorted(make_bundle.FOLDER.glob("*.pt"))
SMALL = make_bundle.FOLDER / f"{make_bundle.CASE.id}.pt"
LARGEST_BYTES, LARGEST_SUM_BYTES = 2**18, 2**20


def replay(golden: bundle.Bundle) -> None:
    compare.check(bundle.replay(golden))


@pytest.mark.parametrize("path", COMMITTED + bundle.named_by_environment(), ids=lambda path: path.stem)
def test_replay(path):
    replay(bundle.load(path))


def test_committed_bundles_are_small_and_at_least_one():
    sizes = [path.stat().st_size for path in COMMITTED]
    assert len(sizes) == len(make_bundle.MADE) and max(sizes) < LARGEST_BYTES and sum(sizes) < LARGEST_SUM_BYTES
    assert bundle.committed() == COMMITTED


@pytest.mark.parametrize("make", make_bundle.MADE)
def test_a_committed_bundle_holds_what_the_reference_says(make):
    made = make()
    stored = bundle.load(make_bundle.FOLDER / f"{made.case_id}.pt")
    assert stored.origin == bundle_maker.ORIGIN and stored.inputs.keys() == made.inputs.keys()
    for name, value in made.inputs.items():
        same = torch.equal if isinstance(value, torch.Tensor) else (lambda a, b: a == b)
        assert same(stored.inputs[name], value), name
        assert not isinstance(value, torch.Tensor) or stored.inputs[name].stride() == value.stride(), name
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


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        (bundle.FOLDER_VARIABLE, None, "QBSA_GENERALIZED_BUNDLE_DIR must name a folder"),
        (bundle.MANIFEST_VARIABLE, None, "QBSA_PREFILL_BUNDLE_MANIFEST must name a JSON file"),
        (bundle.MANIFEST_VARIABLE, "[1]", "QBSA_PREFILL_BUNDLE_MANIFEST must name a JSON file"),
        (bundle.MANIFEST_VARIABLE, "{", "QBSA_PREFILL_BUNDLE_MANIFEST must name a JSON file"),
        (bundle.MANIFEST_VARIABLE, '{"x": 1}', "QBSA_PREFILL_BUNDLE_MANIFEST must name a JSON file"),
    ],
)
def test_a_variable_that_names_nothing_is_named(tmp_path, monkeypatch, variable, text, message):
    if text is not None:
        (tmp_path / "x").write_text(text)
    monkeypatch.setenv(variable, str(tmp_path / "x"))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        bundle.named_by_environment()


class Foreign:
    """Not a plain value: loading it would run code of the file."""


def content(**changes):
    golden = make_bundle.make()
    made = {"inputs": golden.inputs, "expected": golden.expected, "expected_lse": golden.expected_lse}
    return made | changes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Foreign(), "is no bundle, or a damaged one"),
        (lambda: content(inputs=content()["inputs"] | {"query": Foreign()}), "is no bundle, or a damaged one"),
        (lambda: [1, 2], "must hold a dict; got list"),
        (lambda: torch.zeros(3), "must hold a dict; got Tensor"),
        (lambda: {"inputs": 1}, "dict `inputs`"),
        (lambda: {"inputs": {}, "expected": torch.zeros(1)}, "expected_lse missing; it has inputs, expected"),
        (lambda: content(inputs={"query": 1}), "inputs atten_mask, k_descale, .*, value are missing"),
        (lambda: content(inputs=content()["inputs"] | {"blocks": 1}), "inputs blocks are no arguments"),
        (lambda: content(inputs=content()["inputs"] | {"query": 1}), "its query must be a tensor"),
        (lambda: content(expected=None), r"expected must be floating point \[60, 4, 128\]; got None"),
        (lambda: content(expected=torch.zeros(60, 4, 128).int()), r"expected must be .*; got torch.int32"),
        (lambda: content(expected_lse=torch.zeros(60, 4)), r"expected_lse must be .* \[4, 60\]; got torch.float32"),
    ],
)
def test_a_file_that_is_no_bundle_is_refused(tmp_path, make, message):
    path = tmp_path / "x.pt"
    torch.save(make(), path)
    with pytest.raises(ValueError, match=message):
        bundle.load(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_bundle_is_refused(tmp_path, share):
    data = SMALL.read_bytes()
    path = tmp_path / "x.pt"
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match="x.pt is no bundle, or a damaged one: .+"):
        bundle.load(path)


@pytest.mark.parametrize("position", [100, 5000, 70_000, 150_000])
def test_one_wrong_bit_is_noticed(tmp_path, position):
    data = bytearray(SMALL.read_bytes())
    data[position] ^= 4
    (tmp_path / "x.pt").write_bytes(data)
    with pytest.raises(ValueError, match="x.pt is no bundle, or a damaged one: .+"):
        bundle.load(tmp_path / "x.pt")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent.pt"):
        bundle.load(tmp_path / "absent.pt")


def test_an_lse_on_one_side_only_is_an_error():
    golden = make_bundle.make()
    golden.inputs["return_softmax_lse"] = False
    with pytest.raises(RuntimeError, match="return_softmax_lse is False, but the bundle small_lists_b2_n4 stores one"):
        bundle.replay(golden)


def run(capsys, *arguments):
    """Exit code, stdout and stderr of python -m qbsa bundle."""
    code = cli.main(["bundle", *map(str, arguments)])
    return (code, *capsys.readouterr())


@pytest.mark.parametrize("layout", ["TND", "NTD"])
def test_a_case_becomes_a_bundle_that_verifies(tmp_path, capsys, layout):
    case = "gen_s64_315_b1_n8_random2_m3_pNone_gradient"
    path = tmp_path / "made.pt"
    code, text, _ = run(capsys, "make", case, "-o", path, "--layout-q", layout)
    shape = [64, 8, 128] if layout == "TND" else [8, 64, 128]
    assert code == 0 and f"query {shape}" in text
    code, text, _ = run(capsys, "verify", path)
    assert code == 0 and re.search(rf"^{case} +65536 +\d+ .* ok$", text, re.M)
    assert "1 of 1 bundles replay within tolerance" in text
    code, text, _ = run(capsys, "list", tmp_path)
    assert code == 0 and re.fullmatch(rf"{case}: {path.stat().st_size} bytes, query .*, LSE, tests.*\n", text)


def test_saved_arguments_become_a_bundle_without_mask_and_plan(tmp_path, capsys, monkeypatch):
    golden = make_bundle.make()
    mask = torch.ones(2048, 2048, dtype=torch.uint8).triu()
    torch.save(golden.inputs | {"atten_mask": mask, "metadata": torch.zeros(1).int()}, tmp_path / "call.pt")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    assert run(capsys, "make", tmp_path / "call.pt")[0] == 0
    made = bundle.load(tmp_path / "out" / "call.pt")
    assert made.case_id == "call" and made.inputs["atten_mask"] is None and "metadata" not in made.inputs
    assert torch.equal(made.expected, golden.expected) and torch.equal(made.expected_lse, golden.expected_lse)


def interleaved_call():
    """The arguments of the committed bundle, K and V as views of one cache."""
    inputs = make_bundle.make().inputs
    cache = torch.stack([inputs[name].view(torch.uint8) for name in ("key", "value")], 1).view(torch.float8_e4m3fn)
    return inputs | {"key": cache[:, 0], "value": cache[:, 1]}


def test_views_of_one_cache_stay_views(tmp_path, capsys):
    call = interleaved_call()
    torch.save(call, tmp_path / "call.pt")
    assert run(capsys, "make", tmp_path / "call.pt", "-o", tmp_path / "made.pt")[0] == 0
    made = bundle.load(tmp_path / "made.pt").inputs
    assert made["key"].stride() == made["value"].stride() == call["key"].stride()
    assert made["key"].untyped_storage().data_ptr() == made["value"].untyped_storage().data_ptr()
    assert run(capsys, "verify", tmp_path / "made.pt")[0] == 0


def test_a_save_that_fails_leaves_what_was_there(tmp_path):
    golden = make_bundle.make()
    bundle.save(golden, tmp_path / "x.pt")
    before = (tmp_path / "x.pt").read_bytes()
    golden.inputs["query"] = lambda: None  # nothing that can be stored
    with pytest.raises(Exception, match="lambda"):
        bundle.save(golden, tmp_path / "x.pt")
    assert (tmp_path / "x.pt").read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["x.pt"]


def test_moved_to_a_device_views_of_one_cache_stay_views():
    call = interleaved_call()
    there = bundle.to_device(call, "meta")
    assert {name: x.stride() for name, x in there.items() if isinstance(x, torch.Tensor)} == {
        name: x.stride() for name, x in call.items() if isinstance(x, torch.Tensor)
    }
    assert there["key"].untyped_storage()._cdata == there["value"].untyped_storage()._cdata
    assert there["key"].device.type == "meta" and there["mask_mode"] == call["mask_mode"]


def test_arguments_that_the_operator_refuses_make_no_bundle(tmp_path, capsys):
    for change, message in (({"mask_mode": 1}, "mask_mode must be one of"), ({"query": None}, "query must be a torch")):
        torch.save(make_bundle.make().inputs | change, tmp_path / "call.pt")
        code, _, error = run(capsys, "make", tmp_path / "call.pt", "-o", tmp_path / "made.pt")
        assert code == 1 and message in error and not (tmp_path / "made.pt").exists()


def test_an_unknown_case_is_told_what_is_near(capsys):
    code, _, error = run(capsys, "make", "gen_s1023_1023_b2_n16")
    assert code == 1 and "gen_s1023_1023_b2_n16_sc8_rand_rand_grad_m1_ntd" in error


def test_without_a_checkout_no_bundle_is_made(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bundle_maker, "_TESTS", tmp_path)
    code, _, error = run(capsys, "make", "small")
    assert code == 1 and "bundles are made in a checkout of qbsa" in error


def test_verify_tells_each_failure_and_fails(tmp_path, capsys):
    golden = make_bundle.make()
    wrong = golden.expected.clone()
    wrong[3, 0] = -wrong[3, 0]
    bundle.save(golden, tmp_path / "a_right.pt")
    torch.save(content(expected=wrong, case_id="wrong"), tmp_path / "b_wrong.pt")
    (tmp_path / "c_damaged.pt").write_bytes(b"PK")
    code, text, error = run(capsys, "verify", tmp_path, tmp_path / "absent.pt")
    assert code == 1 and "3 of 4 bundles failed" in error
    right, broken, damaged, absent = text.splitlines()[1:]
    assert right.endswith(" ok") and "beyond their cap" in broken and broken.startswith("wrong ")
    assert "is no bundle, or a damaged one" in damaged and "absent.pt" in absent


def test_verify_and_list_start_from_the_package_and_the_environment(tmp_path, capsys, monkeypatch):
    bundle.save(make_bundle.make(), tmp_path / "more.pt")
    monkeypatch.setenv(bundle.FOLDER_VARIABLE, str(tmp_path))
    code, text, _ = run(capsys, "list")
    assert code == 0 and len(text.splitlines()) == len(COMMITTED) + 1
    code, text, _ = run(capsys, "verify")
    assert code == 0 and f"{len(COMMITTED) + 1} of {len(COMMITTED) + 1} bundles replay" in text
    (tmp_path / "empty").mkdir()
    code, _, error = run(capsys, "verify", tmp_path / "empty")
    assert code == 1 and "there is no bundle" in error
