"""MkDocs hook: a paragraph that is nothing but a link to a source file becomes the comment at the head of that file."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"^\[[^]]+\]\(\.\./([\w./]+\.h)\)$", re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return LINK.sub(lambda link: f'```text title="{link[1]}"\n{head_comment(ROOT / link[1])}\n```', markdown)


def head_comment(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").partition("#pragma once")[0].splitlines()
    return "\n".join(line.removeprefix("//").removeprefix(" ") for line in lines)
