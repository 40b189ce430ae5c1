"""The clock against published measurements: benchmarks/clock_calibration.py, where they stand with their sources."""

import importlib.util
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "benchmarks" / "clock_calibration.py"


@pytest.fixture(scope="module")
def calibration():
    spec = importlib.util.spec_from_file_location("clock_calibration", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["clock_calibration"] = module
    spec.loader.exec_module(module)
    return module


def test_points(calibration, tmp_path):
    model = calibration.figures(calibration.compile_points(tmp_path))
    errors = {kind: {} for kind in (calibration.FITTED, calibration.HELD_OUT, calibration.MISSED)}
    for point in calibration.POINTS:
        errors[point.kind][point.text] = calibration.error(point, model[point.name])
    assert all(abs(error) <= 0.03 for error in errors[calibration.FITTED].values()), errors
    assert all(abs(error) <= calibration.TOLERANCE for error in errors[calibration.HELD_OUT].values()), errors
    assert all(error < -calibration.TOLERANCE for error in errors[calibration.MISSED].values()), errors
