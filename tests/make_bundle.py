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


# The public form of a cache: K, V and scales of a page side by side. NTD, scales of all sizes, two pages shared by all.
INTERLEAVED = Case("interleaved_ntd_b2_n4", (4, 1), (9, 5), (150, 40), "reverse", 2, 0, 0.8, "amplitude", pages=2)


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


def make_interleaved() -> Bundle:
    inputs = cases.make_inputs(INTERLEAVED, "NTD")
    parts = [inputs[name] for name in ("key", "value", "k_descale")]
    storage = torch.cat([part.flatten(1).view(torch.uint8) for part in parts], 1)
    sections = storage.split([part[0].nbytes for part in parts], 1)
    views = [section.view(part.dtype).unflatten(1, part.shape[1:]) for section, part in zip(sections, parts)]
    return bundle_maker.from_inputs(INTERLEAVED.id, inputs | dict(zip(("key", "value", "k_descale"), views)))


MADE = [make, make_interleaved]

if __name__ == "__main__":
    for bundle in (function() for function in MADE):
        save(bundle, FOLDER / f"{bundle.case_id}.pt")
        print(FOLDER / f"{bundle.case_id}.pt")
