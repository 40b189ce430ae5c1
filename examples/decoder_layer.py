"""A decoder layer that calls QBSA: chunked prefill over a paged FP8 cache, compared with dense fp32 attention.

    python examples/decoder_layer.py [--device npu:0] [--tokens 4096] [--chunk 1024]

RMSNorm, QKV projection, RoPE, cache write, block selection by pooled scores, the operator, output projection. The same
code runs on cpu and npu. --attention-device moves the operator's arguments alone, by explicit copies.
"""

import argparse
import math
import time
from dataclasses import dataclass, field

import qbsa
import torch
from qbsa import bundle, npu, quantize, sparsity
from torch.nn.functional import rms_norm, scaled_dot_product_attention

HEADS_Q, HEADS_KV, HEAD_DIM, HIDDEN, BLOCK = 8, 2, 128, 1024, 128
GROUP = HEADS_Q // HEADS_KV
ROPE_BASE = 1e6
SINKS, WINDOW, TOPK = 1, 2, 5  # blocks of each list
# Bounds of the relative L2 error. e4m3 rounds by at most 2^-4, on average by less than half of it, and sums over keys
# lose part of that again; with selection comes what the weights of the left-out blocks had added.
MAX_FP8_ERROR, MAX_ERROR = 0.05, 0.10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the layer computes")
    parser.add_argument("--attention-device", help="where the operator computes; default: --device")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--chunk", type=int, default=1024, help="tokens of one forward call, a multiple of 128")
    options = parser.parse_args()
    device, attention_device = map(npu.device, (options.device, options.attention_device or options.device))

    prompt = topical_prompt(options.tokens).to(device)
    layer = DecoderLayer(device, attention_device)
    expected = layer.dense(prompt)
    size = (expected - prompt).norm()  # of what attention adds to the residual
    errors = {}
    for name, topk in (("all blocks, FP8", options.tokens), (f"{SINKS} + {WINDOW} + {TOPK} blocks, FP8", TOPK)):
        cache = PagedCache.empty(options.tokens, device)
        selected = visible = 0
        started = time.monotonic()
        chunks = []
        for chunk in prompt.split(options.chunk):
            output, density = layer.forward(chunk, cache, topk)
            chunks.append(output)
            selected, visible = selected + density.selected, visible + density.visible
        seconds = time.monotonic() - started
        errors[name] = float((torch.cat(chunks) - expected).norm() / size)
        print(
            f"{name}: error against dense fp32 {errors[name]:.4f}, {selected} of {visible} blocks "
            f"computed ({1 - selected / visible:.0%} saved), {seconds:.1f} s of host time"
        )
    fp8_error, error = errors.values()
    assert fp8_error < MAX_FP8_ERROR and error < MAX_ERROR, (fp8_error, error)


@dataclass
class PagedCache:
    """FP8 keys and values of one sequence; pages in shuffled order, as a server would hand them out."""

    key: torch.Tensor  # float8_e4m3fn [pages, heads_kv, 128, 128]
    value: torch.Tensor
    k_descale: torch.Tensor  # float32 [pages, heads_kv, 128, 1]
    block_table: torch.Tensor  # int32 [1, blocks]
    v_descale: torch.Tensor | None = None  # float32 [heads_kv], from the first chunk, with head-room
    tokens: int = field(default=0)

    HEADROOM = 1.5

    @classmethod
    def empty(cls, tokens: int, device: torch.device) -> "PagedCache":
        pages = math.ceil(tokens / BLOCK)
        shape = (pages, HEADS_KV, BLOCK, HEAD_DIM)
        order = torch.randperm(pages, generator=torch.Generator().manual_seed(2), dtype=torch.int32)
        fp8 = [torch.zeros(shape, dtype=torch.uint8, device=device).view(quantize.FP8) for _ in range(2)]
        return cls(*fp8, torch.zeros((*shape[:3], 1), device=device), order[None].to(device))

    def write(self, key: torch.Tensor, value: torch.Tensor) -> None:
        """Appends [tokens, heads_kv, 128] of keys and values."""
        if self.v_descale is None:
            self.v_descale = value.abs().amax((0, 2)) * self.HEADROOM / quantize.FP8_MAX
        key8, k_descale = quantize.quantize_tokens(key)
        value8 = (value / self.v_descale[:, None]).clamp(-quantize.FP8_MAX, quantize.FP8_MAX).to(quantize.FP8)
        position = torch.arange(self.tokens, self.tokens + len(key), device=key.device)
        page, slot = self.block_table[0].long()[position // BLOCK], position % BLOCK
        self.key.view(torch.uint8)[page, :, slot] = key8.view(torch.uint8)
        self.value.view(torch.uint8)[page, :, slot] = value8.view(torch.uint8)
        self.k_descale[page, :, slot, 0] = k_descale
        self.tokens += len(key)

    def keys(self) -> torch.Tensor:
        """What the cache holds as keys, float32 [tokens, heads_kv, 128]."""
        pages = self.block_table[0].long()
        keys = (self.key.float() * self.k_descale)[pages]
        return keys.transpose(1, 2).reshape(-1, HEADS_KV, HEAD_DIM)[: self.tokens]


class DecoderLayer:
    """The attention half of a decoder layer, with weights under which tokens attend to tokens of their topic."""

    def __init__(self, device: torch.device, attention_device: torch.device):
        generator = torch.Generator().manual_seed(1)
        self.attention_device = attention_device

        def weight(*shape, scale):
            return torch.randn(shape, generator=generator) * scale

        key = weight(HIDDEN, HEADS_KV, HEAD_DIM, scale=HIDDEN**-0.5)
        query = key.repeat_interleave(GROUP, 1) + weight(HIDDEN, HEADS_Q, HEAD_DIM, scale=0.3 * HIDDEN**-0.5)
        value = weight(HIDDEN, HEADS_KV, HEAD_DIM, scale=HIDDEN**-0.5)
        self.qkv = torch.cat([w.flatten(1) for w in (query, key, value)], 1).to(device)
        self.out = weight(HEADS_Q * HEAD_DIM, HIDDEN, scale=(HEADS_Q * HEAD_DIM) ** -0.5).to(device)
        self.softmax_scale = HEAD_DIM**-0.5

    def project(self, x: torch.Tensor, start: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query [tokens, heads_q, 128], key and value [tokens, heads_kv, 128] of tokens from position `start` on."""
        heads = rms_norm(x, (HIDDEN,)) @ self.qkv
        query, key, value = heads.unflatten(1, (-1, HEAD_DIM)).split([HEADS_Q, HEADS_KV, HEADS_KV], 1)
        return rope(query, start), rope(key, start), value.contiguous()

    def forward(self, x: torch.Tensor, cache: PagedCache, topk: int) -> tuple[torch.Tensor, sparsity.Density]:
        """One chunk [tokens, hidden], appended to the cache; its output, and how much of the cache was looked at."""
        query, key, value = self.project(x, cache.tokens)
        cache.write(key, value)
        lens = [len(x)], [cache.tokens]
        visible = sparsity.visible_blocks(*lens).to(x.device)
        scores = sparsity.block_scores(query, cache.keys(), *lens)
        mask = sparsity.sink_window_topk(scores, visible, sinks=SINKS, window=WINDOW, topk=topk)
        indices, seq_len = sparsity.mask_to_lists(mask)
        query8, q_descale = quantize.quantize_tokens(query)
        heads = self.attend(
            query=query8,
            key=cache.key,
            value=cache.value,
            q_descale=q_descale,
            k_descale=cache.k_descale,
            v_descale=cache.v_descale,
            p_scale=quantize.default_p_scale(x.device),
            sparse_indices=indices,
            sparse_seq_len=seq_len,
            atten_mask=None,
            softmax_scale=self.softmax_scale,
            sparse_q_block_size=BLOCK,
            sparse_kv_block_size=BLOCK,
            cu_seqlens_q=torch.tensor([0, len(x)], dtype=torch.int32, device=x.device),
            seqused_kv=torch.tensor([cache.tokens], dtype=torch.int32, device=x.device),
            block_table=cache.block_table,
        )
        return x + heads.float().flatten(1) @ self.out, sparsity.density(mask, visible)

    def attend(self, **arguments) -> torch.Tensor:
        """The operator with its plan, [tokens, heads_q, 128]."""
        home = arguments["query"].device
        arguments = bundle.to_device(arguments, self.attention_device)
        metadata = qbsa.quant_block_sparse_attn_metadata(
            arguments["sparse_seq_len"], HEADS_Q, HEADS_KV, HEAD_DIM, cu_seqlens_q=arguments["cu_seqlens_q"]
        )
        out, _ = qbsa.quant_block_sparse_attn(**arguments, metadata=metadata)
        return out.to(home)

    def dense(self, x: torch.Tensor) -> torch.Tensor:
        """The same layer with causal fp32 attention over all keys."""
        query, key, value = self.project(x, 0)
        heads = [
            scaled_dot_product_attention(
                query[:, head], key[:, head // GROUP], value[:, head // GROUP], is_causal=True, scale=self.softmax_scale
            )
            for head in range(HEADS_Q)
        ]
        return x + torch.cat(heads, 1) @ self.out


def rope(x: torch.Tensor, start: int) -> torch.Tensor:
    """Rotates [tokens, heads, 128], first half against second half, by the position times the frequency of the pair."""
    half = HEAD_DIM // 2
    frequency = ROPE_BASE ** (-torch.arange(half, device=x.device) / half)
    angle = (torch.arange(start, start + len(x), device=x.device)[:, None] * frequency)[:, None]
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)


def topical_prompt(tokens: int, topics: int = 8) -> torch.Tensor:
    """Embeddings [tokens, hidden] of a text whose topic changes every 256 tokens and comes back."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(topics, HIDDEN, generator=generator)
    topic = torch.randint(topics, (math.ceil(tokens / 256),), generator=generator).repeat_interleave(256)[:tokens]
    return centres[topic] + 0.7 * torch.randn(tokens, HIDDEN, generator=generator)


if __name__ == "__main__":
    main()
