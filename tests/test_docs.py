"""All pages: code runs, links lead somewhere, the site has each page, the drawing of the contract is true.

mkdocs, which checks links too, is not needed here.
"""

import functools
import re
import sys
from pathlib import Path

import pytest
import qbsa
import torch
from qbsa import bundle, compare

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]


def code_blocks(path):
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S)


def run(page, **names):
    """The blocks of a page of docs/ one after the other; the names that they leave."""
    for code in code_blocks(DOCS / page):
        exec(compile(code, page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_all_pages_with_code_are_run():
    assert {page.name for page in DOCS.glob("*.md") if code_blocks(page)} == {
        "integration.md",
        "migration.md",
        "npu.md",  # npu/test_order.py
        "quickstart.md",
        "scheduler.md",  # test_schedule.py
        "tools.md",
    }


def test_quickstart_records_the_example_of_the_readme(tmp_path, monkeypatch):
    (example,) = code_blocks(ROOT / "README.md")
    (tmp_path / "first.py").write_text(example)
    run("quickstart.md")
    first = sys.modules.pop("first")
    recorded = bundle.load("recorded/call_0000.pt")
    assert torch.equal(recorded.expected, first.out) and torch.equal(recorded.expected_lse, first.lse)


def test_tools_records_a_model():
    def model(tokens):
        bundle.result(bundle.load(next(ROOT.glob("bundles/*.pt"))), "cpu")

    run("tools.md", qbsa=qbsa, model=model, tokens=None)
    assert Path("recorded/call_0000.pt").exists()


def test_integration():
    torch.manual_seed(0)
    names = run("integration.md")  # asserts that chunks change no bit
    # A part has another running maximum, so its P lies on other e4m3 steps, each at most 2^-4 off; LSE knows no P.
    whole, joined = names["whole"].float(), names["out_ab"]
    assert (joined - whole).norm() < 2 * 2.0**-4 * whole.norm()
    caps = {"rtol": 2 * compare.LSE_CAP, "atol": 2 * compare.LSE_CAP * compare.LSE_CAP_OFFSET}
    torch.testing.assert_close(names["lse_ab"], names["lse"], **caps)
    assert names["token"].shape == names["one_scale"].shape == (1, names["heads_q"], 128)


def test_migration_of_a_mask_and_of_scales():
    """Random arguments in the form of hpc-ops: 2 sequences, query lengths 200 and 40, on 300 and 170 keys."""
    generator = torch.Generator().manual_seed(0)
    q_lens, heads_q, heads_kv, pages = [200, 40], 4, 2, 5
    block_mask = torch.rand(2, heads_q, 2, 3, generator=generator) < 0.7
    qscale = torch.rand(2, heads_q, 256, generator=generator)
    kscale = torch.rand(pages, 4, heads_kv, 32, generator=generator)
    names = run("migration.md", block_mask=block_mask.to(torch.uint8), qscale=qscale, kscale=kscale, q_lens=q_lens)
    assert torch.equal(names["q_descale"][:200], qscale[0, :, :200].T)
    assert torch.equal(names["q_descale"][200:], qscale[1, :, :40].T)
    token, head = 77, 1  # "token t lies at row t // 32, lane t % 32"
    assert torch.equal(names["k_descale"][:, head, token, 0], kscale[:, token // 32, head, token % 32])
    mask = qbsa.sparsity.lists_to_mask(names["sparse_indices"], names["sparse_seq_len"], 3)
    assert torch.equal(mask, block_mask)


def test_the_drawing_of_the_contract():
    text = (DOCS / "contract.md").read_text(encoding="utf-8")
    q_len, kv_len = map(int, re.search(r"of (\d+) query tokens behind a cache of (\d+) keys", text).groups())
    seen = qbsa.sparsity.visible_blocks([q_len], [kv_len])[0]
    rows = re.findall(r"^q block (\d) +((?:[■◪·×] +)+)([-\d ]+?)  +(\d)$", text, re.M)
    assert [int(row[0]) for row in rows] == list(range(len(seen)))
    for block, symbols, entries, length in rows:
        symbols = symbols.split()
        first_row_sees = int(block) * 128 + kv_len - q_len
        whole = [128 * key_block + 127 <= first_row_sees for key_block in range(len(symbols))]
        assert [symbol != "×" for symbol in symbols] == seen[int(block)].tolist()
        assert not any(symbol == "■" and not whole[i] or symbol == "◪" and whole[i] for i, symbol in enumerate(symbols))
        selected = [i for i, symbol in enumerate(symbols) if symbol in "■◪"]
        listed = [int(entry) for entry in entries.split()]
        assert listed[: int(length)] == selected[::-1] and set(listed[int(length) :]) <= {-1}


@functools.cache
def anchors(path):
    """Of all headings, as MkDocs and code hosts make them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    words = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in re.findall(r"^#+ (.+)$", text, re.M))
    return {re.sub(r"[-\s]+", "-", title) for title in words}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```$|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("https://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        target = (path.parent / target).resolve() if target else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_site_has_all_pages():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(re.findall(r": (.+\.md)$", nav, re.M)) == sorted(page.name for page in DOCS.glob("*.md"))
