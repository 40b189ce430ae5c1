"""The code of both READMEs runs and is right, and both say the same."""

import io
import re
import tokenize
from pathlib import Path

import pytest
import reference
import torch
from qbsa import compare

ROOT = Path(__file__).resolve().parents[1]
ENGLISH, CHINESE = "README.md", "README.zh.md"


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name, language):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(name), re.M | re.S)
    return [block for kind, block in found if kind == language]


def without_comments(code):
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return [token.string for token in tokens if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE)]


@pytest.mark.parametrize("name", [ENGLISH, CHINESE])
def test_the_code_runs_and_gives_attention(name):
    (code,) = blocks(name, "python")
    torch.manual_seed(0)
    names = {}
    exec(compile(code, name, "exec"), names)
    argument = {
        **names["cache"]._asdict(),
        **{name: names[name] for name in ("query", "q_descale", "v_descale", "cu_seqlens_q")},
        "p_scale": torch.tensor([256.0]),
        "sparse_indices": names["indices"],
        "sparse_seq_len": names["seq_len"],
        "softmax_scale": 128**-0.5,
        "sparse_q_block_size": 128,
        "sparse_kv_block_size": 128,
    }
    truth = reference.fp8_chain(**argument)
    compare.check(compare.against_chain(names["out"], names["lse"], truth, argument))
    tokens, heads = names["T"], names["N1"]
    assert names["out"].shape == (tokens, heads, 128) and names["lse"].shape == (heads, tokens)


def test_both_languages_show_the_same_code_and_commands():
    assert [without_comments(x) for x in blocks(ENGLISH, "python")] == [
        without_comments(x) for x in blocks(CHINESE, "python")
    ]
    commands, chinese_commands = (
        [line.partition("#")[0].rstrip() for block in blocks(name, "") for line in block.splitlines()]
        for name in (ENGLISH, CHINESE)
    )
    assert commands == chinese_commands


def test_both_languages_have_the_same_parts_and_links():
    for pattern in (r"^(#+) ", r"^\|.*\|$", r"`[^`\n]+`"):
        assert len(re.findall(pattern, text_of(ENGLISH), re.M)) == len(re.findall(pattern, text_of(CHINESE), re.M))
    links = [set(re.findall(r"\]\(([^)]+)\)", text_of(name))) for name in (ENGLISH, CHINESE)]
    assert links[0] ^ links[1] == {ENGLISH, CHINESE}
