"""Named calls of the attention operator: what `python -m qbsa bench`, `profile` and `explain` run.

A case says shapes and how much each list selects; values do not matter to it.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from . import bundle, library, sparsity
from .attention import quant_block_sparse_attn_metadata

BLOCK, HEAD_DIM = 128, 128
FILE_SUFFIXES = (".yaml", ".yml", ".json")
FILE_FORM = f"""Own cases, in a file ({", ".join(FILE_SUFFIXES)}):
  my_prefill: {{heads: [32, 4], q_lens: [8192], kv_lens: [8192], share: 0.25}}
  my_decode:  {{heads: [32, 4], q_lens: [1, 1], kv_lens: [32768, 4096], blocks: 64}}"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A causal call: each list holds `blocks` blocks, or `share` of those its query block sees, drawn at random."""

    text: str
    heads: tuple[int, int]  # query heads, KV heads
    q_lens: tuple[int, ...]
    kv_lens: tuple[int, ...]
    blocks: int = 0
    share: float = 1.0

    def list_lengths(self) -> torch.Tensor:
        """int32 [batch, heads_q, q_blocks], as sparse_seq_len; a query block's own block is always in its list."""
        visible = sparsity.visible_blocks(self.q_lens, self.kv_lens).sum(-1)
        wanted = torch.full_like(visible, self.blocks) if self.blocks else (self.share * visible).round().clamp(min=1)
        lengths = torch.minimum(visible, wanted.long())
        return lengths[:, None].expand(-1, self.heads[0], -1).int().contiguous()

    def query_ends(self) -> torch.Tensor:
        """cu_seqlens_q, int32 [batch + 1]."""
        return torch.tensor([0, *self.q_lens]).cumsum(0).int()

    def part(self, sequences: int, kv_heads: int) -> Case:
        """The same with fewer sequences and KV heads, query heads per KV head unchanged."""
        group = self.heads[0] // self.heads[1]
        return dataclasses.replace(
            self,
            heads=(group * kv_heads, kv_heads),
            q_lens=self.q_lens[:sequences],
            kv_lens=self.kv_lens[:sequences],
        )


def _prefill() -> dict[str, Case]:
    """The six published prefill shapes, dense causal and a quarter of the causal blocks."""
    cases = {}
    for batch, heads_q, heads_kv, length in (
        (1, 32, 4, 8192),
        (8, 32, 4, 8192),
        (1, 64, 8, 8192),
        (8, 32, 4, 16384),
        (2, 64, 8, 16384),
        (4, 32, 4, 16384),
    ):
        name = f"b{batch}_n{heads_q}_n{heads_kv}_s{length}"
        shape = f"prefill of {batch} x {length:,} tokens, {heads_q} query heads on {heads_kv} KV heads"
        lens = (length,) * batch
        cases[name] = Case(f"{shape}, dense causal", (heads_q, heads_kv), lens, lens)
        cases[f"{name}_quarter"] = Case(
            f"{shape}, a quarter of the visible blocks", (heads_q, heads_kv), lens, lens, share=0.25
        )
    return cases


CASES = _prefill() | {
    "prefill_8k_quarter": Case(
        "prefill of 8,192 tokens, one group of 8 query heads on 1 KV head, a quarter of the visible blocks",
        (8, 1), (8192,), (8192,), share=0.25,
    ),
    "chunk_1k_on_16k": Case(
        "1,024 tokens behind 15,360, 16 query heads on 2 KV heads, 32 blocks a list",
        (16, 2), (1024,), (16384,), 32,
    ),
    "decode_b8": Case(
        "one token of each of 8 sequences of 32,768, 32 query heads on 4 KV heads, 64 blocks a list",
        (32, 4), (1,) * 8, (32768,) * 8, 64,
    ),
    "steady_128": Case(
        "one query block a core, 128 blocks a list: the steady state",
        (32, 4), (128,), (16384,), 128,
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Source:
    """Something that can be called: a case, or the path of a bundle."""

    name: str
    what: Case | Path

    def inputs(self) -> dict[str, Any]:
        """The keyword arguments of the attention operator, on the CPU."""
        return make_inputs(self.what) if isinstance(self.what, Case) else bundle.load_inputs(self.what)

    def entries(self) -> int:
        """In all lists."""
        lengths = self.what.list_lengths() if isinstance(self.what, Case) else self.inputs()["sparse_seq_len"]
        return int(lengths.sum())


def find(names: Sequence[str]) -> list[Source]:
    """Sources of names: cases, patterns of them (b1_*), files of own cases, bundles. ValueError for anything else."""
    found: list[Source] = []
    for name in names:
        path = Path(name)
        if path.suffix in FILE_SUFFIXES:
            found += [Source(case_id, case) for case_id, case in load(path).items()]
        elif path.suffix == ".pt":
            found.append(Source(path.stem, path))
        else:
            matching = fnmatch.filter(CASES, name)
            if not matching:
                files = f"the path of a bundle (.pt) or of a file of cases ({', '.join(FILE_SUFFIXES)})"
                raise ValueError(f"CASE must be one of {', '.join(CASES)}, a pattern of them, {files}; got {name!r}")
            found += [Source(case_id, CASES[case_id]) for case_id in matching]
    return found


def find_one(name: str) -> Source:
    """The only source of a name; ValueError if there are several or none."""
    found = find([name])
    if len(found) != 1:
        raise ValueError(f"CASE must name one case; got {name!r}: {', '.join(source.name for source in found)}")
    return found[0]


def load(path: Path) -> dict[str, Case]:
    """Own cases of a YAML or JSON file. ValueError names the case and the rule that it breaks."""
    text = path.read_text()
    content = json.loads(text) if path.suffix == ".json" else _parse_yaml(path, text)
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path} must hold cases, name: {{heads: .., q_lens: .., kv_lens: ..}}; got {content!r:.80}")
    return {str(name): _case(f"{path}: case {name}", fields) for name, fields in content.items()}


def make_inputs(case: Case) -> dict[str, Any]:
    """The keyword arguments of the attention operator: random lists, random bytes as data, scales of 1."""
    generator = torch.Generator().manual_seed(1)
    heads_q, heads_kv = case.heads
    tokens, batch = sum(case.q_lens), len(case.q_lens)
    width = max(_blocks(length) for length in case.kv_lens)
    pages = batch * width
    cache = (pages, heads_kv, BLOCK, HEAD_DIM)
    lengths = case.list_lengths()
    return {
        "query": _random_fp8((tokens, heads_q, HEAD_DIM), generator),
        "key": _random_fp8(cache, generator),
        "value": _random_fp8(cache, generator),
        "q_descale": torch.ones(tokens, heads_q),
        "k_descale": torch.ones(pages, heads_kv, BLOCK, 1),
        "v_descale": torch.ones(heads_kv),
        "p_scale": None,
        "sparse_indices": _lists(case, lengths, width, generator),
        "sparse_seq_len": lengths,
        "atten_mask": None,
        "softmax_scale": HEAD_DIM**-0.5,
        "sparse_q_block_size": BLOCK,
        "sparse_kv_block_size": BLOCK,
        "cu_seqlens_q": case.query_ends(),
        "seqused_kv": torch.tensor(case.kv_lens, dtype=torch.int32),
        "block_table": torch.randperm(pages, generator=generator).reshape(batch, width).int(),
        "mask_mode": 3,
        "return_softmax_lse": True,
    }


def make_plan(inputs: dict[str, Any], max_kv_splits: int = 1) -> torch.Tensor:
    """The metadata of a call with these keyword arguments, on their device."""
    by_name = {name: inputs[name] for name in ("cu_seqlens_q", "mask_mode", "layout_q") if name in inputs}
    lengths, key = inputs["sparse_seq_len"], inputs["key"]
    return quant_block_sparse_attn_metadata(
        lengths, lengths.shape[1], key.shape[1], key.shape[3], **by_name, max_kv_splits=max_kv_splits
    )


def plan_of(case: Case, max_kv_splits: int = 1) -> torch.Tensor:
    """The metadata of a case, made from its lengths alone."""
    (heads_q, heads_kv), ends = case.heads, case.query_ends()
    return quant_block_sparse_attn_metadata(
        case.list_lengths(), heads_q, heads_kv, HEAD_DIM, cu_seqlens_q=ends, max_kv_splits=max_kv_splits
    )


def _lists(case: Case, lengths: torch.Tensor, width: int, generator: torch.Generator) -> torch.Tensor:
    """sparse_indices: random blocks of those that a query block sees, ascending, its own one always among them."""
    visible = sparsity.visible_blocks(case.q_lens, case.kv_lens).sum(-1)
    batch, heads, q_blocks = lengths.shape
    indices = torch.full((batch, heads, q_blocks, width), -1, dtype=torch.int32)
    for sequence in range(batch):
        for q_block, (seen, count) in enumerate(zip(visible[sequence].tolist(), lengths[sequence, 0].tolist())):
            if count == 0:
                continue
            others = torch.rand(heads, seen - 1, generator=generator).argsort(-1)[:, : count - 1].sort(-1).values
            indices[sequence, :, q_block, : count - 1] = others.int()
            indices[sequence, :, q_block, count - 1] = seen - 1
    return indices


def _random_fp8(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Small values of either sign: no code of NaN."""
    return torch.randint(0, 64, shape, dtype=torch.uint8, generator=generator).view(torch.float8_e4m3fn)


def _parse_yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise RuntimeError(f"reading {path} needs PyYAML: pip install 'qbsa[tools]', or write it as .json") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} must be YAML; got {' '.join(str(error).split())}") from None


def _case(where: str, fields: Any) -> Case:
    names = [field.name for field in dataclasses.fields(Case)]
    if not isinstance(fields, dict) or not {"heads", "q_lens", "kv_lens"} <= fields.keys() <= set(names):
        raise ValueError(f"{where} must have heads, q_lens and kv_lens, and may have {', '.join(names)}; got {fields}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    case = Case(**({"text": where} | values))
    for name, lens in (("heads", case.heads), ("q_lens", case.q_lens), ("kv_lens", case.kv_lens)):
        if not isinstance(lens, tuple) or not lens or not all(isinstance(n, int) and n > 0 for n in lens):
            raise ValueError(f"{where}: {name} must be a list of positive integers; got {lens!r}")
    limit = library.contract().constants["kMaxGroup"]
    if len(case.heads) != 2 or case.heads[0] % case.heads[1] or case.heads[0] // case.heads[1] > limit:
        rule = f"heads must be [N1, N2] with N1 a multiple of N2 and N1 / N2 <= {limit}"
        raise ValueError(f"{where}: {rule}; got {case.heads}")
    if len(case.q_lens) != len(case.kv_lens) or any(q > kv for q, kv in zip(case.q_lens, case.kv_lens)):
        raise ValueError(
            f"{where}: q_lens and kv_lens must be of equal length with q <= kv; got {case.q_lens}, {case.kv_lens}"
        )
    if not isinstance(case.blocks, int) or case.blocks < 0:
        raise ValueError(f"{where}: blocks must be an integer >= 0; got {case.blocks!r}")
    if not isinstance(case.share, (int, float)) or not 0 < case.share <= 1:
        raise ValueError(f"{where}: share must be in 0 < share <= 1; got {case.share!r}")
    return case


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK)
