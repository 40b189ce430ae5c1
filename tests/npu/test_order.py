"""Order on the device: behind producers, on two streams, with the scheduler on its own stream, in captured graphs."""

import gc
import os
import re
import time
from pathlib import Path

import cases
import pytest
import qbsa
import torch
from cases import Case
from device import DEVICE, attend, moved

CASE = Case("order", (6, 2), (300, 1, 140), (500, 129, 70), "random", 3)
SLOW_MS = 300
TASK_QUEUE = os.environ.get("TASK_QUEUE_ENABLE", "1")
can_capture = pytest.mark.skipif(TASK_QUEUE == "2", reason="torch_npu captures no graph with TASK_QUEUE_ENABLE=2")


def inputs_of(seed):
    """The same shapes for every seed; lists and lengths as seed 1 has them."""
    first, other = (cases.make_inputs(CASE.__class__(**{**CASE.__dict__, "seed": s})) for s in (1, seed))
    names = ("query", "key", "value", "q_descale", "k_descale", "v_descale")
    return first | {name: other[name] for name in names}


def bits(result):
    return [x.cpu().view(torch.uint8) for x in result]


def same(result, expected):
    return all(torch.equal(x, y) for x, y in zip(bits(result), bits(expected), strict=True))


@pytest.fixture(scope="module")
def expected():
    return {seed: qbsa.quant_block_sparse_attn(**inputs_of(seed)) for seed in (1, 2)}


def pinned(tensor):
    return tensor.view(torch.uint8).pin_memory() if tensor.dtype == torch.float8_e4m3fn else tensor.pin_memory()


def send(target, source):
    """A copy that the host does not wait for."""
    view = target.view(torch.uint8) if target.dtype == torch.float8_e4m3fn else target
    view.copy_(source, non_blocking=True)


@pytest.mark.parametrize("slow", [{"host_ms": SLOW_MS}, {"stream_ms": SLOW_MS}], ids=["task queue", "stream"])
def test_a_slow_producer_queued_before(virtual, expected, slow):
    device_inputs, new_query = moved(inputs_of(2)), pinned(inputs_of(2)["query"])
    send(device_inputs["query"], pinned(inputs_of(1)["query"]))  # another query, which the slow copy replaces
    torch.npu.synchronize()
    virtual.slow_copies(**slow)
    started = time.monotonic()
    send(device_inputs["query"], new_query)
    result = qbsa.quant_block_sparse_attn(**device_inputs)
    waited_ms = (time.monotonic() - started) * 1000
    virtual.slow_copies()
    assert same(result, expected[2])
    if TASK_QUEUE != "0" or "stream_ms" in slow:
        assert waited_ms < SLOW_MS / 2, "the host waited for the device"


def test_metadata_then_attention(expected):
    device_inputs = moved(inputs_of(1))
    metadata = qbsa.quant_block_sparse_attn_metadata(
        device_inputs["sparse_seq_len"], 6, 2, 128, cu_seqlens_q=device_inputs["cu_seqlens_q"]
    )
    assert metadata.device == DEVICE
    assert same(qbsa.quant_block_sparse_attn(**device_inputs, metadata=metadata), expected[1])
    qbsa.check_plan(metadata, batch=3, heads_q=6, q_blocks=3)


def test_the_scheduler_on_its_own_stream(virtual, expected, monkeypatch):
    monkeypatch.setenv("QBSA_SCHEDULE_STREAM", "own")
    device_inputs = moved(inputs_of(1))
    lengths = device_inputs["sparse_seq_len"]
    right = pinned(lengths.cpu())
    send(lengths, pinned(torch.zeros_like(right)))
    torch.npu.synchronize()
    virtual.slow_copies(stream_ms=SLOW_MS)
    send(lengths, right)
    result = qbsa.quant_block_sparse_attn(**device_inputs)
    virtual.slow_copies()
    metadata = qbsa.quant_block_sparse_attn_metadata(lengths, 6, 2, 128, cu_seqlens_q=device_inputs["cu_seqlens_q"])
    assert same(result, expected[1]) and qbsa.plan.read_plan(metadata).total_cost > 0


def test_an_unknown_schedule_stream(monkeypatch):
    monkeypatch.setenv("QBSA_SCHEDULE_STREAM", "mine")
    with pytest.raises(ValueError, match="QBSA_SCHEDULE_STREAM must be one of current, own; got 'mine'"):
        qbsa.quant_block_sparse_attn(**moved(inputs_of(1)))


def test_two_streams_do_not_wait_for_each_other(virtual, expected):
    slow, fast = torch.npu.Stream(DEVICE), torch.npu.Stream(DEVICE)
    on_slow, on_fast, new_query = moved(inputs_of(2)), moved(inputs_of(1)), pinned(inputs_of(2)["query"])
    torch.npu.synchronize()
    virtual.slow_copies(stream_ms=SLOW_MS)
    with torch.npu.stream(slow):
        send(on_slow["query"], new_query)
        slow_result = qbsa.quant_block_sparse_attn(**on_slow)
        slow_done = torch.npu.Event()
        slow_done.record()
    virtual.slow_copies()
    with torch.npu.stream(fast):
        fast_result = qbsa.quant_block_sparse_attn(**on_fast)
        fast_done = torch.npu.Event()
        fast_done.record()
    fast_done.synchronize()
    assert not slow_done.query()
    slow_done.synchronize()
    assert same(fast_result, expected[1]) and same(slow_result, expected[2])


def test_a_stream_that_waits_for_an_event(virtual, expected):
    producer, consumer = torch.npu.Stream(DEVICE), torch.npu.Stream(DEVICE)
    device_inputs, new_query = moved(inputs_of(1)), pinned(inputs_of(2)["query"])
    rest = moved({name: inputs_of(2)[name] for name in ("key", "value", "q_descale", "k_descale", "v_descale")})
    torch.npu.synchronize()
    virtual.slow_copies(stream_ms=SLOW_MS)
    with torch.npu.stream(producer):
        send(device_inputs["query"], new_query)
    consumer.wait_stream(producer)
    with torch.npu.stream(consumer):
        result = qbsa.quant_block_sparse_attn(**device_inputs | rest)
    consumer.synchronize()
    assert same(result, expected[2])


def test_arguments_may_go_right_after_the_call(virtual, expected):
    virtual.slow_copies(stream_ms=100)
    results = []
    for seed in (1, 2, 1, 2):
        results.append(qbsa.quant_block_sparse_attn(**moved(inputs_of(seed))))
        gc.collect()
    virtual.slow_copies()
    assert all(same(result, expected[seed]) for result, seed in zip(results, (1, 2, 1, 2), strict=True))


@can_capture
@pytest.mark.parametrize("planned", [False, True], ids=["plans inside", "plan given"])
def test_capture_and_replay_with_other_data(virtual, expected, planned):
    static = moved(inputs_of(1))
    if planned:
        static["metadata"] = qbsa.quant_block_sparse_attn_metadata(
            static["sparse_seq_len"], 6, 2, 128, cu_seqlens_q=static["cu_seqlens_q"]
        )
    attend(inputs_of(1))  # loads and warms up outside of the capture
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    before = virtual.kernels()
    with torch.npu.graph(graph):
        result = qbsa.quant_block_sparse_attn(**static)
    torch.npu.synchronize()
    assert virtual.kernels() == before, "a capture runs nothing"
    for seed in (1, 2, 1):
        for name, tensor in inputs_of(seed).items():
            if isinstance(tensor, torch.Tensor):
                send(static[name], pinned(tensor))
        graph.replay()
        assert same(result, expected[seed])
    torch.npu.synchronize()
    assert virtual.kernels() == before + 3 * (1 if planned else 2)


@can_capture
def test_a_plan_captured_with_its_own_stream(virtual, expected, monkeypatch):
    monkeypatch.setenv("QBSA_SCHEDULE_STREAM", "own")
    static = moved(inputs_of(2))
    attend(inputs_of(1))
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = qbsa.quant_block_sparse_attn(**static)
    graph.replay()
    assert same(result, expected[2])


@can_capture
def test_the_example_of_the_documentation():
    page = Path(__file__).parents[2] / "docs" / "npu.md"
    (example,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    query = inputs_of(2)["query"]
    names = {"torch": torch, "qbsa": qbsa, "heads_q": 6, "heads_kv": 2}
    names |= {"static": moved(inputs_of(1)), "next_query": query}
    exec(compile(example, page.name, "exec"), names)
    assert same((names["out"], names["lse"]), qbsa.quant_block_sparse_attn(**inputs_of(1) | {"query": query}))
