"""What all commands have in common: help with examples, exit codes, JSON, quiet and verbose, no need of a terminal."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from qbsa import bundle, cli, console

COMMANDS = ["env", "selfcheck", "bench", "kernels", "profile", "explain", "plan"]
ACTIONS = ["make", "verify", "diff", "manifest", "list"]
ALL = [[name] for name in COMMANDS] + [["bundle", action] for action in ACTIONS]
ROOT = Path(__file__).resolve().parents[1]
GOLDEN = str(bundle.committed()[0])


@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0 and "--json" in text and "--quiet" in text and "--verbose" in text
    options = [line for line in text.splitlines() if line.startswith("  -") or line.startswith("  [A-Z]")]
    if len(options) > 6:  # more than what all have
        assert f"examples:\n  python -m qbsa {' '.join(command)}" in text


def test_help_names_all_commands_and_exit_codes(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in (*COMMANDS, "bundle", "exit codes:", "docs/troubleshooting.md"))


@pytest.mark.parametrize("arguments", [[], ["no_such"], ["bench", "--no-such"], ["env", "-q", "-v"]])
def test_a_wrong_command_line_is_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "arguments", [["env"], ["bundle", "list"], ["bundle", "verify", GOLDEN], ["bench", "--list"]], ids=" ".join
)
def test_json_is_all_of_stdout(arguments, capsys):
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_json_has_no_nan(capsys, monkeypatch):
    answer = console.Answer("", {"a": [float("nan"), 1.5], "b": (float("-inf"),)})
    monkeypatch.setattr(cli, "_env", lambda *_: answer)
    assert cli.main(["env", "--json"]) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"a": ["nan", 1.5], "b": ["-inf"]}


def test_selfcheck_as_json(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.selfcheck, "run", lambda *_: (False, "ok  device\nFAILED  bundles"))
    assert cli.main(["selfcheck", "--device", "cpu", "-o", str(tmp_path / "r.txt"), "--json"]) == 1
    seen = capsys.readouterr()
    assert json.loads(seen.out)["passed"] is False and "a check failed" in seen.err


def test_quiet_leaves_the_exit_code(capsys, tmp_path):
    assert cli.main(["bundle", "verify", "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    assert cli.main(["bundle", "verify", "-q", str(tmp_path / "absent.pt")]) == 1
    seen = capsys.readouterr()
    assert seen.out == "" and seen.err == "python -m qbsa bundle: 1 of 1 bundles failed\n"


def test_verbose_shows_where_an_error_was_raised(capsys, tmp_path):
    for option, wanted in ((["-v"], True), ([], False)):
        assert cli.main(["plan", str(tmp_path / "absent.pt"), *option]) == 1
        assert ("Traceback" in capsys.readouterr().err) == wanted


def test_an_interrupt_is_130(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "environment", interrupted)
    assert cli.main(["env"]) == 130


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "qbsa", "env"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141 and done.stderr == ""


def test_without_rich_and_terminal_progress_is_lines(capsys, monkeypatch):
    monkeypatch.setattr(console, "_rich", lambda: None)
    assert list(console.Console().progress(["a", "b"], str.upper)) == ["a", "b"]
    assert [line.split("] ")[1] for line in capsys.readouterr().err.splitlines()] == ["A", "B"]


def test_with_rich_and_a_terminal_progress_is_a_bar(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(console.Console().progress(["a", "b"], str.upper)) == ["a", "b"]
    assert "2/2" in capsys.readouterr().err


def test_tables_line_up():
    assert console.table(("name", "n", "note"), [("a", "10", ""), ("bcdef", "9", "x y")]) == (
        "name    n  note\na      10\nbcdef   9  x y"
    )


def documented_commands():
    """What follows `python -m qbsa` in documents and in the examples of --help, comments behind # or 2 spaces apart."""
    texts = [path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]]
    texts += [path.read_text() for path in ROOT.glob("ops/*cli.py")]
    found = {line for text in texts for line in re.findall(r"^python -m qbsa (\S.*)$", text, re.M)}
    return sorted(re.split(r"#|  |\"\"\"", line)[0].strip() for line in found)


@pytest.mark.parametrize("command", documented_commands())
def test_a_documented_command_is_one(command):
    words = shlex.split(command)
    if words != ["--help"]:
        assert callable(cli._parser().parse_args(words).run)


def test_documented_commands_are_found():
    assert len(documented_commands()) > 30
