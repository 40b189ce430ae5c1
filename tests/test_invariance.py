"""What must not change one bit: repeats, batch and page order, cores, host threads, plans, company of other heads.

Layouts of the same data have a file of their own, test_layouts.py.
"""

import itertools

import cases
import pytest
import qbsa
import reference
import torch
from cases import Case
from qbsa import backend, compare, library, schema, validate

PAGED = ("key", "value", "k_descale")
BY_TOKEN = ("query", "q_descale")
BY_SEQUENCE = ("sparse_indices", "sparse_seq_len", "seqused_kv", "block_table")
CASES = [
    Case("mixed", (6, 2), (300, 1, 140, 0, 33), (500, 129, 70, 40, 33), "random", 3, table="shuffled"),
    Case("length", (8, 1), (129, 260), (600, 257), "random", 5, mask_mode=0, p_scale=0.7, scales="amplitude"),
]
INT32 = torch.iinfo(torch.int32)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.id)
def call(request):
    """Keyword arguments, and the result that every variation must give."""
    inputs = cases.make_inputs(request.param)
    out, lse = attend(inputs)
    compare.check(compare.against_chain(out, lse, reference.fp8_chain(**inputs), inputs))
    return inputs, (out, lse)


def attend(inputs):
    return qbsa.quant_block_sparse_attn(**inputs)


def same_bits(one, other):
    """Two results (out, lse) are equal bit for bit; out and lse may be views."""
    integers = {2: torch.int16, 4: torch.int32}
    return all(
        torch.equal(*(x.contiguous().view(integers[x.element_size()]) for x in pair)) for pair in zip(one, other)
    )


def planned_for(inputs, cores, **changes):
    """A plan of these inputs, changed by `changes`, for that many cores."""
    problem = validate.attention_problem(**(schema.defaults(schema.ATTENTION) | inputs | changes))
    plan = backend._empty_plan(problem)
    library.current().schedule({"max_kv_splits": 1} | backend._values(problem) | {"plan": plan, "cores": cores})
    qbsa.check_plan(plan, **{name: problem.numbers[name] for name in ("batch", "heads_q", "q_blocks")})
    return plan


def pages_moved(inputs, generator):
    order = torch.randperm(inputs["key"].shape[0], generator=generator)
    moved = {name: torch.empty_like(inputs[name]) for name in PAGED}
    for name, tensor in moved.items():
        tensor.view(torch.uint8)[order] = inputs[name].view(torch.uint8)
    return inputs | moved | {"block_table": order[inputs["block_table"].long()].int()}


def sequences_taken(inputs, order):
    """inputs with the sequences in `order` only, and the tokens that these are; TND."""
    begins = inputs["cu_seqlens_q"].tolist()
    token = torch.cat([torch.arange(begins[i], begins[i + 1]) for i in order])
    lens = [begins[i + 1] - begins[i] for i in order]
    taken = {name: inputs[name].view(torch.uint8)[token].view(inputs[name].dtype) for name in BY_TOKEN}
    taken |= {name: inputs[name][order] for name in BY_SEQUENCE}
    return inputs | taken | {"cu_seqlens_q": torch.tensor([0, *lens]).cumsum(0).int()}, token


def test_repeats_and_host_threads(call):
    inputs, expected = call
    try:
        for threads in (1, 2, 5, 1):
            library.current().set_threads(threads)
            assert same_bits(attend(inputs), expected) and same_bits(attend(inputs), expected)
    finally:
        library.current().set_threads(0)


def test_the_checked_twin(call):
    inputs, expected = call
    with library.mode("checked"):
        assert same_bits(attend(inputs), expected)


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 32, 71, 72])
def test_the_number_of_cores_planned_for(call, cores):
    inputs, expected = call
    assert same_bits(attend(inputs | {"metadata": planned_for(inputs, cores)}), expected)
    assert library.current().report()["groups"] == cores


@pytest.mark.parametrize(("planned", "launched"), [(32, 1), (32, 5), (7, 3), (3, 7), (1, 72), (72, 71)])
def test_the_number_of_cores_launched(call, planned, launched, monkeypatch):
    inputs, expected = call
    plan, values = planned_for(inputs, planned), backend._values
    monkeypatch.setattr(backend, "_values", lambda problem: values(problem) | {"cores": launched})
    assert same_bits(attend(inputs | {"metadata": plan}), expected)
    assert library.current().report()["groups"] == launched


@pytest.mark.parametrize("fill", ["zero", "one task", "full", "random", "broken"])
def test_a_plan_made_for_other_lengths(call, fill):
    inputs, expected = call
    lengths = torch.zeros_like(inputs["sparse_seq_len"])
    generator = torch.Generator().manual_seed(2)
    if fill == "one task":
        lengths[-1, -1, 0] = 3
    elif fill == "full":
        lengths[:] = inputs["sparse_indices"].shape[3]
    elif fill == "random":
        lengths.random_(0, inputs["sparse_indices"].shape[3] + 1, generator=generator)
    elif fill == "broken":
        lengths.random_(INT32.min, INT32.max, generator=generator)
    for cores, ends in itertools.product((3, 32), (inputs["cu_seqlens_q"], torch.zeros_like(inputs["cu_seqlens_q"]))):
        plan = planned_for(inputs, cores, sparse_seq_len=lengths, cu_seqlens_q=ends)
        assert same_bits(attend(inputs | {"metadata": plan}), expected)


def test_a_plan_from_the_operator(call):
    inputs, expected = call
    heads = inputs["query"].shape[1], inputs["key"].shape[1]
    for ends in (None, inputs["cu_seqlens_q"]):
        plan = qbsa.quant_block_sparse_attn_metadata(inputs["sparse_seq_len"], *heads, 128, cu_seqlens_q=ends)
        assert same_bits(attend(inputs | {"metadata": plan}), expected)


def test_the_order_of_pages(call):
    inputs, expected = call
    for seed in range(3):
        assert same_bits(attend(pages_moved(inputs, torch.Generator().manual_seed(seed))), expected)


def test_the_order_of_sequences(call):
    inputs, (out, lse) = call
    batch = len(inputs["seqused_kv"])
    for seed in range(3):
        order = torch.randperm(batch, generator=torch.Generator().manual_seed(seed)).tolist()
        moved, token = sequences_taken(inputs, order)
        assert same_bits(attend(moved), (out[token], lse[:, token]))


def test_a_sequence_alone(call):
    inputs, (out, lse) = call
    for batch in range(len(inputs["seqused_kv"])):
        alone, token = sequences_taken(inputs, [batch])
        assert same_bits(attend(alone), (out[token], lse[:, token]))


def test_a_head_alone_equals_itself_in_its_group(call):
    inputs, (out, lse) = call
    group = inputs["query"].shape[1] // inputs["key"].shape[1]
    for head in range(inputs["query"].shape[1]):
        one, one_kv = slice(head, head + 1), slice(head // group, head // group + 1)
        alone = {name: inputs[name][:, one] for name in ("query", "q_descale", "sparse_indices", "sparse_seq_len")}
        alone |= {name: inputs[name][:, one_kv] for name in PAGED} | {"v_descale": inputs["v_descale"][one_kv]}
        assert same_bits(attend(inputs | alone), (out[:, one], lse[one]))


def test_a_group_becomes_heads_of_their_own(call):
    """KV heads repeated for each query head: the same as sharing them."""
    inputs, expected = call
    heads_q, heads_kv = inputs["query"].shape[1], inputs["key"].shape[1]
    group = heads_q // heads_kv

    def repeated(tensor, dim):
        payload = tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
        return payload.repeat_interleave(group, dim).view(tensor.dtype)

    own = {name: repeated(inputs[name], 1) for name in PAGED} | {"v_descale": repeated(inputs["v_descale"], 0)}
    assert same_bits(attend(inputs | own), expected)


@pytest.mark.parametrize("seed", range(4))
def test_all_of_it_at_once(call, seed):
    inputs, (out, lse) = call
    generator = torch.Generator().manual_seed(10 + seed)
    order = torch.randperm(len(inputs["seqused_kv"]), generator=generator).tolist()
    moved, token = sequences_taken(pages_moved(inputs, generator), order)
    cores = int(torch.randint(1, 73, (), generator=generator))
    moved["metadata"] = planned_for(moved, cores)
    for name in BY_TOKEN:
        moved[name] = moved[name].transpose(0, 1).contiguous()
    try:
        library.current().set_threads(1 + seed)
        assert same_bits(attend(moved | {"layout_q": "NTD"}), (out[token], lse[:, token]))
    finally:
        library.current().set_threads(0)
