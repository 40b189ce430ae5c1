"""The example of a model that calls the operator: it runs, keeps its error bounds and saves work."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "decoder_layer.py"


def test_example_keeps_its_bounds_and_saves_blocks():
    command = [sys.executable, EXAMPLE, "--tokens", "2048", "--chunk", "640"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    saved = [int(share) for share in re.findall(r"\((\d+)% saved\)", done.stdout)]
    assert saved[0] == 0 and saved[1] > 10, done.stdout
