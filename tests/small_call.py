"""A small valid call of either operator, for tests that change one argument of it."""

import torch

BATCH, HEADS_Q, HEADS_KV, TOKENS, PAGES, Q_BLOCKS, CAPACITY, WIDTH = 2, 4, 2, 200, 5, 2, 3, 4
PER_HEAD_AND_BLOCK = (BATCH, HEADS_Q, Q_BLOCKS)


def attention_arguments(**changes):
    """A small valid call; changes replace arguments."""
    generator = torch.Generator().manual_seed(1)

    def fp8(*shape):
        return torch.empty(shape).uniform_(-1, 1, generator=generator).to(torch.float8_e4m3fn)

    arguments = {
        "query": fp8(TOKENS, HEADS_Q, 128),
        "key": fp8(PAGES, HEADS_KV, 128, 128),
        "value": fp8(PAGES, HEADS_KV, 128, 128),
        "q_descale": torch.ones(TOKENS, HEADS_Q),
        "k_descale": torch.ones(PAGES, HEADS_KV, 128, 1),
        "v_descale": torch.ones(HEADS_KV),
        "p_scale": torch.tensor([256.0]),
        "sparse_indices": torch.arange(CAPACITY, dtype=torch.int32).repeat(*PER_HEAD_AND_BLOCK, 1),
        "sparse_seq_len": torch.full(PER_HEAD_AND_BLOCK, 2, dtype=torch.int32),
        "atten_mask": None,
        "softmax_scale": 128**-0.5,
        "sparse_q_block_size": 128,
        "sparse_kv_block_size": 128,
        "cu_seqlens_q": torch.tensor([0, 150, TOKENS], dtype=torch.int32),
        "seqused_kv": torch.tensor([300, 400], dtype=torch.int32),
        "block_table": torch.arange(BATCH * WIDTH, dtype=torch.int32).reshape(BATCH, WIDTH) % PAGES,
    }
    return arguments | changes


def metadata_arguments(**changes):
    lengths = torch.full(PER_HEAD_AND_BLOCK, 2, dtype=torch.int32)
    return {"sparse_seq_len": lengths, "num_heads_q": HEADS_Q, "num_heads_kv": HEADS_KV, "head_dim": 128} | changes


def int32(*shape):
    return torch.zeros(shape, dtype=torch.int32)


def float32(*shape):
    return torch.ones(shape)


def fp8(*shape):
    return torch.zeros(shape, dtype=torch.float8_e4m3fn)
