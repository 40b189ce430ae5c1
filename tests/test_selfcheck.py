"""The selfcheck command: all checks of a healthy installation pass, and a broken one is told."""

import pytest
from device import DEVICE
from qbsa import bundle, cli, npu


def checked(tmp_path):
    report = tmp_path / "report.txt"
    code = cli.main(["selfcheck", "--device", str(DEVICE), "-o", str(report)])
    lines = [line.split() for line in report.read_text().splitlines()]
    return code, {line[1]: line[0] for line in lines if line and line[0] in ("ok", "n/a", "FAILED")}, report.read_text()


@pytest.mark.slow
def test_a_healthy_installation(tmp_path):
    code, results, text = checked(tmp_path)
    elsewhere = {"against", "capture"} if DEVICE.type == "cpu" else {"time"}
    assert {name for name, result in results.items() if result != "ok"} <= elsewhere, text
    assert {"device", "bundles", "repeats", "plans", "against", "capture", "time"} == set(results)
    assert npu.build_record()["compiler"] in text


@pytest.mark.slow
def test_a_wrong_result_fails_the_check(tmp_path, monkeypatch, capsys):
    class Wrong:
        failures = ("too far",)
        worst_share = 9.0

    monkeypatch.setattr(bundle, "replay", lambda *_: [Wrong])
    code, results, text = checked(tmp_path)
    assert code == 1 and results["bundles"] == "FAILED" and "too far" in text
    assert "attach" in capsys.readouterr().err
