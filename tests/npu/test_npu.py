"""The NPU path beside numerics: devices, refusals, failures, torch.compile, and the loader in processes of its own."""

import os
import subprocess
import sys

import cases
import pytest
import qbsa
import torch
from cases import Case
from device import DEVICE, attend, moved
from qbsa import bundle, cli, npu

CASE = Case("small", (4, 2), (140, 9), (200, 50), "random", 2)


def inputs(**changes):
    return cases.make_inputs(CASE) | changes


def same(one, other):
    return all(torch.equal(a.cpu().view(torch.uint8), b.view(torch.uint8)) for a, b in zip(one, other, strict=True))


def expected(**changes):
    return qbsa.quant_block_sparse_attn(**inputs(**changes))


def test_the_operator_and_its_results_are_on_the_device():
    out, lse = qbsa.quant_block_sparse_attn(**moved(inputs()))
    assert out.device == lse.device == DEVICE
    assert same((out, lse), expected())


def test_another_device_than_the_current_one():
    torch.npu.set_device(0)
    result = qbsa.quant_block_sparse_attn(**moved(inputs(), "npu:1"))
    assert result[0].device == torch.device("npu:1") and torch.npu.current_device() == 0
    torch.npu.synchronize("npu:1")
    assert same(result, expected())


def test_interleaved_cache_and_shared_storage():
    arguments = inputs()
    pages = len(arguments["key"])
    parts = [arguments[name].flatten(1).view(torch.uint8) for name in ("key", "value", "k_descale")]
    cache = torch.cat([*parts, torch.full((pages, 64), 255, dtype=torch.uint8)], dim=1)
    sections = cache.split([*(part.shape[1] for part in parts), 64], dim=1)
    for name, section in zip(("key", "value", "k_descale"), sections):
        arguments[name] = section.view(arguments[name].dtype).unflatten(1, arguments[name].shape[1:])
    on_device = moved(arguments)
    assert on_device["key"].untyped_storage().data_ptr() == on_device["k_descale"].untyped_storage().data_ptr()
    assert on_device["key"].stride() == arguments["key"].stride()
    assert same(qbsa.quant_block_sparse_attn(**on_device), expected())


def test_the_validator_speaks_on_the_device_too():
    with pytest.raises(ValueError, match=r"^sparse_q_block_size must be 128; got 64"):
        qbsa.quant_block_sparse_attn(**moved(inputs(sparse_q_block_size=64)))
    arguments = moved(inputs())
    for elsewhere in ("cpu", "npu:1"):
        mixed = arguments | {"key": inputs()["key"].to(elsewhere)}
        with pytest.raises(ValueError, match=f"^key must be on {DEVICE}, where the other tensors are; got {elsewhere}"):
            qbsa.quant_block_sparse_attn(**mixed)


def test_no_query_token():
    arguments = moved(inputs())
    arguments |= {name: arguments[name][:0] for name in ("query", "q_descale")}
    out, lse = qbsa.quant_block_sparse_attn(**arguments)
    assert out.shape == (0, 4, 128) and lse.shape == (4, 0)


def test_a_record_of_another_version_is_refused():
    npu.load(DEVICE)
    with pytest.raises(RuntimeError, match="qbsa_attention: a record has .* bytes; got 16"):
        torch.ops.qbsa.enqueue_attention([1, 2], [moved(inputs())["query"]])


def test_compile():
    def layer(arguments):
        out, lse = qbsa.quant_block_sparse_attn(**arguments)
        return out, lse

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert same(compiled(moved(inputs())), expected())


def test_splits():
    arguments = moved(inputs())
    metadata = qbsa.quant_block_sparse_attn_metadata(
        arguments["sparse_seq_len"], 4, 2, 128, cu_seqlens_q=arguments["cu_seqlens_q"], max_kv_splits=0
    )
    on_cpu = expected(metadata=metadata.cpu())
    assert same(qbsa.quant_block_sparse_attn(**arguments, metadata=metadata), on_cpu)


def test_recorded_calls_replay_on_the_cpu(tmp_path):
    arguments = moved(inputs())
    pages = arguments["key"].shape[0]
    with qbsa.capture(tmp_path) as recorded:
        result = qbsa.quant_block_sparse_attn(**arguments)
    (stored,) = map(bundle.load, recorded.paths)
    assert same(result, (stored.expected, stored.expected_lse))
    assert len(stored.inputs["key"]) <= pages and "recorded on npu:0" in stored.origin
    assert same(bundle.result(stored, "cpu"), expected())
    assert cli.main(["bundle", "diff", str(recorded.paths[0]), "--device", str(DEVICE)]) == 0


def test_env_command(virtual, capsys):
    assert cli.main(["env"]) == 0
    text = capsys.readouterr().out
    build = npu.build_record()["npu"]
    assert "libqbsa_npu.so and _C_npu.so loaded, on the virtual device" in text
    assert f"arch dav-3510, cann {build['cann']}, torch {build['torch']}, torch_npu {build['torch_npu']}" in text


# --- in processes of their own: torch_npu runs nothing more after an error ---

FAILURE = """
import ctypes, torch, torch_npu, qbsa
device = ctypes.CDLL("libascendcl.so")
lengths = torch.ones(1, 1, 1, dtype=torch.int32).npu()
torch.npu.synchronize()
device.virtual_device_{knob}()
try:
    qbsa.quant_block_sparse_attn_metadata(lengths, 1, 1, 128)
    print("queued", flush=True)
    torch.npu.synchronize()
except RuntimeError as error:
    print(error)
"""


def failure(knob):
    done = subprocess.run([sys.executable, "-c", FAILURE.format(knob=knob)], capture_output=True, text=True)
    return done.stdout, done.stdout + done.stderr


def test_a_failing_kernel_is_told_at_synchronisation(virtual):
    out, text = failure("fail_kernel")
    assert "queued" in out and "507015" in text and "fails as asked for" in text


def test_a_refused_launch_is_told_with_the_reason(virtual):
    out, text = failure("refuse_launch")
    assert "qbsa_schedule: launch of qbsa_schedule_kernel: error 107000: virtual device: this launch is refused" in text
    assert "qbsa_schedule" in out, "the error reaches the caller"


# --- the loader: what a process sees in which a piece is missing ---

CALL = """
import torch, qbsa, sys
{before}
lengths = torch.zeros(1, 1, 1, dtype=torch.int32).to("npu:0")
try:
    qbsa.quant_block_sparse_attn_metadata(lengths, 1, 1, 128)
    torch.npu.synchronize()  # torch_npu aborts now and then when a process ends while its queue is at work
    print("computed")
except RuntimeError as error:
    print(type(error).__name__, str(error).splitlines()[0])
"""
WITH_TORCH_NPU = "import torch_npu"
# torch_npu cannot be imported; tensors of a renamed private backend stand for NPU tensors.
WITHOUT_TORCH_NPU = """
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
_setup_privateuseone_for_python_backend("npu")
torch.zeros = lambda *size, dtype: type("", (), {"to": lambda *_: torch._C._acc.create_empty_tensor(size, dtype)})()
"""


def process(before, **environment):
    environment = {name: value for name, value in (os.environ | environment).items() if value is not None}
    script = CALL.format(before=before)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_loader_computes():
    assert process(WITH_TORCH_NPU) == "computed"


def test_loader_without_cann():
    text = process(WITHOUT_TORCH_NPU, LD_LIBRARY_PATH=None)
    assert text.startswith("UnavailableError the tensors are on npu:0, but import torch_npu failed (ImportError: lib")
    assert "source CANN's set_env.sh" in text and "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in text


def test_loader_on_another_chip():
    text = process(WITH_TORCH_NPU, QBSA_VIRTUAL_SOC="Ascend910B3")
    assert text.startswith("UnavailableError qbsa's kernels run on Ascend950 (dav-3510); npu:0 is Ascend910B3")


PRETEND = "from qbsa import library, npu; from pathlib import Path; import json, os, shutil, tempfile\n"
PRETEND += (
    "folder = Path(tempfile.mkdtemp()); [shutil.copy(p, folder) for p in library.FOLDER.iterdir() if p.is_file()]\n"
)
PRETEND += "record = json.loads((folder / '_build.json').read_text())\n"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            "(folder / '_C_npu.so').unlink()",
            "this installation of qbsa was built without an NPU part (_C_npu.so missing",
        ),
        (
            "record['npu']['torch'] = '2.12.1'; (folder / '_build.json').write_text(json.dumps(record))",
            "its NPU part was built for torch 2.12.1, and this is torch 2.13",
        ),
        ("(folder / '_C_npu.so').write_text('no library')", "its NPU part cannot be loaded ("),
        (
            "qbsa.library.current().contract_text = b'{}'",
            "libqbsa_npu.so and libqbsa_twin",
        ),
    ],
)
def test_loader_says_what_is_wrong(change, reason):
    text = process(f"{WITH_TORCH_NPU}\n{PRETEND}{change}\nlibrary.FOLDER = folder")
    assert text.startswith(f"UnavailableError the tensors are on npu:0, but {reason}"), text
    assert "pip install --no-build-isolation" in text


def test_import_works_without_cann_and_computes_on_the_cpu():
    script = "import torch, qbsa; qbsa.quant_block_sparse_attn_metadata(torch.ones(1, 1, 1).int(), 1, 1, 128)"
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "torch_npu" not in done.stderr, done.stderr


def test_attend_helper_uses_the_device():
    assert DEVICE.type == "npu" and same(attend(inputs()), expected())
