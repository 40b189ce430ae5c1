"""explain: what it says about lists that are known, and what its page holds."""

import json
import re

import pytest
import torch
from qbsa import bundle, cases, cli, explain, explain_page, library

SMALL = cases.Case("", (4, 2), (300, 40), (500, 640), blocks=3)
SOURCE = cases.Source("small", SMALL)


def one_list(entries, length=None, q_len=128, kv_len=500, width=4):
    """A call with one head, one query block and these entries in its list."""
    inputs = cases.make_inputs(cases.Case("", (1, 1), (q_len,), (kv_len,)))
    indices = torch.tensor(entries, dtype=torch.int32)[None, None, None]
    lengths = torch.tensor([[[len(entries) if length is None else length]]], dtype=torch.int32)
    return inputs | {"sparse_indices": indices, "sparse_seq_len": lengths}


# kv_len 500: blocks 0..3, and rows 0..127 of the last 128 tokens see all of them.
@pytest.mark.parametrize(
    ("call", "found"),
    [
        (one_list([3, 0]), {"entries": 2}),
        (one_list([3, 3, 0]), {"entries": 3, "repeated": 1}),
        (one_list([4, -1, 0]), {"entries": 3, "nowhere": 2}),
        (one_list([0, 1], length=9), {"entries": 2}),
        (one_list([0, 1], length=0), {"empty": 1}),
    ],
)
def test_faults_of_lists_are_counted(call, found):
    lists = explain.read_lists(call)
    zero = dict.fromkeys(("entries", "hidden", "repeated", "nowhere", "empty"), 0)
    assert {name: getattr(lists, name) for name in zero} == zero | found


def test_blocks_that_causality_hides():
    call = cases.make_inputs(cases.Case("", (1, 1), (256,), (256,)))
    call["sparse_indices"][0, 0, 0] = torch.tensor([1, 0])
    call["sparse_seq_len"][0, 0, 0] = 2
    lists = explain.read_lists(call)
    assert lists.hidden == 1 and lists.density.selected == 3 == lists.density.visible
    assert explain.read_lists(call | {"mask_mode": 0}).hidden == 0


def test_the_text_has_all_parts_and_says_model():
    text = explain.text(explain.explain(SOURCE))
    assert "2 sequences, 340 query tokens, 1,140 KV tokens" in text
    lists = int(SMALL.list_lengths().sum())
    assert f"{lists} of " in text and "longest list 3" in text and f"; {lists} list entries" in text
    assert f"{2 * 4 * 3} tasks" in text and "model, not measured" in text and "aiv_vec" in text


def test_heads_that_select_the_same_agree():
    call = cases.make_inputs(SMALL)
    call["sparse_indices"][:] = call["sparse_indices"][:, :1]
    assert "agree on 100%" in explain.text(explain.Explanation(*made(call)))


def made(call):
    with library.clock(library.Clock("950PR")):
        plan = explain.read_plan(cases.make_plan(call))
    return "x", "950PR", explain.read_lists(call), plan, None


def test_page(tmp_path, capsys):
    golden = bundle.committed()[0]
    page = tmp_path / "page.html"
    assert cli.main(["explain", str(golden), "-o", str(page), "--soc", "950DT"]) == 0
    text, written = capsys.readouterr().out, page.read_text()
    assert "on 950DT" in text and f"page: {page}" in text
    assert written.count("data:image/png;base64,iVBOR") == 5 and not re.search(r'(src|href)="http', written)
    assert "model" in written and "What the lists select" in written


def test_json_and_default_names(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.json").write_text(json.dumps({"mine": {"heads": [4, 2], "q_lens": [1], "kv_lens": [900]}}))
    assert cli.main(["explain", "own.json", "--splits", "0", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["case"] == "mine" and data["lists"]["density_per_head"] == [1.0] * 4
    assert data["profile"]["source"] == "model" and len(data["plan"]["core_costs"]) == 32
    assert (tmp_path / "explain_mine.html").exists()


def test_a_large_call_is_explained_without_the_clock(tmp_path):
    explained = explain.explain(SOURCE, limit=0.0)
    assert explained.timed is None and "the limit is 0 s (--limit)" in explain.text(explained)
    explain_page.write(explained, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("data:image/png") == 3


def test_without_matplotlib_there_is_text(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    golden = str(bundle.committed()[0])
    assert cli.main(["explain", golden, "--no-page"]) == 0
    assert cli.main(["explain", golden, "-o", str(tmp_path / "x.html")]) == 1
    assert "pip install 'qbsa[plot]'" in capsys.readouterr().err


def test_the_map_shows_what_is_selected():
    explained = explain.explain(SOURCE, limit=0.0)
    figure = explain_page.draw_map(explained)
    large = figure.subfigs[0].axes[0].images[0].get_array()
    mask = explained.lists.mask[1].float().mean(0)  # the longest sequence
    assert large.shape == mask.shape and large.filled(0).sum() == pytest.approx(float(mask.sum()))
    assert len([axes for axes in figure.subfigs[1].axes if axes.images]) == 4
