"""Recorded calls: what a bundle of one holds, which calls are seen, and what is refused."""

import itertools
import json

import make_bundle
import pytest
import qbsa
import torch
from qbsa import bundle, cases, cli

SMALL = cases.Case("", (4, 2), (200, 30), (300, 400), blocks=2)


def interleaved(inputs, lead, pad):
    """The arguments with K, V and K scales of a page side by side, lead and pad bytes around, in twice the pages."""
    parts = [inputs[name] for name in ("key", "value", "k_descale")]
    pages = len(parts[0])
    filler = -lead % 4  # fp32 scales lie at multiples of 4
    key_bytes, value_bytes, scale_bytes = (part[0].nbytes for part in parts)
    split = (lead, key_bytes, value_bytes, filler, scale_bytes, pad)
    storage = torch.full((2 * pages, sum(split)), 0x7F, dtype=torch.uint8)
    place = torch.randperm(2 * pages, generator=torch.Generator().manual_seed(3))[:pages]
    sections = itertools.compress(storage.split(split, 1), (0, 1, 1, 0, 1, 0))
    views = [section.view(part.dtype).unflatten(1, part.shape[1:]) for section, part in zip(sections, parts)]
    for view, part in zip(views, parts):
        view.view(torch.uint8)[place] = part.view(torch.uint8)
    table = place[inputs["block_table"].long()].int()
    return inputs | dict(zip(("key", "value", "k_descale"), views)) | {"block_table": table}


def record(folder, *calls, **options):
    with qbsa.capture(folder, **options) as recorded:
        results = [qbsa.quant_block_sparse_attn(**call) for call in calls]
    return recorded.paths, results


def test_a_recorded_call_replays_bit_for_bit(tmp_path, capsys):
    call = cases.make_inputs(SMALL)
    plan = cases.make_plan(call)
    paths, [(out, lse), *_] = record(tmp_path, call, call | {"metadata": plan, "return_softmax_lse": False})
    with_lse, without = (bundle.load(path) for path in paths)
    assert torch.equal(with_lse.expected, out) and torch.equal(with_lse.expected_lse, lse)
    assert without.expected_lse is None and "not the truth" in without.origin
    assert torch.equal(bundle.result(with_lse)[0], out)
    assert cli.main(["bundle", "verify", str(tmp_path), "--mode", "checked", "--mode", "hostile"]) == 0
    assert "4 of 4 bundles replay within tolerance" in capsys.readouterr().out


@pytest.mark.parametrize("lead", [0, 2])
def test_only_pages_in_use_are_stored_and_their_layout_stays(tmp_path, lead):
    call = interleaved(cases.make_inputs(SMALL), lead, pad=100)
    [path], [(out, _)] = record(tmp_path, call)
    stored = bundle.load(path)
    blocks = sum(-(-length // 128) for length in SMALL.kv_lens)
    inputs = stored.inputs
    assert len(inputs["key"]) == blocks and inputs["block_table"][0].tolist()[3:] == [-1]
    for name in ("key", "value", "k_descale"):
        assert inputs[name].stride() == call[name].stride()
    assert inputs["key"].untyped_storage().data_ptr() == inputs["value"].untyped_storage().data_ptr()
    assert inputs["key"].untyped_storage().nbytes() == blocks * call["key"].stride(0)
    assert torch.equal(bundle.result(stored)[0], out)


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 2, 1, 3)], ids=["heads outermost", "tokens before heads"])
def test_other_layouts_of_pages(tmp_path, order):
    call = cases.make_inputs(SMALL)
    back = [order.index(axis) for axis in range(4)]
    views = {name: call[name].permute(order).contiguous().permute(back) for name in ("key", "value")}
    [path], [(out, _)] = record(tmp_path, call | views)
    assert torch.equal(bundle.result(bundle.load(path))[0], out)


def test_a_slice_of_a_fused_query_is_stored_alone(tmp_path):
    call = cases.make_inputs(SMALL)
    tokens, heads, width = call["query"].shape
    fused = torch.zeros(tokens, 8 * heads, width, dtype=torch.uint8).view(torch.float8_e4m3fn)
    fused[:, 2 * heads : 3 * heads] = call["query"]
    [path], [(out, _)] = record(tmp_path, call | {"query": fused[:, 2 * heads : 3 * heads]})
    stored = bundle.load(path)
    assert stored.inputs["query"].untyped_storage().nbytes() == call["query"].nbytes
    assert torch.equal(bundle.result(stored)[0], out)


def test_calls_with_nothing_in_them(tmp_path):
    call = cases.make_inputs(SMALL) | {"seqused_kv": torch.zeros(2, dtype=torch.int32)}
    [path], [(out, _)] = record(tmp_path, call)
    assert len(bundle.load(path).inputs["key"]) == 0 and not out.any()
    assert torch.equal(bundle.result(bundle.load(path))[0], out)


def test_the_first_calls_are_recorded_and_named(tmp_path):
    call = cases.make_inputs(SMALL)
    paths, results = record(tmp_path, call, call, call, most=2, name="layer")
    assert [path.name for path in paths] == ["layer_0000.pt", "layer_0001.pt"] and len(results) == 3
    assert json.loads((tmp_path / "manifest.json").read_text()).keys() == {"layer_0000", "layer_0001"}


def test_operators_called_by_torch_are_seen_and_fake_tensors_are_not(tmp_path):
    from torch._subclasses.fake_tensor import FakeTensorMode

    call = cases.make_inputs(SMALL)
    with qbsa.capture(tmp_path) as recorded:
        torch.ops.qbsa.quant_block_sparse_attn(**call)
        with FakeTensorMode(allow_non_fake_inputs=True):
            torch.ops.qbsa.quant_block_sparse_attn(**call)
    assert len(recorded.paths) == 1


def test_what_was_recorded_before_an_error_is_kept(tmp_path):
    call = cases.make_inputs(SMALL)
    with pytest.raises(KeyError), qbsa.capture(tmp_path):
        qbsa.quant_block_sparse_attn(**call)
        raise KeyError
    assert len(json.loads((tmp_path / "manifest.json").read_text())) == 1


def test_nothing_is_overwritten(tmp_path):
    record(tmp_path, cases.make_inputs(SMALL))
    with pytest.raises(FileExistsError, match="capture needs a folder without manifest.json"):
        record(tmp_path, cases.make_inputs(SMALL))


def test_a_recorded_call_becomes_a_bundle_with_the_truth(tmp_path):
    golden = make_bundle.make()
    [path], _ = record(tmp_path, schema_call(golden))
    assert cli.main(["bundle", "make", str(path), "-o", str(tmp_path / "truth.pt")]) == 0
    made = bundle.load(tmp_path / "truth.pt")
    assert torch.equal(made.expected, golden.expected) and "fp8_chain" in made.origin


def schema_call(golden):
    return golden.inputs | {"atten_mask": None}


def test_the_context_ends(tmp_path):
    record(tmp_path, cases.make_inputs(SMALL))
    qbsa.quant_block_sparse_attn(**cases.make_inputs(SMALL))
    assert len(list(tmp_path.glob("*.pt"))) == 1
