"""show_plan, plot_plan and `python -m qbsa plan`."""

import sys

import pytest
import qbsa
import torch
import workloads
from qbsa import cli, plan


@pytest.fixture
def metadata():
    """Five lists on four cores: cuts in all of them."""
    lengths = torch.tensor([[[16], [16], [16], [16], [17]]], dtype=torch.int32)
    return workloads.make_plan(workloads.Workload(lengths, 5), 4, max_kv_splits=0)


def test_text_tells_makespan_bound_load_and_splits(metadata):
    made = plan.read_plan(metadata)
    lines = qbsa.show_plan(metadata).splitlines()
    assert lines[0].startswith("1 sequences x 5 heads x 1 query blocks = 5 tasks on 4 cores; costs in cycles of ")
    assert lines[1].startswith(f"makespan {made.max_cost}, of it {made.merge_cost} for the longest merge; ")
    assert lines[1].endswith(f" above the even share of all work, {made.even_share}")
    tasks = [line.split()[2] for line in lines[3:7]]
    assert tasks == ["1+1", "0+2", "0+2", "1+1"]
    assert max(line.count("#") for line in lines[3:7]) == 40
    assert lines[7] == "split tasks (pieces): " + ", ".join(
        f"{split.task} ({split.pieces} from core {split.first_core})" for split in made.splits
    )
    assert len(made.splits) == 3


def test_a_plan_without_work():
    nothing = workloads.make_plan(workloads.Workload(torch.zeros(1, 2, 0, dtype=torch.int32), 1), 2)
    assert "makespan 0; equal to the even share of all work, 0" in qbsa.show_plan(nothing)


def test_picture(metadata, tmp_path, capsys):
    saved, picture = tmp_path / "plan.pt", tmp_path / "plan.png"
    torch.save(metadata, saved)
    assert cli.main(["plan", str(saved), "--png", str(picture)]) == 0
    assert capsys.readouterr().out.strip() == qbsa.show_plan(metadata)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_error_names_it(metadata, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RuntimeError, match=r"pip install 'qbsa\[plot\]'"):
        qbsa.plot_plan(metadata, tmp_path / "plan.png")
