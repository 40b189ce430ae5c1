"""The clock: tiny programs with times worked out by hand (tests/clock), and what it says about calls."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from qbsa import cases, cli, library, profile

ROOT = Path(__file__).resolve().parent.parent
SMALL = cases.Case("", (2, 1), (256,), (1024,), 4)


@pytest.fixture(scope="module")
def small() -> profile.Profile:
    return profile.profile(cases.make_inputs(SMALL))


def test_programs_by_hand(tmp_path: Path):
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread"]
    command += ["-DQBSA_TWIN_CHECKED=1", f"-I{ROOT / 'twin'}", str(ROOT / "tests" / "clock" / "test_clock.cpp")]
    done = subprocess.run([*command, "-o", str(tmp_path / "test")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "test"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stdout + done.stderr


def test_columns_are_the_profilers(small):
    columns = small.report["columns"]
    for name in ("aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mte1_ratio", "aic_fixpipe_ratio"):
        assert name in columns
    for name in ("aiv_time(us)", "aiv_vec_ratio", "aiv_mte2_time(us)", "aiv_mte3_ratio", "cube_utilization(%)"):
        assert name in columns
    assert all(0 < value < 1 for name, value in columns.items() if name.endswith("_ratio"))
    time = columns["aic_mac_ratio"] * columns["aicore_time(us)"]
    assert columns["aic_mac_time(us)"] == pytest.approx(time, rel=1e-4)
    assert small.report["source"] == "model"


def test_busy_and_waiting_fit_into_the_time(small):
    for core in small.report["cores"]:
        for pipe, busy in core["busy"].items():
            waited = sum(wait["waited"] for wait in core["waits"] if wait["pipe"] == pipe)
            assert busy + waited <= core["cycles"]


def test_waits_name_flag_and_place(small):
    assert any("WaitFlag MTE1_M 0 (kOperands[0]) (cube.h:" in name for name, _ in small.waits("AIC")["CUBE"])
    assert any("CrossCoreWaitFlag V 0 (kScoresReady) (vector.h:" in name for name, _ in small.waits("AIV")["VECTOR"])
    assert any("CrossCoreWaitFlag MTE1 18 (kProbsReady)" in name for name, _ in small.waits("AIC")["MTE1"])


def test_same_bits_and_same_times_again(small):
    inputs = cases.make_inputs(SMALL)
    fast = torch.ops.qbsa.quant_block_sparse_attn(**inputs)
    with library.mode("timed"):
        timed = torch.ops.qbsa.quant_block_sparse_attn(**inputs)
        times = library.current().clock_report()
    assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(fast, timed))
    assert times["columns"] == small.report["columns"]


def cycles(soc: str = "950PR", **changes) -> int:
    case = cases.Case(**{**vars(SMALL), **changes})
    return profile.profile(cases.make_inputs(case), soc).report["cycles"]


def test_less_work_takes_less_time():
    assert cycles(q_lens=(64,)) < cycles(q_lens=(128,))
    assert cycles(blocks=2) < cycles(blocks=4) < cycles(blocks=8)


def test_chips_differ():
    """Half the lists come from HBM, which is faster on 950DT; 950DT36 has a higher frequency."""
    pr, dt = (profile.profile(cases.make_inputs(SMALL), soc).report for soc in ("950PR", "950DT"))
    assert dt["cycles"] <= pr["cycles"] and dt["mhz"] == pr["mhz"]
    assert pr["hbm_bytes"] > 0 and pr["groups"] == 32
    big = profile.profile(cases.make_inputs(SMALL), "950DT36").report
    assert big["groups"] == 36 and big["duration_us"] == pytest.approx(big["cycles"] / big["mhz"], rel=1e-5)


def test_trace_has_no_overlaps(tmp_path: Path):
    trace = tmp_path / "trace.json"
    profile.profile(cases.make_inputs(SMALL), trace=trace, traced_groups=2)
    content = json.loads(trace.read_text())
    assert content["otherData"] == {"source": "model"}
    events = [event for event in content["traceEvents"] if event["ph"] == "X"]
    assert {event["tid"] for event in events} == {"MTE1", "MTE2", "MTE3", "FIXP", "CUBE", "VECTOR", "SCALAR"}
    assert len({event["pid"] for event in events}) == 6  # an AIC and two AIVs of each group
    ends: dict = {}
    for event in sorted(events, key=lambda event: event["ts"]):
        key = event["pid"], event["tid"]
        assert event["ts"] >= ends.get(key, 0.0) - 2e-4, event
        ends[key] = event["ts"] + event["dur"]


def test_command(tmp_path: Path, capsys):
    golden = sorted((ROOT / "bundles").glob("*.pt"))[0]
    assert cli.main(["profile", str(golden), "--soc", "950DT", "--trace", str(tmp_path / "t.json")]) == 0
    text = capsys.readouterr().out
    assert "model, not measured" in text and "aic_mac_ratio" in text and "on 950DT" in text
    assert (tmp_path / "t.json").exists()
    assert cli.main(["profile", str(golden), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chip"] == "950PR"


def test_refusals(capsys):
    assert cli.main(["profile", "no_such_case"]) == 1
    assert "CASE must be one of b1_n32_n4_s8192, " in capsys.readouterr().err
    assert cli.main(["profile", "decode_b8", "--soc", "910B"]) == 1
    assert "soc must be one of 950PR, 950DT, 950DT36; got '910B'" in capsys.readouterr().err


def test_picture(tmp_path: Path, monkeypatch):
    trace, png = tmp_path / "trace.json", tmp_path / "trace.png"
    profile.profile(cases.make_inputs(SMALL), trace=trace)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(RuntimeError, match=r"pip install 'qbsa\[plot\]'"):
        profile.plot(trace, png)
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    profile.plot(trace, png, "small")
    assert png.read_bytes().startswith(b"\x89PNG")
