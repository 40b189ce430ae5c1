"""Tables narrower than the sequence."""

import cases
import qbsa
import reference
import torch
from qbsa import compare


def test_a_narrow_table_does_not_move_the_diagonal():
    """Row i sees key j iff j <= i + kv_len - q_len, kv_len being seqused_kv, however few blocks the table names."""
    inputs = cases.make_inputs(cases.Case("narrow", (1, 1), (10,), (300,), "sequential", 1))
    inputs["block_table"] = inputs["block_table"][:, :1].contiguous()
    inputs["sparse_indices"] = inputs["sparse_indices"][..., :1].contiguous()
    assert inputs["block_table"].shape == (1, 1) and inputs["sparse_indices"].tolist() == [[[[0]]]]
    out, lse = qbsa.quant_block_sparse_attn(**inputs)
    truth = reference.fp8_chain(**inputs)
    compare.check(compare.against_chain(out, lse, truth, inputs))
    every_key_seen = reference.fp8_chain(**inputs | {"mask_mode": 0})  # 290 keys lie before the first row's last one
    assert torch.equal(truth.lse, every_key_seen.lse)
