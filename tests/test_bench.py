"""The bench command: devices, comparisons, what it writes; the NPU's profiler by a stand-in that notes its calls."""

import csv
import dataclasses
import json
import sys
import types

import pytest
import test_kernels
import torch
from qbsa import bench, bench_chart, cases, cli, kernels, library, npu, plan, profile
from qbsa.console import Console

SMALL = cases.Case("", (4, 2), (256,), (256,))
SOURCE = cases.Source("small", SMALL)
ENTRIES = 4 * (1 + 2)


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"small": {"heads": [4, 2], "q_lens": [256], "kv_lens": [256]}}))
    return path


def test_cpu(own, tmp_path, capsys):
    files = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "png")}
    options = zip(("-o", "--csv", "--png"), map(str, files.values()))
    code = cli.main(["bench", str(own), *(word for option in options for word in option)])
    text = capsys.readouterr().out
    assert code == 0 and "qbsa: measured, " in text and "CPU" in text
    saved = bench.load(files["json"])
    (timing,) = saved.timings
    assert saved.source == "measured" and timing.entries == ENTRIES
    assert len(timing.runs) == 5 and timing.us == min(timing.runs)
    assert next(csv.DictReader(files["csv"].open()))["source"] == "measured"
    assert files["png"].read_bytes().startswith(b"\x89PNG")


def test_twin_says_model_and_where_the_time_goes(own, capsys):
    assert cli.main(["bench", str(own), "--device", "twin", "--soc", "950DT", "--json"]) == 0
    ours = json.loads(capsys.readouterr().out)["ours"]
    assert ours["source"] == "model" and "950DT" in ours["device"]
    assert ours["timings"][0]["us"] > 0 and 0 < ours["timings"][0]["columns"]["aiv_vec_ratio"] < 1


def test_against_a_function_with_the_same_arguments(own, capsys, monkeypatch):
    seen = []
    module = types.ModuleType("theirs")
    module.attend = lambda **arguments: seen.append(arguments)
    module.plan = lambda *arguments, **named: (arguments[1:], sorted(named))
    monkeypatch.setitem(sys.modules, "theirs", module)
    call = ["bench", str(own), "--against", "theirs:attend", "--repeats", "2", "--warmups", "1"]
    assert cli.main(call) == 0
    head, line = capsys.readouterr().out.splitlines()[2:]
    assert "theirs:attend us" in head and "ratio" in head and line.startswith("small")
    wanted = cases.make_inputs(SMALL)
    assert len(seen) == 3 and seen[0].keys() == wanted.keys()
    assert torch.equal(seen[0]["sparse_indices"], wanted["sparse_indices"])
    assert cli.main([*call, "--against-plan", "theirs:plan"]) == 0
    assert seen[-1]["metadata"] == ((4, 2, 128), ["cu_seqlens_q", "mask_mode", "seqused_kv"])


def result(us, name="qbsa", case="small"):
    return bench.Result(name, "measured", "CPU", "2026-11-30", "qbsa", (bench.Timing(case, ENTRIES, us),))


def test_against_a_saved_result(own, tmp_path, capsys):
    result(1e9, "older").save(tmp_path / "old.json")
    assert cli.main(["bench", str(own), "--device", "twin", "--against", str(tmp_path / "old.json"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["other"]["name"] == "older" and data["other"]["timings"][0]["us"] == 1e9
    (tmp_path / "old.json").write_text("{}")
    assert cli.main(["bench", str(own), "--against", str(tmp_path / "old.json")]) == 1
    assert "must be a result that bench --output wrote" in capsys.readouterr().err


def test_ratios_stand_over_the_bars(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    written = []
    monkeypatch.setattr(Axes, "text", lambda self, x, y, text, **_: written.append(text))
    bench_chart.draw(result(100.0), result(250.0, "other"), tmp_path / "x.png")
    assert written == ["100", "250", "2.50x"]
    guessed = dataclasses.replace(result(100.0).timings[0], error=0.02)
    bench_chart.draw(dataclasses.replace(result(0.0), timings=(guessed,)), None, tmp_path / "x.png")
    assert written[3:] == ["~100"]
    with pytest.raises(RuntimeError, match="no case was timed"):
        bench_chart.draw(result(None), None, tmp_path / "x.png")


def test_too_large_says_how_long_it_would_take(monkeypatch):
    monkeypatch.setitem(bench._seconds_per_entry, "twin", 10.0)
    timing = bench.time_one(SOURCE, bench.Settings("twin", limit=100))
    assert timing.us is None and timing.note.startswith("too large: about 2 min here, the limit is 100 s (--limit or")
    assert "  -  " in bench_cli_text(timing)


def bench_cli_text(timing):
    from qbsa import bench_cli

    head, rows = bench_cli._rows(bench.Result("qbsa", "model", "", "", "", (timing,)), None)
    return bench_cli.table(head, rows)


def test_an_estimate_shows_its_error(monkeypatch):
    """From 4 of 8 KV heads: times of 2 and 4 by the clock, makespans by the plans."""
    case = cases.Case("", (8, 8), (512,), (2048,), blocks=8)
    monkeypatch.setitem(bench._seconds_per_entry, "twin", 1.0)
    entries = int(case.list_lengths().sum())
    estimate = bench.time_one(cases.Source("x", case), bench.Settings("twin", limit=0.8 * entries, sample=True))
    two, four = (profile.profile(cases.make_inputs(case.part(1, n))).report["duration_us"] for n in (2, 4))
    with library.clock(library.Clock("950PR")):
        spans = [plan.read_plan(cases.plan_of(part)).max_cost for part in (case.part(1, 2), case.part(1, 4), case)]
    assert estimate.us == pytest.approx(four * spans[2] / spans[1])
    assert estimate.error == pytest.approx(two * spans[1] / spans[0] / four - 1)
    assert "estimate from 50.0% of its entries; the same step from 50% of them to all is off by" in estimate.note
    tiny = bench.time_one(cases.Source("x", case), bench.Settings("twin", limit=0.1 * entries, sample=True))
    assert tiny.us is None and "too large to estimate: two parts of it take" in tiny.note


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "tpu"], "--device must be cpu, npu, npu:N or twin; got 'tpu'"),
        (["--repeats", "0"], "--repeats must be at least 1; got 0"),
        (["--against", "no_such_module:f"], "'no_such_module:f' must name an importable module:function"),
        (["--device", "twin", "--against", "os:getcwd"], "--against must be a saved result with --device twin"),
    ],
)
def test_refusals(own, capsys, arguments, message):
    assert cli.main(["bench", str(own), *arguments]) == 1
    assert message in capsys.readouterr().err


class Profiler:
    """torch_npu.profiler as bench uses it: notes what it is asked for, writes a file of the documented form."""

    ProfilerLevel = types.SimpleNamespace(Level1="Level1")
    AiCMetrics = types.SimpleNamespace(PipeUtilization="PipeUtilization")
    ProfilerActivity = types.SimpleNamespace(CPU="CPU", NPU="NPU")

    def __init__(self):
        self.asked, self.steps = {}, 0

    def _ExperimentalConfig(self, **asked):
        return asked

    def schedule(self, **asked):
        return asked

    def tensorboard_trace_handler(self, folder):
        return folder

    def profile(self, **asked):
        self.asked = asked
        return self

    def __enter__(self):
        return self

    def step(self):
        self.steps += 1

    def __exit__(self, *_):
        durations = [(70 + step, 4) for step in range(self.asked["schedule"]["active"])]
        folder = test_kernels.Path(self.asked["on_trace_ready"])
        test_kernels.run_of(folder / "x_ascend_pt" / "ASCEND_PROFILER_OUTPUT", durations)


def test_npu_by_the_profiler(monkeypatch, tmp_path):
    profiler, waited = Profiler(), []
    monkeypatch.setitem(sys.modules, "torch_npu", types.SimpleNamespace(profiler=profiler))
    monkeypatch.setattr(torch, "npu", types.SimpleNamespace(synchronize=waited.append), raising=False)
    monkeypatch.setattr(npu, "device", lambda _: torch.device("cpu"))
    timing = bench.time_one(SOURCE, bench.Settings("npu", keep=tmp_path))
    assert profiler.steps == 7 and waited == ["npu"] * 7
    assert profiler.asked["schedule"] == {"wait": 0, "warmup": 2, "active": 5, "repeat": 1}
    assert profiler.asked["experimental_config"] == {"profiler_level": "Level1", "aic_metrics": "PipeUtilization"}
    assert timing.us == 70 + 2 * 4 and timing.runs == (70, 71, 72, 73, 74)
    assert kernels.busiest_pipe(timing.columns) == ("aiv_vec", 0.93)
    assert kernels.find_files(tmp_path / "small")
    theirs = bench.time_one(SOURCE, bench.Settings("npu"), (lambda **_: None, None))
    assert theirs.us == 70 + 2 * 4 + 500  # every kernel of their call counts


def test_progress_needs_no_terminal(capsys):
    settings = bench.Settings(warmups=0, repeats=1)
    bench.run([SOURCE, SOURCE], settings, Console())
    assert [line.split("]")[1] for line in capsys.readouterr().err.splitlines()] == [" qbsa small on cpu"] * 2
    bench.run([SOURCE, SOURCE], settings, Console(quiet=True))
    assert capsys.readouterr().err == ""
