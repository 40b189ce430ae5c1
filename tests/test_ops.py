"""The operators as torch and users see them: signatures, shapes, devices, plans, choice of the library.

Numerics have their own tests; nothing here depends on what attention computes.
"""

import ctypes
import inspect
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import qbsa
import torch
from qbsa import backend, cli, isa, library, schema
from small_call import (
    BATCH,
    CAPACITY,
    HEADS_KV,
    HEADS_Q,
    PER_HEAD_AND_BLOCK,
    Q_BLOCKS,
    TOKENS,
    WIDTH,
    attention_arguments,
    float32,
    fp8,
    int32,
    metadata_arguments,
)
from torch._subclasses import FakeTensorMode
from torch.library import opcheck

ATTENTION = torch.ops.qbsa.quant_block_sparse_attn.default
METADATA = torch.ops.qbsa.quant_block_sparse_attn_metadata.default
EMPTY_LSE = -3.4028234663852886e38


def test_numpy_scalars_are_numbers():
    arguments = attention_arguments(softmax_scale=np.float32(0.1), sparse_q_block_size=np.int64(128))
    wanted = attention_arguments(softmax_scale=float(np.float32(0.1)))
    assert torch.equal(qbsa.quant_block_sparse_attn(**arguments)[0], qbsa.quant_block_sparse_attn(**wanted)[0])


@pytest.mark.parametrize("function", [qbsa.quant_block_sparse_attn, qbsa.quant_block_sparse_attn_metadata])
def test_signature_is_the_schema(function):
    text = {"quant_block_sparse_attn": schema.ATTENTION}.get(function.__name__, schema.METADATA)
    parameters = inspect.signature(function).parameters
    assert list(parameters) == list(schema.argument_types(text))
    assert {p.name: p.default for p in parameters.values() if p.kind is p.KEYWORD_ONLY} == schema.defaults(text)
    for name in parameters:
        assert name in function.__doc__


def test_outputs():
    out, lse = qbsa.quant_block_sparse_attn(**attention_arguments())
    assert (out.shape, out.dtype, lse) == ((TOKENS, HEADS_Q, 128), torch.bfloat16, None)
    again, lse = qbsa.quant_block_sparse_attn(**attention_arguments(return_softmax_lse=True))
    assert (lse.shape, lse.dtype) == ((HEADS_Q, TOKENS), torch.float32)
    assert torch.equal(out, again) and out.isfinite().all() and out.any()
    operator_out, no_lse = ATTENTION(**attention_arguments())
    assert no_lse.shape == (0,) and torch.equal(out, operator_out)


def test_arguments_are_not_written():
    arguments = attention_arguments()
    before = {name: x.clone() for name, x in arguments.items() if isinstance(x, torch.Tensor)}
    qbsa.quant_block_sparse_attn(**arguments, return_softmax_lse=True)
    for name, x in before.items():
        assert torch.equal(x.view(torch.uint8), arguments[name].view(torch.uint8)), name


def interleaved(*tensors):
    """Views of one cache that holds, for each page, the bytes of all tensors and a gap."""
    gap = torch.full((len(tensors[0]), 64), 255, dtype=torch.uint8)
    cache = torch.cat([*(x.flatten(1).view(torch.uint8) for x in tensors), gap], dim=1)
    sections = cache.split([*(x[0].nbytes for x in tensors), 64], dim=1)
    return [section.view(x.dtype).unflatten(1, x.shape[1:]) for section, x in zip(sections, tensors)]


def test_layout_of_the_query_and_strides_do_not_change_a_bit():
    arguments = attention_arguments(return_softmax_lse=True)
    expected = qbsa.quant_block_sparse_attn(**arguments)

    def strided(x):
        """The same values, the stride of the first dimension doubled."""
        return torch.cat([x, x], dim=1)[:, : x.shape[1]]

    changes = {name: strided(arguments[name]) for name in ("key", "value", "k_descale", "block_table", "q_descale")}
    changes |= {name: strided(arguments[name]) for name in ("query", "sparse_indices", "sparse_seq_len")}
    names = ("key", "value", "k_descale")
    cache = dict(zip(names, interleaved(*(arguments[name] for name in names))))
    by_token = {name: arguments[name].transpose(1, 2).contiguous().transpose(1, 2) for name in ("key", "value")}
    by_head = {name: arguments[name].transpose(0, 1).contiguous() for name in ("query", "q_descale")}
    for changed in (changes, cache, by_token, by_head | {"layout_q": "NTD"}):
        for result, wanted in zip(qbsa.quant_block_sparse_attn(**(arguments | changed)), expected, strict=True):
            assert torch.equal(result, wanted)


@pytest.mark.parametrize("axis", ["B", "P", "Kb", "L", "Qb"])
def test_nothing_to_attend_to_gives_sentinels(axis):
    changes = {
        "B": {
            "sparse_indices": int32(0, HEADS_Q, Q_BLOCKS, CAPACITY),
            "sparse_seq_len": int32(0, HEADS_Q, Q_BLOCKS),
            "cu_seqlens_q": int32(1),
            "seqused_kv": int32(0),
            "block_table": int32(0, WIDTH),
        },
        "P": {
            "key": fp8(0, HEADS_KV, 128, 128),
            "value": fp8(0, HEADS_KV, 128, 128),
            "k_descale": float32(0, HEADS_KV, 128, 1),
        },
        "Kb": {"sparse_indices": int32(*PER_HEAD_AND_BLOCK, 0)},
        "L": {"block_table": int32(BATCH, 0)},
        "Qb": {
            "sparse_indices": int32(BATCH, HEADS_Q, 0, CAPACITY),
            "sparse_seq_len": int32(BATCH, HEADS_Q, 0),
        },
    }[axis]
    out, lse = qbsa.quant_block_sparse_attn(**attention_arguments(**changes, return_softmax_lse=True))
    assert out.shape == (TOKENS, HEADS_Q, 128) and not out.any()
    assert lse.shape == (HEADS_Q, TOKENS) and (lse == EMPTY_LSE).all()


def test_no_query_tokens():
    changes = {"query": fp8(0, HEADS_Q, 128), "q_descale": float32(0, HEADS_Q), "cu_seqlens_q": int32(BATCH + 1)}
    out, lse = qbsa.quant_block_sparse_attn(**attention_arguments(**changes, return_softmax_lse=True))
    assert out.shape == (0, HEADS_Q, 128) and lse.shape == (HEADS_Q, 0)


# --- plans ---


def test_plan_given_or_made_within_the_call():
    arguments = attention_arguments()
    plan = qbsa.quant_block_sparse_attn_metadata(**metadata_arguments(cu_seqlens_q=arguments["cu_seqlens_q"]))
    qbsa.check_plan(plan, batch=BATCH, heads_q=HEADS_Q, q_blocks=Q_BLOCKS)
    assert torch.equal(
        qbsa.quant_block_sparse_attn(**arguments, metadata=plan)[0], qbsa.quant_block_sparse_attn(**arguments)[0]
    )


@pytest.mark.parametrize("batch, q_blocks", [(0, 2), (3, 0)])
def test_plan_of_no_tasks(batch, q_blocks):
    plan = qbsa.quant_block_sparse_attn_metadata(int32(batch, HEADS_Q, q_blocks), HEADS_Q, HEADS_KV, 128)
    qbsa.check_plan(plan, batch=batch, heads_q=HEADS_Q, q_blocks=q_blocks)
    assert "= 0 tasks" in qbsa.show_plan(plan)


@pytest.mark.parametrize("max_kv_splits", [0, 1, 2, 1000])
def test_plan_has_one_of_two_sizes(max_kv_splits):
    constants = library.contract().constants
    plan = qbsa.quant_block_sparse_attn_metadata(**metadata_arguments(max_kv_splits=max_kv_splits))
    assert plan.numel() == constants["kPlanWords" if max_kv_splits == 1 else "kSplitPlanWords"]
    qbsa.check_plan(plan, batch=BATCH, heads_q=HEADS_Q, q_blocks=Q_BLOCKS)


def test_foreign_plan_is_refused():
    arguments = attention_arguments()
    other = qbsa.quant_block_sparse_attn_metadata(int32(BATCH, HEADS_Q, Q_BLOCKS + 1), HEADS_Q, HEADS_KV, 128)
    for plan in (other, torch.zeros_like(other), torch.full_like(other, -1)):
        with pytest.raises(RuntimeError, match="metadata|plan"):
            qbsa.quant_block_sparse_attn(**arguments, metadata=plan)


def with_word(plan, record, field, value, index=0):
    """A copy of plan with one field of its header or of a core's record replaced (of an int64: the low half)."""
    records = library.contract().records
    header = ctypes.sizeof(records["PlanHeader"]) if record == "CorePlan" else 0
    offset = header + index * ctypes.sizeof(records[record]) + getattr(records[record], field).offset
    changed = plan.clone()
    changed[offset // 4] = value
    return changed


def test_check_plan_names_what_is_wrong():
    plan = qbsa.quant_block_sparse_attn_metadata(**metadata_arguments())
    sizes = {"batch": BATCH, "heads_q": HEADS_Q, "q_blocks": Q_BLOCKS}
    qbsa.check_plan(plan, **sizes)
    for field in ("magic", "version", "words", "cores", "batch", "heads_q", "q_blocks", "total_cost", "max_cost"):
        with pytest.raises(ValueError, match=f"header field {field} must be .*; got 12345"):
            qbsa.check_plan(with_word(plan, "PlanHeader", field, 12345), **sizes)
    for field, message in (
        ("task_begin", r"metadata core 0 must go on from \(task, pair\) \(0, 0\)"),
        ("task_end", "core"),
    ):
        with pytest.raises(ValueError, match=message):
            qbsa.check_plan(with_word(plan, "CorePlan", field, 12345), **sizes)
    with pytest.raises(ValueError, match=r"metadata header field heads_q must be 5; got 4"):
        qbsa.check_plan(plan, **(sizes | {"heads_q": 5}))
    for other in (plan.long(), plan[None], plan[:4], plan[:-1]):
        with pytest.raises(ValueError, match="^metadata "):
            qbsa.check_plan(other, **sizes)


def test_show_plan_and_the_command_line(tmp_path, capsys):
    plan = qbsa.quant_block_sparse_attn_metadata(**metadata_arguments())
    text = qbsa.show_plan(plan)
    assert f"{BATCH} sequences x {HEADS_Q} heads x {Q_BLOCKS} query blocks = 16 tasks" in text
    assert "100%" in text
    torch.save(plan, tmp_path / "plan.pt")
    assert cli.main(["plan", str(tmp_path / "plan.pt")]) == 0
    assert capsys.readouterr().out == text + "\n"
    torch.save({"plan": plan}, tmp_path / "dict.pt")
    (tmp_path / "garbage.pt").write_bytes(b"no pickle")
    for name in ("dict.pt", "garbage.pt", "absent.pt"):
        assert cli.main(["plan", str(tmp_path / name)]) == 1
        assert capsys.readouterr().err.startswith("python -m qbsa plan: ")


def test_env_command_names_versions_and_library(capsys):
    assert cli.main(["env"]) == 0
    text = capsys.readouterr().out
    for part in (qbsa.__version__, torch.__version__, library.current().path.name):
        assert part in text


# --- torch ---


def operator_call():
    """Positional and keyword arguments of a call of the operator."""
    arguments = attention_arguments(return_softmax_lse=True)
    positional = [arguments.pop(name) for name in list(arguments)[:13]]
    return positional, arguments


def test_opcheck_attention():
    # torch's schema check cannot compare float8 tensors; test_arguments_are_not_written stands in for it.
    checks = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    opcheck(ATTENTION, *operator_call(), test_utils=checks)


def test_opcheck_metadata():
    arguments = metadata_arguments(cu_seqlens_q=attention_arguments()["cu_seqlens_q"])
    lengths = arguments.pop("sparse_seq_len")
    opcheck(METADATA, (lengths,), arguments)


def test_fake_tensors_have_the_right_shapes():
    with FakeTensorMode() as mode:
        arguments = {
            name: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for name, x in attention_arguments().items()
        }
        plan = qbsa.quant_block_sparse_attn_metadata(arguments["sparse_seq_len"], HEADS_Q, HEADS_KV, 128)
        out, lse = qbsa.quant_block_sparse_attn(**arguments, metadata=plan, return_softmax_lse=True)
        with pytest.raises(ValueError, match="^value must have dtype"):
            qbsa.quant_block_sparse_attn(**(arguments | {"value": arguments["value"].float()}))
    assert (out.shape, out.dtype, out.device.type) == ((TOKENS, HEADS_Q, 128), torch.bfloat16, "cpu")
    assert (lse.shape, lse.dtype) == ((HEADS_Q, TOKENS), torch.float32)
    assert plan.shape == qbsa.quant_block_sparse_attn_metadata(**metadata_arguments()).shape


def test_meta_tensors_have_the_right_shapes():
    arguments = {name: x.to("meta") if isinstance(x, torch.Tensor) else x for name, x in attention_arguments().items()}
    out, lse = qbsa.quant_block_sparse_attn(**arguments, return_softmax_lse=True)
    assert (out.shape, lse.shape, out.device.type) == ((TOKENS, HEADS_Q, 128), (HEADS_Q, TOKENS), "meta")


def test_compile_fullgraph_keeps_the_number_of_tokens_dynamic():
    def both(arguments):
        heads_q, heads_kv = arguments["query"].shape[1], arguments["key"].shape[1]
        plan = qbsa.quant_block_sparse_attn_metadata(arguments["sparse_seq_len"], heads_q, heads_kv, 128)
        return qbsa.quant_block_sparse_attn(**arguments, metadata=plan)[0]

    graphs = []

    def count(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(both, fullgraph=True, dynamic=True, backend=count)
    for tokens in (TOKENS, 190, 170):
        changes = {"query": fp8(tokens, HEADS_Q, 128), "q_descale": float32(tokens, HEADS_Q)}
        arguments = attention_arguments(**changes)
        assert torch.equal(compiled(arguments), both(arguments))
    assert len(graphs) == 1


def test_threads_get_the_same_bits():
    arguments = attention_arguments(return_softmax_lse=True)
    expected = qbsa.quant_block_sparse_attn(**arguments)
    start = threading.Barrier(4)

    def call(_):
        start.wait()
        return qbsa.quant_block_sparse_attn(**arguments)

    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(call, range(4)):
            assert all(torch.equal(x, y) for x, y in zip(result, expected, strict=True))


def test_importing_twice_is_harmless():
    script = """
import importlib, sys
import qbsa, torch
importlib.reload(qbsa.backend); importlib.reload(qbsa)
for name in [name for name in sys.modules if name.partition(".")[0] == "qbsa"]:
    del sys.modules[name]
del qbsa
import gc; gc.collect()
import qbsa
lengths = torch.ones(1, 1, 1, dtype=torch.int32)
qbsa.check_plan(qbsa.quant_block_sparse_attn_metadata(lengths, 1, 1, 128), batch=1, heads_q=1, q_blocks=1)
print("good")
"""
    assert run_python(script) == "good"


def test_npu_tensors_get_an_error_that_says_what_is_missing():
    for call, arguments in (
        (backend.attention_npu, schema.defaults(schema.ATTENTION) | attention_arguments()),
        (backend.metadata_npu, schema.defaults(schema.METADATA) | metadata_arguments()),
    ):
        with pytest.raises(RuntimeError, match=r"without an NPU part \(libqbsa_npu\.so .* pip install .* \.cpu\(\)"):
            call(**arguments)


def test_npu_tensors_reach_that_error_through_torch():
    """Tensors of a renamed private backend stand for NPU tensors: same dispatch key, no device."""
    script = """
import torch, qbsa
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
_setup_privateuseone_for_python_backend("npu")
lengths = torch._C._acc.create_empty_tensor((1, 1, 1), torch.int32)
try:
    qbsa.quant_block_sparse_attn_metadata(lengths, 1, 1, 128)
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""
    assert run_python(script).startswith("the tensors are on npu:0, but this installation of qbsa was built without")


def run_python(script, **environment):
    """stdout of a fresh interpreter, stripped."""
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


# --- the choice of the library ---


def test_newest_instruction_set_is_taken():
    assert library.current().path.name == isa.library_name(isa.supported()[-1], library.current_mode() == "checked")


def test_mode_by_context_and_environment():
    with library.mode("checked"):
        assert library.current().path.name.endswith("_checked.so")
        with library.mode("fast"):
            assert not library.current().path.name.endswith("_checked.so")
        assert library.current_mode() == "checked"
    script = "from qbsa import library; print(library.current().path.name)"
    assert run_python(script, QBSA_TWIN="checked").endswith("_checked.so")
    failing = "import qbsa\ntry: qbsa.library.current()\nexcept ValueError as e: print(e)"
    known = ", ".join(library.MODES)
    assert run_python(failing, QBSA_TWIN="quick") == f"QBSA_TWIN must be one of {known}; got 'quick'"
    with pytest.raises(ValueError, match="got 'quick'"), library.mode("quick"):
        pass


def test_mode_is_of_one_thread():
    with library.mode("checked"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(library.current_mode).result() == os.environ.get("QBSA_TWIN", "fast")


def test_threads_progress_and_report_of_the_twin():
    arguments = attention_arguments(return_softmax_lse=True)
    expected = qbsa.quant_block_sparse_attn(**arguments)
    with library.mode("checked"):
        twin = library.current()
        try:
            twin.set_threads(1)
            result = qbsa.quant_block_sparse_attn(**arguments)
        finally:
            twin.set_threads(0)
        report = twin.report()
    assert all(torch.equal(x, y) for x, y in zip(result, expected, strict=True))
    assert report["host_threads"] == 1
    assert all(function["calls"] > 0 and function["ops"] for function in report["vector_functions"].values())
    assert twin.progress() > 0
    with pytest.raises(RuntimeError, match="host_threads is -1"):
        twin.set_threads(-1)


def test_absent_library_says_what_there_is():
    with pytest.raises(RuntimeError, match=r"no fast twin for z80 in .*libqbsa_twin_.*make build"):
        library.load("fast", "z80")


@pytest.mark.parametrize("instruction_set", isa.supported())
def test_every_instruction_set_gives_the_same_bits(instruction_set, monkeypatch):
    arguments = attention_arguments(return_softmax_lse=True)
    expected = qbsa.quant_block_sparse_attn(**arguments)
    twin = library.load("fast", instruction_set)
    assert twin.contract.constants == library.contract().constants
    monkeypatch.setattr(library, "current", lambda: twin)
    for result, wanted in zip(qbsa.quant_block_sparse_attn(**arguments), expected, strict=True):
        assert torch.equal(result, wanted)


def test_error_of_a_foreign_library_names_the_field():
    values = dict.fromkeys((name for name, _ in library.contract().records["ScheduleArgs"]._fields_), 0)
    del values["heads_kv"]
    with pytest.raises(RuntimeError, match="field 'heads_kv' of ScheduleArgs"):
        library.current().schedule(values)
