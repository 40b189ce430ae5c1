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

# native: with all instructions of this machine, which change how products are made.
VARIANTS = {
    "fast": ("-DQBSA_TWIN_CHECKED=0",),
    "native": ("-DQBSA_TWIN_CHECKED=0", "-march=native"),
    "checked": ("-DQBSA_TWIN_CHECKED=1",),
}
# (test, variant); what only the checked variant notices runs there alone.
PROGRAMS = [
    ("test_layouts", "fast"),
    ("test_layouts", "native"),
    ("test_layouts", "checked"),
    ("test_flags", "fast"),
    ("test_launch", "fast"),
    ("test_launch", "checked"),
    ("test_checks", "checked"),
    ("test_race", "checked"),
]


def _compile(folder: Path, name: str, variant: str) -> subprocess.CompletedProcess[str]:
    flags = ["-O1", "-Werror", "-pthread", *VARIANTS[variant]]
    command = [*COMPILE, *flags, str(FOLDER / f"{name}.cpp"), "-o", str(folder / f"{name}_{variant}")]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the compiled tests."""
    folder = tmp_path_factory.mktemp("twin")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done in pool.map(lambda program: _compile(folder, *program), PROGRAMS):
            assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("name", "variant"), PROGRAMS)
def test_program(programs: Path, name: str, variant: str):
    done = subprocess.run([programs / f"{name}_{variant}"], capture_output=True, text=True, timeout=60)
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
