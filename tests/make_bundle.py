"""Makes the committed bundles: python tests/make_bundle.py writes bundles/<case id>.pt."""

from pathlib import Path

import cases
import torch
from cases import Case
from qbsa import bundle_maker
from qbsa.bundle import Bundle, save

FOLDER = Path(__file__).resolve().parents[1] / "bundles"

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
    return bundle_maker.from_inputs(CASE.id, inputs)


if __name__ == "__main__":
    bundle = make()
    save(bundle, FOLDER / f"{bundle.case_id}.pt")
    print(FOLDER / f"{bundle.case_id}.pt")
