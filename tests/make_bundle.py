"""Makes the committed bundles: python tests/make_bundle.py writes bundles/<case id>.pt."""

from pathlib import Path

import cases
import reference
import torch
from cases import Case
from qbsa.bundle import Bundle, save

FOLDER = Path(__file__).resolve().parents[1] / "bundles"
ORIGIN = "tests/reference.py fp8_chain"

# Small, with much of the contract in it: a shared page, q and kv tails, rows that see nothing, odd and empty lists,
# entries that name no block, a descending pair, a duplicate.
CASE = Case("small_lists_b2_n4", (4, 1), (40, 20), (300, 12), "empty", 0, pages=3)
LISTS = [[[2, 0, 1], [1, -1, 2], [0, 99, 2, 2], []], [[0], [0, 1], [], [-1, 2, 0]]]  # per sequence and head


def make() -> Bundle:
    inputs = cases.make_inputs(CASE)
    inputs["block_table"] = torch.tensor([[2, 0, 1], [0, -1, -1]], dtype=torch.int32)
    inputs["sparse_indices"] = torch.tensor(
        [[[[*entries, *[-1] * (4 - len(entries))]] for entries in heads] for heads in LISTS], dtype=torch.int32
    )
    inputs["sparse_seq_len"] = torch.tensor(
        [[[len(entries)] for entries in heads] for heads in LISTS], dtype=torch.int32
    )
    return Bundle(CASE.id, inputs, *dense(reference.fp8_chain(**inputs), inputs), ORIGIN)


def dense(truth: reference.Truth, inputs: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """A truth of all rows as the operator would return it: bf16 [T, heads_q, 128], fp32 [heads_q, T]."""
    heads = inputs["sparse_indices"].shape[1]
    tokens = len(truth.token) // heads
    out = torch.empty(tokens, heads, truth.out.shape[1], dtype=torch.bfloat16)
    lse = torch.empty(heads, tokens)
    out[truth.token, truth.head] = truth.out.bfloat16()
    lse[truth.head, truth.token] = truth.lse.float()
    return out, lse


if __name__ == "__main__":
    bundle = make()
    save(bundle, FOLDER / f"{bundle.case_id}.pt")
    print(FOLDER / f"{bundle.case_id}.pt")
