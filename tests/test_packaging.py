"""What a user installs: contents of the wheel and the source distribution; what the build says and when it compiles."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import qbsa
from qbsa import isa

ROOT = Path(__file__).resolve().parents[1]


def run(*command, **environment):
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment}
    )


def distribution(kind, folder):
    """Builds the "wheel" or "sdist" of this checkout as pip does; its path."""
    script = f"import sys, setuptools.build_meta as build; build.build_{kind}(sys.argv[1])"
    result = run(sys.executable, "-c", script, folder)
    assert result.returncode == 0, result.stdout + result.stderr
    (path,) = folder.iterdir()
    return path


def files_of(*patterns):
    return [path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()]


@pytest.mark.slow
def test_wheel_holds_modules_libraries_and_kernel_sources(tmp_path):
    wheel = distribution("wheel", tmp_path)
    assert wheel.name.split("-", 2)[2].startswith("py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    libraries = [*((name, False) for name in isa.names()), (isa.checked(), True)]
    expected = {f"qbsa/{path.name}" for path in files_of("ops/*.py", "ops/py.typed")}
    expected |= {f"qbsa/{isa.library_name(*library)}" for library in libraries} | {"qbsa/_build.json"}
    data = files_of("kernels_ascendc/*.h", "kernels_ascendc/*.asc", "kernels_ascendc/*.txt")
    data += files_of("metadata/*.h", "metadata/*.aicpu", "bundles/*.pt")
    expected |= {f"qbsa/{path.relative_to(ROOT)}" for path in data}
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.endswith("licenses/LICENSE") for name in names)
    for line in ("License-Expression: Apache-2.0", "Requires-Dist: torch>=2.10", "Requires-Dist: numpy"):
        assert line in metadata.splitlines()


@pytest.mark.slow
def test_source_distribution_holds_what_a_build_and_its_tests_need(tmp_path):
    with tarfile.open(distribution("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = (
        "ops",
        "kernels_ascendc",
        "metadata",
        "twin",
        "bundles",
        "tests",
        "tools",
        "examples",
        "benchmarks",
        "docs",
    )
    sources = files_of(*(f"{folder}/**/*.*" for folder in folders))
    expected = {str(path.relative_to(ROOT)) for path in sources if path.suffix not in (".so", ".pyc", ".tmp")}
    expected |= {"setup.py", "pyproject.toml", "Makefile", "LICENSE", ".clang-format", "mkdocs.yml", "CITATION.cff"}
    assert expected | {path.name for path in ROOT.glob("*.md")} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


def test_the_version_stands_in_one_place():
    number = re.compile(rf"\b{re.escape(qbsa.__version__)}\b")
    sources = files_of("*.*", "ops/*.py", "docs/*.md", "tools/*.py", "kernels_ascendc/*")
    assert {str(path.relative_to(ROOT)) for path in sources if number.search(path.read_text())} == {
        "CHANGELOG.md",
        "ops/__init__.py",
    }
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest and newest[1] == qbsa.__version__


@pytest.fixture
def checkout(tmp_path):
    """What a build reads, in a folder of its own, so that nothing is up to date."""
    for name in ("ops", "kernels_ascendc", "metadata", "bundles", "twin", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def build(folder, **environment):
    script = "import os, runpy, sys; os.chdir(sys.argv.pop(1)); runpy.run_path('setup.py')"
    return run(sys.executable, "-c", script, folder, "-q", "build_twin", "--inplace", **environment)


def test_absent_compiler_is_named(checkout):
    result = build(checkout, CXX="no-such-compiler")
    assert result.returncode != 0
    assert "'no-such-compiler' was not found. Install it" in result.stderr


def test_failing_compile_shows_the_compilers_message(checkout):
    (checkout / "twin" / "twin.cpp").write_text("#error this source is broken\n")
    result = build(checkout)
    assert result.returncode != 0
    assert "this source is broken" in result.stderr
    assert not list(checkout.glob("**/*.so"))


def test_only_older_libraries_are_compiled_again(checkout):
    (checkout / "twin" / "twin.cpp").write_text('extern "C" int nothing() { return 0; }\n')
    libraries = len(isa.names()) + 1

    def compiles():
        result = build(checkout)
        assert result.returncode == 0, result.stderr
        assert len(list(checkout.glob("ops/*.so"))) == libraries
        return result.stdout.count(" -o ")

    assert compiles() == libraries
    assert compiles() == 0
    header = next(checkout.glob("kernels_ascendc/*.h"))
    newest = max(path.stat().st_mtime for path in checkout.glob("build/twin/*.so"))
    os.utime(header, (newest + 1, newest + 1))
    assert compiles() == libraries
