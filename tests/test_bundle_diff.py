"""bundle diff and manifest: where results differ, to the element; files that changed."""

import dataclasses
import json

import make_bundle
import pytest
import torch
from qbsa import bundle, bundle_diff, cli, manifest


@pytest.fixture
def golden(tmp_path):
    made = make_bundle.make()
    bundle.save(made, tmp_path / "golden.pt")
    return made


def run(capsys, *arguments):
    code = cli.main(["bundle", *map(str, arguments)])
    return (code, *capsys.readouterr())


# Of the committed case: two sequences of 40 and 20 tokens, 4 heads.
TOKEN, HEAD, COLUMN = 45, 2, 77  # row 5 of sequence 1
FIRST_TOKEN, FIRST_HEAD = 12, 3  # row 12 of sequence 0


def changed(golden):
    out = golden.expected.clone()
    out[TOKEN, HEAD, COLUMN] += 1.0  # beyond its cap
    limit = bundle_diff._values(golden, bundle.truth(golden), out, None)[0]
    row = FIRST_TOKEN * 4 + FIRST_HEAD
    want = golden.expected[FIRST_TOKEN, FIRST_HEAD].double()
    out[FIRST_TOKEN, FIRST_HEAD] = (want + 0.5 * (limit.tolerance[row] + limit.cap[row])).bfloat16()
    return out


def test_first_and_worst_element(golden):
    out, lse = bundle_diff.compare_results(golden, changed(golden), golden.expected_lse)
    assert (out.worst.batch, out.worst.head, out.worst.row, out.worst.column) == (1, HEAD, 5, COLUMN)
    assert (out.first.batch, out.first.head, out.first.row, out.first.column) == (0, FIRST_HEAD, 12, 0)
    assert out.first.of_tolerance > 1 > out.first.of_cap and out.worst.of_cap > 1
    assert (out.beyond_cap, out.bad, out.not_equal) == (1, 129, 129)
    assert out.heads == {HEAD: 1, FIRST_HEAD: 128} and out.q_blocks == {0: 129}
    assert (lse.not_equal, lse.bad, lse.first, lse.worst) == (0, 0, None, None)
    assert "head 2, row 5, column 77: " in str(out) and "bad by heads  3: 128, 2: 1" in str(out)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_nan_and_inf_are_worst(golden, wrong):
    out = golden.expected.clone()
    out[7, 1, 3] = wrong
    (found, _) = bundle_diff.compare_results(golden, out, golden.expected_lse)
    assert (found.not_equal, found.beyond_cap) == (1, 1) and (found.worst.row, found.worst.column) == (7, 3)


def test_command(golden, tmp_path, capsys):
    wrong = changed(golden)
    torch.save((wrong, golden.expected_lse), tmp_path / "result.pt")
    bundle.save(bundle.Bundle("x", golden.inputs, wrong, golden.expected_lse), tmp_path / "other.pt")
    for got in ("result.pt", "other.pt"):
        code, text, error = run(capsys, "diff", tmp_path / "golden.pt", tmp_path / got, "--png", tmp_path / "x.png")
        assert code == 1 and "worst  batch 1, head 2, row 5, column 77" in text
        assert "1 elements are beyond their cap" in error
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    code, text, _ = run(capsys, "diff", tmp_path / "golden.pt", "--mode", "fast", "--mode", "race", "--json")
    assert code == 0
    assert [item["got"] for item in json.loads(text)] == ["replayed on cpu, fast", "replayed on cpu, race"]


def test_results_of_another_shape_are_refused(golden, tmp_path, capsys):
    torch.save(golden.expected[:1], tmp_path / "result.pt")
    code, _, error = run(capsys, "diff", tmp_path / "golden.pt", tmp_path / "result.pt")
    assert code == 1 and "must have the same shape [60, 4, 128]; got [1, 4, 128]" in error
    torch.save([1], tmp_path / "result.pt")
    code, _, error = run(capsys, "diff", tmp_path / "golden.pt", tmp_path / "result.pt")
    assert code == 1 and "must hold a bundle, out, or (out, lse); got list" in error


def test_the_map_shows_the_block_of_the_worst_element(golden, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(
        bundle_diff, "_image", lambda axes, share, *_: shown.append(share) or axes.imshow(share.numpy())
    )
    bundle_diff.draw(golden, changed(golden), tmp_path / "x.png")
    of_rows, of_block = shown
    assert of_rows.shape == (4, 60) and of_block.shape == (128, 20)
    assert of_rows.argmax() == HEAD * 60 + TOKEN and of_block.argmax() == COLUMN * 20 + 5


def test_verify_sees_a_changed_file(golden, tmp_path, capsys):
    assert run(capsys, "manifest", tmp_path)[1].endswith("manifest.json: 1 bundles\n")
    assert run(capsys, "verify", tmp_path)[0] == 0
    stored = json.loads((tmp_path / manifest.NAME).read_text())[golden.case_id]
    assert stored["path"] == "golden.pt" and len(stored["sha256"]) == 64
    changed = dataclasses.replace(golden, inputs=golden.inputs | {"softmax_scale": 0.1})
    bundle.save(changed, tmp_path / "golden.pt")
    code, text, _ = run(capsys, "verify", tmp_path)
    assert code == 1 and f"must have the SHA-256 {stored['sha256']} of its manifest; got" in text


def test_the_environment_takes_both_forms_of_a_manifest(golden, tmp_path, monkeypatch):
    monkeypatch.setenv(bundle.MANIFEST_VARIABLE, str(tmp_path / "list.json"))
    for value in (str(tmp_path / "golden.pt"), {"path": "golden.pt", "sha256": "00"}):
        (tmp_path / "list.json").write_text(json.dumps({"x": value}))
        assert bundle.named_by_environment() == [tmp_path / "golden.pt"]
    (tmp_path / "list.json").write_text(json.dumps({"x": {"sha256": "00"}}))
    with pytest.raises(ValueError, match="must name a JSON file"):
        bundle.named_by_environment()


def test_two_bundles_of_one_id_make_no_manifest(golden, tmp_path, capsys):
    bundle.save(golden, tmp_path / "again.pt")
    code, _, error = run(capsys, "manifest", tmp_path)
    assert code == 1 and f"case ids must be distinct; got {golden.case_id} more than once" in error
