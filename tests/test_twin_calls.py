"""The twin's calls and engine: compiles and runs the C++ tests in tests/twin."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "twin"
COMPILE = [os.environ.get("CXX", "g++"), "-std=c++17", "-Wall", "-Wextra", "-ffp-contract=off", f"-I{ROOT / 'twin'}"]

# (test, checked variant); what only the checked variant notices runs there alone.
PROGRAMS = [
    ("test_layouts", False),
    ("test_layouts", True),
    ("test_flags", False),
    ("test_launch", False),
    ("test_launch", True),
    ("test_checks", True),
    ("test_race", True),
]


def _compile(folder: Path, name: str, checked: bool) -> subprocess.CompletedProcess[str]:
    flags = ["-O1", "-Werror", "-pthread", f"-DQBSA_TWIN_CHECKED={int(checked)}"]
    command = [*COMPILE, *flags, str(FOLDER / f"{name}.cpp"), "-o", str(folder / f"{name}_{checked}")]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the compiled tests."""
    folder = tmp_path_factory.mktemp("twin")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done in pool.map(lambda program: _compile(folder, *program), PROGRAMS):
            assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("name", "checked"), PROGRAMS)
def test_program(programs: Path, name: str, checked: bool):
    done = subprocess.run([programs / f"{name}_{checked}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stdout + done.stderr


def test_refused_at_compile_time():
    source = FOLDER / "refused.cpp"
    command = [*COMPILE, "-fsyntax-only", "-fno-diagnostics-show-caret", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    reasons = re.findall(r";\s*// (.+)$", source.read_text(), re.MULTILINE)
    assert len(reasons) == 11
    for reason in reasons:
        assert done.stderr.count(reason) >= reasons.count(reason), f"{reason}\n{done.stderr}"
