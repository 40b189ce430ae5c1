"""Files of the profilers: documented headers, old and new spellings, missing columns; our kernels in them."""

import json
import re
from pathlib import Path

import pytest
from qbsa import cli, kernels

ROOT = Path(__file__).resolve().parents[1]
METRICS = (
    "aicore_time(us), aic_total_cycles, aic_mac_time(us), aic_mac_ratio, aic_scalar_time(us), aic_scalar_ratio, "
    "aic_mte1_time(us), aic_mte1_ratio, aic_mte2_time(us), aic_mte2_ratio, aic_fixpipe_time(us), aic_fixpipe_ratio, "
    "aic_icache_miss_rate, aiv_time(us), aiv_total_cycles, aiv_vec_time(us), aiv_vec_ratio, aiv_scalar_time(us), "
    "aiv_scalar_ratio, aiv_mte2_time(us), aiv_mte2_ratio, aiv_mte3_time(us), aiv_mte3_ratio, aiv_icache_miss_rate, "
    "cube_utilization(%)"
).split(", ")
SHAPES = [f"{way} {what}" for way in ("Input", "Output") for what in ("Shapes", "Data Types", "Formats")]
TIMES = ["Start Time(us)", "Duration(us)", "Wait Time(us)"]
BLOCKS = ["Block Dim", "Mix Block Dim"]
DETAILS = [
    *("Step Id", "Device_id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core"),
    *TIMES,
    *BLOCKS,
    "HF32 Eligible",
    *SHAPES,
    "Context ID",
    *METRICS,
]
NEW_DETAILS = [name.replace("Block Dim", "Block Num") for name in DETAILS] + ["aiv_vec_simt_vf_ratio"]
SUMMARY = [
    *("Device_id", "Model Name", "Model ID", "Task ID", "Stream ID", "Infer ID", "Op Name", "OP Type", "OP State"),
    "Task Type",
    *(f"Task {name}" for name in TIMES),
    *BLOCKS,
    "HF32 Eligible",
    *SHAPES,
    "Context ID",
    *METRICS,
]
SHORT = ["Step Id", "Device_id", "Name", "Type", "Accelerator Core", *TIMES, "Block Num"]  # without Level1
ALL = {"kernel_details": DETAILS, "new spelling": NEW_DETAILS, "op_summary": SUMMARY, "9 columns": SHORT}


def row(head, name="qbsa_attention_kernel_mix_aic", duration="71.5", step="3", **more):
    """A line of such a file as the profilers write it: with tabs behind numbers, N/A where nothing is known."""
    known = {
        **dict.fromkeys(("Name", "Op Name"), name),
        **dict.fromkeys(("Type", "OP Type"), "qbsa_attention_kernel"),
        **dict.fromkeys(("Accelerator Core", "Task Type"), "MIX_AIC"),
        **dict.fromkeys(("Start Time(us)", "Task Start Time(us)"), "1732900000.123\t"),
        **dict.fromkeys(("Duration(us)", "Task Duration(us)"), duration),
        **dict.fromkeys(("Wait Time(us)", "Task Wait Time(us)"), "0.5"),
        **dict.fromkeys(("Block Dim", "Block Num"), "32"),
        **dict.fromkeys(("Mix Block Dim", "Mix Block Num"), "64"),
        **{"Step Id": step, "Input Shapes": '"1,2;3"', "aiv_vec_ratio": "0.93", "aic_mac_ratio": "0.57"},
        **more,
    }
    return ",".join(known.get(column, "N/A") for column in head)


def write(path, head, *rows):
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("\n".join([",".join(head), *rows]) + "\n", encoding="utf-8-sig")
    return path


def test_documented_headers():
    assert len(DETAILS) == 47 and len(SHORT) == 9


@pytest.mark.parametrize("head", ALL.values(), ids=ALL)
def test_a_row_is_read(tmp_path, head):
    (kernel,) = kernels.read(write(tmp_path / "x.csv", head, row(head)))
    assert (kernel.name, kernel.core, kernel.type) == (
        "qbsa_attention_kernel_mix_aic",
        "MIX_AIC",
        "qbsa_attention_kernel",
    )
    assert (kernel.duration, kernel.start, kernel.wait, kernel.blocks) == (71.5, 1732900000.123, 0.5, 32)
    assert kernel.mix_blocks == (None if head is SHORT else 64)
    assert kernel.step == ("3" if "Step Id" in head else "")
    assert kernel.metrics == ({} if head is SHORT else {"aic_mac_ratio": 0.57, "aiv_vec_ratio": 0.93})


@pytest.mark.parametrize("missing", ["Step Id", "Block Dim", "aiv_vec_ratio", "Accelerator Core", "Start Time(us)"])
def test_a_missing_column_does_not_matter(tmp_path, missing):
    head = [name for name in DETAILS if name != missing]
    (kernel,) = kernels.read(write(tmp_path / "x.csv", head, row(head)))
    assert kernel.duration == 71.5 and kernel.metrics["aic_mac_ratio"] == 0.57


@pytest.mark.parametrize("missing", ["Name", "Duration(us)"])
def test_without_name_or_duration_it_is_another_file(tmp_path, missing):
    head = [name for name in SHORT if name != missing]
    with pytest.raises(ValueError, match=rf"must have columns {re.escape(missing)}/.*; got Step Id, Device_id"):
        kernels.read(write(tmp_path / "x.csv", head, row(head)))


def test_rows_without_duration_are_left_out(tmp_path):
    path = write(tmp_path / "x.csv", SHORT, row(SHORT, duration="N/A"), row(SHORT), "", "1,2")
    assert len(kernels.read(path)) == 1


def test_kernel_details_go_before_the_op_summary_they_are_made_from(tmp_path):
    summary = write(tmp_path / "run" / "PROF_1" / "op_summary_20261130.csv", SUMMARY, row(SUMMARY))
    assert kernels.find_files(tmp_path) == [summary]
    details = write(tmp_path / "run" / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv", DETAILS, row(DETAILS))
    assert kernels.find_files(tmp_path) == [details]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no kernel_details.csv"):
        kernels.read(tmp_path / "empty")


def run_of(folder, durations, head=DETAILS, **more):
    """Two steps: an attention and two merges each, and a kernel of others."""
    rows = []
    for step, (attention, merge) in enumerate(durations):
        rows.append(row(head, duration=str(attention), step=str(step), **more))
        rows += [row(head, "qbsa_merge_kernel", str(merge), step=str(step))] * 2
        rows.append(row(head, "MatMulV3", "500", step=str(step)))
    return write(folder / "kernel_details.csv", head, *rows)


def test_a_call_takes_the_shortest_of_each_kernel(tmp_path):
    for head in (DETAILS, DETAILS[1:]):  # with steps and without
        found = kernels.matching(kernels.read(run_of(tmp_path, [(80, 4), (70, 5)], head)))
        assert kernels.time_per_call(found) == 70 + 2 * 4
        assert [(s.calls, s.least, s.median, s.most) for s in kernels.summarise(found)] == [
            (2, 70, 75, 80),
            (4, 4, 4.5, 5),
        ]


def test_names_are_those_of_the_sources():
    text = "".join((ROOT / path).read_text() for path in ("kernels_ascendc/launch.asc", "metadata/launch.aicpu"))
    names = re.findall(r"^(?:extern )?__global__ .*?(qbsa\w+)\(", text, re.M)
    assert len(set(names)) == 3 and all(re.fullmatch(kernels.OURS, name) for name in names)


def test_command_compares_two_runs(tmp_path, capsys):
    run_of(tmp_path / "new", [(80, 4), (70, 5)])
    run_of(tmp_path / "old", [(160, 4), (148, 4)], aiv_vec_ratio="0.5")
    assert cli.main(["kernels", str(tmp_path / "new"), str(tmp_path / "old"), "--csv", str(tmp_path / "t.csv")]) == 0
    text = capsys.readouterr().out
    assert "78.00 us a call" in text and "156.00 us a call" in text and "takes 2.000 times as long" in text
    assert re.search(r"aiv_vec_ratio +0.93 +0.5$", text, re.M) and "aiv_vec 0.930" in text
    assert (tmp_path / "t.csv").read_text().startswith("kernel,calls,min us") and (tmp_path / "t_other.csv").exists()
    assert cli.main(["kernels", str(tmp_path / "new"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"][0]["least"] == 70


def test_command_names_the_kernels_there_are(tmp_path, capsys):
    assert cli.main(["kernels", str(run_of(tmp_path, [(1, 1)])), "--name", "softmax"]) == 1
    assert "no kernel is named like 'softmax'; kernels there: qbsa_merge_kernel (2)" in capsys.readouterr().err
