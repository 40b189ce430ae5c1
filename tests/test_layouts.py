"""The same data in another layout gives the same bits: strides, interleaved caches, shared pages, 64-bit addresses.

Everything runs on the checked twin, which knows the bytes of each tensor and the parameter ranges of each device call.
"""

import contextlib
import ctypes
import mmap
import os
import threading

import cases
import pytest
import qbsa
import reference
import torch
from cases import PITCH_LIMIT, Case, fill, with_strides
from qbsa import backend, compare, library

CACHE = ("key", "value", "k_descale")
BEYOND_INT32 = 2**31
MAP_NORESERVE, MAP_FIXED = 0x4000, 0x10  # of Linux; Python names the first from 3.11 on
CASE = Case("", (6, 2), (300, 1, 140, 0, 33), (500, 129, 70, 40, 33), "random", 3, table="shuffled")


@pytest.fixture(autouse=True)
def checked():
    with library.mode("checked"):
        yield


@pytest.fixture(scope="module")
def inputs():
    return cases.make_inputs(CASE)


@pytest.fixture(scope="module")
def expected(inputs):
    out, lse = qbsa.quant_block_sparse_attn(**inputs)
    compare.check(compare.against_chain(out, lse, reference.fp8_chain(**inputs), inputs))
    return out, lse


def check(inputs, expected, **changes):
    result = qbsa.quant_block_sparse_attn(**(inputs | changes))
    assert all(torch.equal(as_bytes(x), as_bytes(y)) for x, y in zip(result, expected, strict=True))


def as_bytes(tensor):
    return tensor.contiguous().view(torch.uint8)


def interleaved(tensors, gaps=(0, 0, 0), by_token=False):
    """Views of one cache that holds, for each page, K, V and scales, with gaps of NaN bytes behind each."""
    sections, total = [], 0
    for x, gap in zip(tensors, gaps, strict=True):
        sections.append(total)
        total += x[0].nbytes + gap
    cache = torch.full((len(tensors[0]), total), 0xFF, dtype=torch.uint8)
    views = []
    for x, begin in zip(tensors, sections):
        part = cache[:, begin : begin + x[0].nbytes].view(x.dtype)
        shape = (x.shape[2], x.shape[1], x.shape[3]) if by_token else x.shape[1:]
        view = part.unflatten(1, shape)
        views.append(view.transpose(1, 2) if by_token else view)
        views[-1].copy_(x)
    return dict(zip(CACHE, views))


@pytest.mark.parametrize("layout_q", ["TND", "NTD"])
def test_query_layouts(inputs, expected, layout_q):
    """Query by tokens or by heads, each also with gaps after rows, and scales in the other order than the query."""
    order = (0, 1) if layout_q == "TND" else (1, 0)
    query, q_descale = (inputs[name].transpose(0, 1) if order[0] else inputs[name] for name in ("query", "q_descale"))
    outer, inner = query.shape[:2]
    for strides in ((inner * 128, 128), (inner * 128 + 64, 128), (inner * 192, 192), (128, outer * 128)):
        for scale_strides in ((inner, 1), (1, outer), (inner + 3, 1), (1, outer + 5), (3 * inner, 3)):
            changes = {"query": with_strides(query, (*strides, 1)), "q_descale": with_strides(q_descale, scale_strides)}
            check(inputs, expected, **changes, layout_q=layout_q)


@pytest.mark.parametrize("by_token", [False, True], ids=["HND", "NHD"])
@pytest.mark.parametrize("gaps", [(0, 0, 0), (0, 0, 96), (32, 4, 64), (4, 64, 512)])
def test_interleaved_caches(inputs, expected, by_token, gaps):
    check(inputs, expected, **interleaved([inputs[name] for name in CACHE], gaps, by_token))


def test_separate_caches_of_different_layouts(inputs, expected):
    pages, heads, tokens, columns = inputs["key"].shape
    page = heads * tokens * columns
    by_head = (page, tokens * columns, columns, 1)
    by_token = (page, columns, heads * columns, 1)
    heads_outside = (tokens * columns, pages * tokens * columns, columns, 1)
    scale_orders = ((heads * tokens, tokens, 1, 1), (heads * tokens, 1, heads, 1), (tokens, pages * tokens, 1, 1))
    for key, value, scale in ((by_head, by_token, 0), (by_token, heads_outside, 1), (heads_outside, by_head, 2)):
        check(
            inputs,
            expected,
            key=with_strides(inputs["key"], key),
            value=with_strides(inputs["value"], value),
            k_descale=with_strides(inputs["k_descale"], scale_orders[scale]),
        )


def test_lists_and_tables_that_are_not_contiguous(inputs, expected):
    def spread(tensor, factor, reverse):
        order = range(tensor.dim()) if reverse else reversed(range(tensor.dim()))
        strides, step = [0] * tensor.dim(), factor
        for dim in order:
            strides[dim], step = step, step * tensor.shape[dim] + factor
        return with_strides(tensor, strides)

    for factor in (1, 2, 5):
        for reverse in (False, True):
            names = ("sparse_indices", "sparse_seq_len", "block_table")
            check(inputs, expected, **{name: spread(inputs[name], factor, reverse) for name in names})


def test_a_longer_table_and_longer_lists_change_nothing(inputs, expected):
    longer = {name: torch.cat([inputs[name]] * 3, dim=-1) for name in ("block_table", "sparse_indices")}
    check(inputs, expected, **longer)


def test_expanded_tensors():
    """Stride 0 anywhere but in the last dimension: the same as a copy."""
    inputs = cases.make_inputs(Case("", (4, 2), (70, 40), (200, 131), "dense", 0))
    for name, dims in {
        **{"query": (0, 1), "q_descale": (0, 1), "key": (0, 1, 2), "value": (0, 1, 2), "k_descale": (0, 1, 2)},
        **{"sparse_indices": (1,), "sparse_seq_len": (1,), "block_table": (0,)},
    }.items():
        for dim in dims:
            expanded = inputs[name].narrow(dim, 0, 1).expand_as(inputs[name])
            assert expanded.stride(dim) == 0
            copied = qbsa.quant_block_sparse_attn(**(inputs | {name: expanded.contiguous()}))
            check(inputs | {name: expanded}, copied)


@pytest.mark.parametrize("pitch", [PITCH_LIMIT // 2, PITCH_LIMIT // 2 + 1, PITCH_LIMIT, PITCH_LIMIT + 1, 200_000])
def test_row_pitches_around_the_limit_of_the_device(pitch):
    """Pairs of value rows fit to half the limit, rows to the limit; beyond, rows come one by one."""
    inputs = cases.make_inputs(Case("", (2, 1), (70,), (191,), "dense", 0))
    expected = qbsa.quant_block_sparse_attn(**inputs)
    page = 128 * pitch
    for name in ("query", "key", "value"):
        strides = (pitch, 128, 1) if name == "query" else (page, 128, pitch, 1)
        check(inputs, expected, **{name: with_strides(inputs[name], strides)})


def test_so_many_heads_that_rows_are_far_apart():
    """520 heads by tokens: a pitch of 66,560; 300 KV heads by tokens: 38,400, more than half the limit."""
    many_q = cases.make_inputs(Case("", (520, 40), (3,), (5,), "dense", 0))
    out, lse = qbsa.quant_block_sparse_attn(**many_q)
    compare.check(compare.against_chain(out, lse, reference.fp8_chain(**many_q), many_q))
    many_kv = cases.make_inputs(Case("", (300, 300), (2,), (130,), "dense", 0))
    expected = qbsa.quant_block_sparse_attn(**many_kv)
    by_token = {name: many_kv[name].transpose(1, 2).contiguous().transpose(1, 2) for name in ("key", "value")}
    check(many_kv, expected, **by_token)


def test_pages_shared_between_sequences():
    """Two sequences with a common prefix name the same pages; each gives what it gives on pages of its own."""
    shared = cases.make_inputs(Case("", (4, 2), (70, 70), (300, 280), "dense", 0))
    shared["block_table"] = torch.tensor([[0, 1, 2], [0, 1, 3]], dtype=torch.int32)
    own = dict(shared)
    for name in CACHE:
        pages = as_bytes(shared[name])[[0, 1, 2, 0, 1, 3]]
        own[name] = pages.view(shared[name].dtype).reshape(6, *shared[name].shape[1:])
    own["block_table"] = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    check(shared, qbsa.quant_block_sparse_attn(**own))


# --- addresses beyond 2^31 elements: mappings of which only the touched pages exist ---


def sparse_bytes(size):
    """uint8 [size], all 0; takes memory only where it is written."""
    area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    return torch.frombuffer(area, dtype=torch.uint8)


def moved(tensor, strides):
    """The values of tensor in a sparse mapping by strides; beyond 2^31 elements."""
    size = tensor.element_size()
    extent = 1 + sum((length - 1) * stride for length, stride in zip(tensor.shape, strides))
    assert extent > BEYOND_INT32
    return fill(sparse_bytes(extent * size).view(tensor.dtype).as_strided(tensor.shape, strides), tensor)


@pytest.mark.parametrize("name", [*CACHE, "query", "q_descale", "sparse_indices", "sparse_seq_len", "block_table"])
def test_strides_beyond_int32(name):
    """Each tensor alone stretched over more than 2^31 elements, each of its outer dimensions in turn."""
    inputs = cases.make_inputs(Case("", (4, 2), (70, 40), (200, 131), "random", 1, table="shuffled"))
    expected = qbsa.quant_block_sparse_attn(**inputs)
    tensor = inputs[name]
    for dim in range(tensor.dim() - (1 if name in ("query", "key", "value") else 0)):
        if tensor.shape[dim] == 1:
            continue
        strides = list(tensor.stride())
        strides[dim] = BEYOND_INT32 // (tensor.shape[dim] - 1) + 4096
        check(inputs, expected, **{name: moved(tensor, strides)})


def test_a_contiguous_cache_of_more_than_2_31_elements():
    inputs = cases.make_inputs(Case("", (2, 1), (70,), (300,), "dense", 0))
    expected = qbsa.quant_block_sparse_attn(**inputs)
    pages = BEYOND_INT32 // (128 * 128) + 3
    ids = torch.tensor([pages - 1, 1, BEYOND_INT32 // (128 * 128)])
    changes = {"block_table": ids.int()[None]}
    for name in CACHE:
        shape = (pages, *inputs[name].shape[1:])
        elements = torch.Size(shape).numel()
        big = sparse_bytes(elements * inputs[name].element_size()).view(inputs[name].dtype).reshape(shape)
        for block, page in enumerate(ids):
            big[page].copy_(inputs[name][inputs["block_table"][0, block]])
        changes[name] = big
    assert changes["key"].numel() > BEYOND_INT32 and changes["key"].is_contiguous()
    check(inputs, expected, **changes)


def test_a_result_of_more_than_2_31_elements(monkeypatch):
    """The tokens of one sequence behind millions that belong to none, in out and lse.

    The rows of the latter are written too; so that they take no memory, all of out but its end is the same 64 MiB,
    mapped again and again, and unmapped while the call runs, lest they count again and again as resident.
    """
    inputs = cases.make_inputs(Case("", (16, 1), (70,), (200,), "dense", 0))
    expected_out, expected_lse = qbsa.quant_block_sparse_attn(**inputs)
    heads, rows = 16, 70
    tokens = BEYOND_INT32 // (heads * 128) + 1000
    whole = repeated_bytes(tokens * heads * 128 * 2)
    out = whole.view(torch.bfloat16).reshape(tokens, heads, 128)
    lse = torch.zeros(heads, tokens)
    monkeypatch.setattr(backend, "_outputs", lambda problem: (out, lse))
    changes = {"cu_seqlens_q": torch.tensor([tokens - rows, tokens], dtype=torch.int32)}
    for name, columns in (("query", 128), ("q_descale", 4)):
        big = sparse_bytes(tokens * heads * columns).view(inputs[name].dtype)
        changes[name] = big.reshape(tokens, *inputs[name].shape[1:])
        changes[name][tokens - rows :].copy_(inputs[name])
    assert changes["query"].numel() > BEYOND_INT32
    with library.mode("fast"), dropped_pages(whole):
        qbsa.quant_block_sparse_attn(**(inputs | changes))
    assert torch.equal(out[tokens - rows :], expected_out) and not out[tokens - rows - 64 : tokens - rows].any()
    assert torch.equal(lse[:, tokens - rows :], expected_lse)
    assert bool((lse[:, : tokens - rows] == compare.EMPTY_LSE).all())


CHUNK = 64 * 2**20


def repeated_bytes(size):
    """uint8 [size] on CHUNK bytes of memory, mapped again and again, and more memory for the last two chunks."""
    size_mapped = -(-size // CHUNK) * CHUNK
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    failed = ctypes.c_void_p(-1).value
    read_write, anonymous = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = libc.mmap(None, size_mapped, read_write, anonymous | MAP_NORESERVE, -1, 0)
    assert base != failed
    memory = os.memfd_create("out")
    os.ftruncate(memory, CHUNK)
    for begin in range(0, size_mapped - 2 * CHUNK, CHUNK):
        assert libc.mmap(base + begin, CHUNK, read_write, mmap.MAP_SHARED | MAP_FIXED, memory, 0) != failed
    os.close(memory)
    return torch.frombuffer((ctypes.c_uint8 * size).from_address(base), dtype=torch.uint8)


@contextlib.contextmanager
def dropped_pages(whole):
    """Keeps the pages of repeated_bytes, but for the last two chunks, out of the page table."""
    done = threading.Event()
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def drop():
        while not done.wait(0.02):
            assert madvise(whole.data_ptr(), (len(whole) // CHUNK - 2) * CHUNK, mmap.MADV_DONTNEED) == 0

    thread = threading.Thread(target=drop)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_addresses_are_multiples_of_the_element_size():
    inputs = cases.make_inputs(Case("", (2, 1), (7,), (30,), "dense", 0))
    storage = bytearray(inputs["seqused_kv"].nbytes + 1)
    odd = torch.frombuffer(storage, dtype=torch.int32, offset=1)
    with pytest.raises(ValueError, match="^seqused_kv must begin at a multiple of its element size, 4 bytes; got"):
        qbsa.quant_block_sparse_attn(**(inputs | {"seqused_kv": odd}))
