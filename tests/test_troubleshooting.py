"""Every message that a user can meet has a heading in docs/troubleshooting.md, and every heading is a message."""

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HOLE = "…"
KINDS = {
    *("ValueError", "TypeError", "RuntimeError", "NotImplementedError", "FileNotFoundError", "FileExistsError"),
    *("UnavailableError", "Answer"),
}
TEXT_OF = {"Answer": 2}  # which argument is the message, where it is not the first
# Calls that raise, and which of their arguments is the rule. They are not looked into.
REFUSALS = {"refuse": 2, "_refuse_where": 3}
COMMON_WORDS = {"must", "be", "have", "got", "in", "of", "the", "is"}
# Headings about what other programs say.
FOREIGN = {"libhccl.so: cannot open shared object file"}


def headings() -> list[str]:
    return re.findall(r"^### `(.*)`$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.M)


def pattern(heading: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, heading.split(HOLE))), re.S)


def covers(heading: str, message: str) -> bool:
    """A heading of common words alone stands for the message that has no other."""
    telling = [word for word in re.findall(r"[A-Za-z_]+|\d", heading) if word not in COMMON_WORDS]
    return heading == message or (bool(telling) and pattern(heading).fullmatch(message) is not None)


def forms(node: ast.expr | None, names: dict[str, list[str]]) -> list[str]:
    """What a string expression can be, with a hole for whatever is not written in the function."""
    if isinstance(node, ast.Constant):
        return [node.value if isinstance(node.value, str) else HOLE]
    if isinstance(node, ast.IfExp):
        return [*forms(node.body, names), *forms(node.orelse, names)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [forms(node.left, names), forms(node.right, names)]
    elif isinstance(node, ast.JoinedStr):
        parts = [forms(value.value if isinstance(value, ast.FormattedValue) else value, names) for value in node.values]
    else:
        return names.get(node.id, [HOLE]) if isinstance(node, ast.Name) else [HOLE]
    return ["".join(chosen) for chosen in itertools.product(*parts)]


def messages_of(function: ast.FunctionDef) -> list[str]:
    names: dict[str, list[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found = [form for form in forms(node.value, names) if re.search("[a-z]", form)]
            if found:
                names.setdefault(node.targets[0].id, []).extend(found)
    found = []
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func).rpartition(".")[2]
        if name in REFUSALS:
            rules = forms(call.args[REFUSALS[name]], names)
            whose = forms(call.args[REFUSALS[name] - 1], names) if name == "refuse" else [HOLE]
            given = forms(call.args[3], names) if name == "refuse" else [HOLE]
            found += [f"{who} {rule}; got {got}" for who, rule, got in itertools.product(whose, rules, given)]
        elif name in KINDS and len(call.args) > TEXT_OF.get(name, 0):
            found += forms(call.args[TEXT_OF.get(name, 0)], names)
    return found


def raised(module: Path) -> list[str]:
    tree = ast.parse(module.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name not in REFUSALS]
    return [message for function in functions for message in messages_of(function)]


def messages() -> dict[str, str]:
    """First line -> module."""
    found = {}
    for module in sorted((ROOT / "ops").glob("*.py")):
        for message in raised(module):
            first = message.partition("\n")[0]
            if re.search("[a-z]{3}", first.replace(HOLE, "").replace("got", "")):
                found[first] = module.name
    return found


MESSAGES = messages()


def test_messages_are_found():
    wanted = ("… must be contiguous (pass a .contiguous() copy); got strides …", "… must be one of …; got …")
    assert set(wanted) <= MESSAGES.keys() and len(MESSAGES) > 80


@pytest.mark.parametrize("message", MESSAGES, ids=[f"{module}: {message}" for message, module in MESSAGES.items()])
def test_a_message_has_an_entry(message):
    found = [heading for heading in headings() if covers(heading, message)]
    assert found, f"add a heading to docs/troubleshooting.md for {message!r} of ops/{MESSAGES[message]}"


def test_every_entry_is_a_message():
    sources = [path for folder in ("twin", "kernels_ascendc", "metadata") for path in (ROOT / folder).rglob("*.[hca]*")]
    text = "".join(path.read_text() for path in [*sources, ROOT / "setup.py"])
    for heading in headings():
        if heading in FOREIGN or any(covers(heading, message) for message in MESSAGES):
            continue
        fixed = max(heading.split(HOLE), key=len).strip(" :;")
        assert fixed in text, f"docs/troubleshooting.md: no message is {heading!r}"


def test_entries_are_distinct_and_say_something():
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    bodies = re.findall(r"^### .*\n((?:(?!#).*\n)*)", text, re.M)
    assert len(set(headings())) == len(headings())
    assert all(body.strip() for body in bodies) and len(bodies) == len(headings())
