"""metadata/launch.aicpu, compiled for the host: the plans of qbsa_schedule, and what bad arguments do."""

import ctypes

import cases
import host_library
import pytest
import qbsa
import torch
import workloads
from qbsa import library, plan


@pytest.fixture(scope="module")
def aicpu():
    return host_library.build("aicpu_library.cpp", f"-I{host_library.ROOT / 'tests' / 'aicpu'}")


def launch(aicpu, workload, cores, max_kv_splits, **changes):
    """Result of the kernel, the plan, and its first word when it was published."""
    metadata = torch.full((library.plan_words(max_kv_splits),), 0x5A5A5A5A, dtype=torch.int32)
    values = workloads.schedule_args(workload, cores, max_kv_splits, metadata) | changes
    kind = library.contract().records["ScheduleArgs"]
    args = kind(*(values[field] for field, _ in kind._fields_))
    word, barriers = ctypes.c_int32(), ctypes.c_int32()
    result = aicpu.launch_aicpu(ctypes.byref(args), ctypes.sizeof(args), ctypes.byref(word), ctypes.byref(barriers))
    assert barriers.value == 1
    return result, metadata, word.value


@pytest.mark.parametrize("max_kv_splits", [0, 1, 3])
def test_plans_are_those_of_the_host(aicpu, max_kv_splits):
    for workload in workloads.committed():
        if workload.tasks > 4096:
            continue
        for cores in (1, 32, 72):
            result, metadata, word = launch(aicpu, workload, cores, max_kv_splits)
            assert result == 0 and word == library.contract().constants["kPlanMagic"]
            assert torch.equal(metadata, workloads.make_plan(workload, cores, max_kv_splits)), workload.name


@pytest.mark.parametrize("changes", [{"cores": 0}, {"cores": 73}, {"cores": -1}, {"batch": -1}, {"heads_kv": 2}])
def test_bad_arguments_leave_a_plan_that_is_refused(aicpu, changes):
    inputs = cases.make_inputs(cases.Case("", (1, 1), (130,), (256,), "dense", 2))
    workload = workloads.Workload(inputs["sparse_seq_len"], 1, inputs["cu_seqlens_q"])
    result, metadata, word = launch(aicpu, workload, **{"cores": 4, "max_kv_splits": 1} | changes)
    assert result != 0 and word == 0
    with pytest.raises(ValueError, match="magic"):
        plan.read_plan(metadata)
    with pytest.raises(RuntimeError, match="metadata"):
        qbsa.quant_block_sparse_attn(**inputs | {"metadata": metadata})
