"""The type check of the NPU sources: its own code always, the check where ASC_DEVKIT names the Ascend C headers."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOOL = ROOT / "tools" / "typecheck"
sys.path.insert(0, str(TOOL))

import typecheck  # noqa: E402

needs_headers = pytest.mark.skipif(
    not os.environ.get("ASC_DEVKIT"),
    reason="ASC_DEVKIT names no Ascend C headers (asc-devkit checkout or CANN installation)",
)


@pytest.mark.parametrize(
    ("written", "parsed"),
    [
        ("k<<<n, 0, stream>>>(a, b);", "::typecheck::launch(k, n, 0, stream)(a, b);"),
        ("qbsa::k<<<1, nullptr, s>>>(&a, sizeof(a));", "::typecheck::launch(qbsa::k, 1, nullptr, s)(&a, sizeof(a));"),
        ("k<float, 3><<<f(n), 0, s>>>(a);", "::typecheck::launch(k<float, 3>, f(n), 0, s)(a);"),
        ("k<<<\n    n,\n    0, s>>>\n    (a);", "::typecheck::launch(k, \n    n,\n    0, s)\n    (a);"),
        ("x = a << b; y = c >> d;", "x = a << b; y = c >> d;"),
        ("// k<<<n, 0, s>>>(a)\nk<<<n, 0, s>>>(a);", "// k<<<n, 0, s>>>(a)\n::typecheck::launch(k, n, 0, s)(a);"),
        ('print("k<<<n, 0, s>>>(a)");', 'print("k<<<n, 0, s>>>(a)");'),
        (
            "a<<<1, 0, s>>>(x); b<<<2, 0, s>>>(y);",
            "::typecheck::launch(a, 1, 0, s)(x); ::typecheck::launch(b, 2, 0, s)(y);",
        ),
    ],
)
def test_launches_become_checked_calls(written, parsed):
    assert typecheck.rewrite_launches(written) == parsed


def test_lines_keep_their_numbers():
    text = typecheck.LAUNCH.read_text()
    rewritten = typecheck.rewrite_launches(text)
    assert "<<<" not in rewritten and rewritten.count("\n") == text.count("\n")
    assert rewritten.count("::typecheck::launch(") == text.count("<<<") == 3


def test_errors_show_where_the_project_takes_part():
    cube, header = ROOT / "kernels_ascendc" / "cube.h", "/devkit/impl/fixpipe.h"
    diagnostics = f"""In file included from {ROOT}/kernels_ascendc/launch.asc:9:
{cube}:12:5: error: no member named 'rows' in 'AscendC::Nd2NzParams'
{header}:40:5: error: static assertion failed: dtype
{header}:90:9: note: in instantiation of function template specialization 'f<int>' requested here
{cube}:77:9: note: in instantiation of function template specialization 'Fixpipe<int>' requested here
{cube}:66:9: note: in instantiation of member function 'run' requested here
{header}:7:1: error: unknown type name 'vector_new'
{cube}:30:9: error: no matching function for call to 'Mul'
{header}:8:1: note: candidate function not viable: requires 4 arguments
{cube}:30:9: error: no matching function for call to 'Mul'
5 errors generated.
"""
    shown = [str(finding) for finding in typecheck.read_findings(diagnostics, ROOT)]
    assert shown == [
        "kernels_ascendc/cube.h:12: error: no member named 'rows' in 'AscendC::Nd2NzParams'",
        f"kernels_ascendc/cube.h:77: error: static assertion failed: dtype\n    found at {header}:40",
        f"{header}:7: error: unknown type name 'vector_new'",
        "kernels_ascendc/cube.h:30: error: no matching function for call to 'Mul'\n"
        "    candidate function not viable: requires 4 arguments",
    ]


def test_planted_mistakes_are_read():
    mistakes = typecheck.read_mistakes()
    assert len(mistakes) == typecheck.MISTAKES.read_text().count("\n- ") > 20
    for what, core, right, wrong in mistakes:
        assert right != wrong and core in typecheck.PASS_MACROS, what


@pytest.mark.parametrize("layout", [".", "asc", "x86_64-linux/asc", "aarch64-linux/asc"])
def test_headers_are_found_in_checkout_and_installation(layout, tmp_path):
    (tmp_path / layout / "include").mkdir(parents=True)
    (tmp_path / layout / "include" / "kernel_operator.h").touch()
    with pytest.raises(typecheck.CannotRunError, match="dav_3510"):
        typecheck.find_headers(tmp_path)
    (tmp_path / layout / "impl" / "basic_api" / "dav_3510").mkdir(parents=True)
    assert typecheck.find_headers(tmp_path) == tmp_path / layout


def test_missing_headers_are_said():
    environment = {name: value for name, value in os.environ.items() if name != "ASC_DEVKIT"}
    done = subprocess.run([sys.executable, TOOL / "typecheck.py"], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    for word in ("--headers PATH", "ASC_DEVKIT=PATH", "asc-devkit", "CANN"):
        assert word in done.stderr


def test_missing_clang_is_said(monkeypatch):
    monkeypatch.setenv("CLANG", "false")
    with pytest.raises(typecheck.CannotRunError, match=r"\$CLANG=false is not a clang 19 or newer"):
        typecheck.find_clang()
    monkeypatch.delenv("CLANG")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(typecheck.CannotRunError, match="apt install clang-19"):
        typecheck.find_clang()


@needs_headers
def test_npu_sources_are_clean(capsys):
    errors = typecheck.check_project(typecheck.Checker(os.environ["ASC_DEVKIT"]))
    assert errors == 0, capsys.readouterr().out


@needs_headers
def test_every_planted_mistake_is_reported(capsys):
    failures = typecheck.self_test(typecheck.Checker(os.environ["ASC_DEVKIT"]))
    assert failures == 0, capsys.readouterr().out
