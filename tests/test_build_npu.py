"""The NPU build on a machine with CANN, seen by a compiler that only notes what it is asked to do."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORDER = """#!{python}
import json, os, sys
with open(os.environ["RECORD"], "a") as file:
    file.write(json.dumps(sys.argv) + "\\n")
if os.environ.get("FAIL_AT", "nothing") in " ".join(sys.argv):
    sys.exit("error: this kernel is broken")
open(sys.argv[sys.argv.index("-o") + 1], "w").close()
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder with CANN, torch and torch_npu as far as a build looks at them; compilers are RECORDER."""
    for name in ("cann/bin/bisheng", "bin/cxx"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(RECORDER.format(python=sys.executable))
        path.chmod(0o755)
    (tmp_path / "cann" / "lib64").mkdir()
    (tmp_path / "cann" / "lib64" / "libascendcl.so").touch()
    (tmp_path / "cann" / "version.cfg").write_text("# version\nrunning=[9.2.0:9.2.0]\n")
    for name in ("torch", "torch_npu"):
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "__init__.py").write_text("raise SystemExit('a build must not import this')")
        (tmp_path / "site" / f"{name}-2.13.0.dist-info").mkdir()
        (tmp_path / "site" / f"{name}-2.13.0.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 2.13.0\n")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "cann"))
    monkeypatch.setenv("CXX", str(tmp_path / "bin" / "cxx"))
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.delenv("QBSA_BUILD", raising=False)
    return tmp_path


def run(machine, code, *, site=True):
    """Runs code with build_npu's functions at hand; without site neither torch nor torch_npu is installed."""
    script = "import sys, runpy; from pathlib import Path\n"
    script += f"globals().update(runpy.run_path({str(ROOT / 'tools' / 'build_npu.py')!r}))\n"
    script += f"try:\n    {code}\nexcept BuildError as error:\n    print(error)\n"
    environment = os.environ | {"PYTHONPATH": str(machine / "site") if site else ""}
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_command_lines(machine):
    run(machine, f"build(find(), Path({str(machine / 'out')!r}))")
    cann, site, out = machine / "cann", machine / "site", os.path.relpath(machine / "out", ROOT)
    bisheng, headers = f"{cann}/bin/bisheng -std=c++17 -fPIC", f"{site}/torch/include"
    expected = [
        f"{bisheng} -O2 -c -x aicpu metadata/launch.aicpu -I{cann}/asc/include/aicpu_api "
        f"--cce-aicpu-L{cann}/lib64/device/lib64 --cce-aicpu-laicpu_api -o {out}/launch.aicpu.o",
        f"{bisheng} -O3 -c -x asc --npu-arch=dav-3510 -DENABLE_CV_COMM_VIA_SSBUF=true -DASCENDC_DUMP=0 "
        f"-I{cann}/include kernels_ascendc/launch.asc -o {out}/launch.asc.o",
        f"{bisheng} -shared --npu-arch=dav-3510 {out}/launch.aicpu.o {out}/launch.asc.o "
        f"-L{cann}/lib64 -lascendcl -o {out}/libqbsa_npu.so",
        f"{machine}/bin/cxx -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -Wall -isystem {headers} "
        f"-isystem {headers}/torch/csrc/api/include -isystem {site}/torch_npu/include ops/npu_binding.cpp "
        f"-L{site}/torch/lib -L{site}/torch_npu/lib -L{out} -Wl,-rpath,$ORIGIN "
        f"-ltorch_npu -ltorch_cpu -lc10 -lqbsa_npu -o {out}/_C_npu.so",
    ]
    record = (machine / "record").read_text().splitlines()
    assert [" ".join(json.loads(line)) for line in record] == expected


def test_up_to_date_libraries_are_kept(machine):
    code = f"[build(find(), Path({str(machine / 'out')!r})) for _ in range(2)]"
    run(machine, code)
    assert len((machine / "record").read_text().splitlines()) == 4


def test_versions(machine):
    assert json.loads(run(machine, "import json; print(json.dumps(find().versions()))")) == {
        "arch": "dav-3510",
        "cann": "9.2.0",
        "torch": "2.13.0",
        "torch_npu": "2.13.0",
    }


def test_cann_without_torch_stops_with_the_command(machine):
    text = run(machine, "find()", site=False)
    assert f"CANN is in sight ({machine / 'cann'})" in text
    for line in ("torch: not seen by", "torch_npu: not seen by", "Then run: pip install --no-build-isolation ."):
        assert line in text
    assert "QBSA_BUILD=cpu pip install" in text and "bisheng:" not in text


@pytest.mark.parametrize(
    ("absent", "line"),
    [("lib64/libascendcl.so", "CANN: no lib64/libascendcl.so in"), ("bin/bisheng", "bisheng: not in CANN's folders")],
)
def test_every_missing_piece_is_named(machine, monkeypatch, absent, line):
    monkeypatch.setenv("PATH", "")
    (machine / "cann" / absent).unlink()
    text = run(machine, "find()")
    assert line in text and "torch: not seen" not in text


def test_modes(machine, monkeypatch):
    monkeypatch.setenv("QBSA_BUILD", "cpu")
    assert run(machine, "print(find())") == "None\n"
    monkeypatch.setenv("QBSA_BUILD", "gpu")
    assert run(machine, "find()") == "QBSA_BUILD must be one of auto, npu, cpu; got 'gpu'\n"
    monkeypatch.delenv("ASCEND_HOME_PATH")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("QBSA_BUILD", "auto")
    assert run(machine, "CANN_FOLDERS = (); print(find())") == "None\n"
    monkeypatch.setenv("QBSA_BUILD", "npu")
    text = run(machine, "find()", site=False)
    for piece in ("CANN: no", "bisheng: not", "torch: not", "torch_npu: not"):
        assert piece in text


def test_failing_compile_shows_the_compilers_message(machine, monkeypatch):
    monkeypatch.setenv("FAIL_AT", "launch.asc")
    text = run(machine, f"build(find(), Path({str(machine / 'out')!r}))")
    assert "error: this kernel is broken" in text and "-x asc" in text


def test_cmake_builds_the_same_library():
    """The kernel developer's CMakeLists.txt names the sources, the arch and the defines of the package build."""
    text = (ROOT / "kernels_ascendc" / "CMakeLists.txt").read_text()
    build = runpy.run_path(str(ROOT / "tools" / "build_npu.py"))
    toolchain = build["Toolchain"](Path("cann"), Path("bisheng"), Path("torch"), Path("torch_npu"))
    asc = build["commands"](toolchain, ROOT / "out")[1]
    assert f'"{build["ARCH"]}"' in text and "launch.asc" in text and "launch.aicpu" in text
    assert {f"-D{define}" for define in ("ENABLE_CV_COMM_VIA_SSBUF=true", "ASCENDC_DUMP=0")} < set(asc)
    for define in (option[2:] for option in asc if option.startswith("-D")):
        assert define in text
