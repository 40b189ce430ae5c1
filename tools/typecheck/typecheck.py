"""Checks the NPU sources against the real Ascend C headers with clang, without bisheng.

    python3 tools/typecheck/typecheck.py --headers PATH     PATH: asc-devkit checkout, or CANN installation
    python3 tools/typecheck/typecheck.py --headers PATH --self-test

launch.asc is parsed twice, as bisheng does: once for the cube core (AIC), once for the vector core (AIV); it
instantiates the whole kernel. launch.aicpu is parsed once. Memories are clang address spaces, include/bisheng.h stands
in for the compiler. Proven: names, argument and template types, fields, address spaces, static_asserts of the headers.
Not proven: what only bisheng knows (loop forms, registers, stack), alignment, ranges, results.

Exit status: 0 clean, 1 errors found, 2 cannot run.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LAUNCH = ROOT / "kernels_ascendc" / "launch.asc"
AICPU = ROOT / "metadata" / "launch.aicpu"
SAMPLE = HERE / "sample.asc"
MISTAKES = HERE / "mistakes.txt"
MIN_CLANG = 19

# Below include/ and impl/ of the headers.
HEADER_FOLDERS = ["", "basic_api", "basic_api/reg_compute", "utils"]
DEVICE_MACROS = [
    "__NPU_ARCH__=3510",
    "__CCE_AICORE__=310",
    "__DAV_C310__",
    "__NPU_DEVICE__",
    "ASCENDC_DUMP=0",
    "ENABLE_CV_COMM_VIA_SSBUF=true",
]
PASS_MACROS = {"AIC": ["__DAV_CUBE__", "__DAV_C310_CUBE__"], "AIV": ["__DAV_VEC__", "__DAV_C310_VEC__"]}


class CannotRunError(Exception):
    """The check cannot start; the text says what to do."""


@dataclasses.dataclass
class Finding:
    """One error: where it shows in the project (or in the headers when the project has no part in it) and why."""

    path: str
    line: int
    text: str
    origin: str  # place in the headers that complained, or ""
    reason: str  # clang's first explanation, or ""

    def __str__(self):
        lines = [f"{self.path}:{self.line}: error: {self.text}"]
        if self.reason:
            lines.append(self.reason)
        if self.origin:
            lines.append(f"found at {self.origin}")
        return "\n    ".join(lines)


@dataclasses.dataclass
class Result:
    name: str
    files: int
    findings: list
    seconds: float


def find_headers(path):
    """Folder that holds include/ and impl/ of Ascend C."""
    if not path:
        raise CannotRunError(
            "no Ascend C headers given. Pass --headers PATH (make typecheck ASC_DEVKIT=PATH); PATH is a checkout of "
            "asc-devkit (it has include/ and impl/) or a CANN installation ($ASCEND_HOME_PATH, it has asc/include/)."
        )
    root = pathlib.Path(path).resolve()
    candidates = [root, root / "asc", *sorted(root.glob("*-linux/asc"))]
    for folder in candidates:
        has_api = any((folder / "include" / part / "kernel_operator.h").is_file() for part in HEADER_FOLDERS)
        if has_api and (folder / "impl" / "basic_api" / "dav_3510").is_dir():
            return folder
    tried = ", ".join(str(folder) for folder in candidates)
    raise CannotRunError(
        f"--headers {path}: no include/kernel_operator.h with impl/basic_api/dav_3510 beside it in any of: {tried}."
    )


def clang_version(command):
    """Major version of a clang command, or 0."""
    try:
        text = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return 0
    match = re.search(r"clang version (\d+)", text)
    return int(match.group(1)) if match else 0


def find_clang():
    """Command of a clang that is new enough."""
    chosen = os.environ.get("CLANG")
    if chosen:
        if clang_version(chosen) < MIN_CLANG:
            raise CannotRunError(f"$CLANG={chosen} is not a clang {MIN_CLANG} or newer.")
        return chosen
    names = [f"clang++-{version}" for version in range(MIN_CLANG, MIN_CLANG + 8)] + ["clang++"]
    for name in names:
        if shutil.which(name) and clang_version(name) >= MIN_CLANG:
            return name
    raise CannotRunError(
        f"clang {MIN_CLANG} or newer not found. Install it (Debian and Ubuntu: apt install clang-{MIN_CLANG}; others: "
        f"https://releases.llvm.org) or name one in $CLANG."
    )


def blank_comments_and_strings(text):
    """The text with comments and literals replaced by spaces, every other character in its place."""
    pattern = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def rewrite_launches(text, launcher="::typecheck::launch"):
    """kernel<<<a, b, c>>>(args) -> launcher(kernel, a, b, c)(args): C++ in which both lists are checked.

    Lines keep their numbers.
    """
    launch = re.compile(r"([A-Za-z_][\w:]*(?:<[^<>;{}]*>)?)\s*<<<([^;{}]*?)>>>(?=\s*\()")
    pieces = []
    end = 0
    for match in launch.finditer(blank_comments_and_strings(text)):
        kernel, configuration = (text[slice(*match.span(group))] for group in (1, 2))
        pieces += [text[end : match.start()], f"{launcher}({kernel}, {configuration})"]
        end = match.end()
    return "".join(pieces) + text[end:]


def read_findings(diagnostics, root):
    """Groups clang's text output into Findings, each at the innermost place below root that took part."""
    place = re.compile(r"^(.+?):(\d+)(?::\d+)?: (fatal error|error|note): (.*)$", re.MULTILINE)
    groups = []  # an error and its notes, as (path, line, text)
    for path, line, kind, text in place.findall(diagnostics):
        if kind != "note":
            groups.append([])
        if groups:
            groups[-1].append((pathlib.Path(os.path.realpath(path)), int(line), text))
    findings = {}
    for group in groups:
        path, line, text = group[0]
        shown = next((place for place in group if place[0].is_relative_to(root)), group[0])
        finding = Finding(
            path=os.path.relpath(shown[0], root) if shown[0].is_relative_to(root) else str(shown[0]),
            line=shown[1],
            text=text,
            origin="" if shown is group[0] else f"{path}:{line}",
            reason=next((note for _, _, note in group[1:] if note.startswith("candidate")), ""),
        )
        findings.setdefault((finding.path, finding.line, finding.text), finding)
    return list(findings.values())


class Checker:
    """One clang and one set of headers."""

    def __init__(self, headers):
        self.headers = find_headers(headers)
        self.clang = find_clang()
        self.flags = ["-fsyntax-only", "-std=c++17", "-w", "-ferror-limit=0", "-fno-caret-diagnostics"]
        self.flags += ["-fdiagnostics-absolute-paths", "-fno-color-diagnostics", "-ftemplate-backtrace-limit=0"]

    def device(self, name, path, text=None):
        """Parses an .asc file for the core type `name`. text: instead of what the file holds."""
        folders = [self.headers / part / folder for part in ("include", "impl") for folder in HEADER_FOLDERS]
        flags = [f"-I{folder}" for folder in (HERE / "include", self.headers, *folders)]
        flags += [f"-D{macro}" for macro in DEVICE_MACROS + PASS_MACROS[name]]
        flags += ["-include", str(HERE / "include" / "bisheng.h")]
        source = path.read_text() if text is None else text
        return self.parse(name, path, rewrite_launches(source), flags)

    def aicpu(self, path):
        """Parses an .aicpu file."""
        flags = [f"-I{self.headers / 'include' / 'aicpu_api'}", "-D__global__=", "-D__aicpu__="]
        return self.parse("AICPU", path, path.read_text(), flags)

    def parse(self, name, path, text, flags):
        """Runs clang on text as if it stood in path."""
        start = time.monotonic()
        command = [self.clang, *self.flags, *flags, f"-iquote{path.parent}", "-H", "-x", "c++", "-"]
        source = f'#line 1 "{path}"\n{text}'
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        findings = read_findings(done.stderr, ROOT)
        if done.returncode != 0 and not findings:
            raise CannotRunError(f"{self.clang} failed:\n{done.stderr}")
        included = re.findall(r"^\.+ (.+)$", done.stderr, re.MULTILINE)
        included = {pathlib.Path(os.path.realpath(file)) for file in included}
        ours = [file for file in included if file.is_relative_to(ROOT) and not file.is_relative_to(HERE)]
        return Result(name, len(ours) + 1, findings, time.monotonic() - start)


def check_project(checker):
    """All passes over the project; prints findings and a table."""
    results = [checker.device(name, LAUNCH) for name in PASS_MACROS] + [checker.aicpu(AICPU)]
    passes = {}
    for result in results:
        for finding in result.findings:
            passes.setdefault(str(finding), []).append(result.name)
    for text, names in passes.items():
        print(f"[{', '.join(names)}] {text}")
    print(f"headers {checker.headers}, {checker.clang}")
    print(f"{'pass':6} {'files':>6} {'errors':>7} {'seconds':>8}")
    for result in results:
        print(f"{result.name:6} {result.files:6} {len(result.findings):7} {result.seconds:8.1f}")
    return sum(len(result.findings) for result in results)


def read_mistakes():
    """(what, core type, right text, wrong text) of each mistake to plant; the right text stands once in the sample."""
    entries = re.findall(r"^(AI[CV]) (.*)\n- (.*)\n\+ (.*)$", MISTAKES.read_text(), re.MULTILINE)
    sample = SAMPLE.read_text()
    for _, what, right, _ in entries:
        if sample.count(right) != 1:
            raise CannotRunError(f"{MISTAKES}: the right text of '{what}' must stand once in {SAMPLE}.")
    return [(what, core, right, wrong) for core, what, right, wrong in entries]


def self_test(checker):
    """The sample kernel must be clean, and each planted mistake reported in it; prints what was missed."""
    sample = SAMPLE.read_text()
    failures = 0
    for name in PASS_MACROS:
        for finding in checker.device(name, SAMPLE).findings:
            print(f"[{name}] the sample without a mistake: {finding}")
            failures += 1

    def is_reported(mistake):
        _, core, right, wrong = mistake
        findings = checker.device(core, SAMPLE, sample.replace(right, wrong)).findings
        return any(finding.path == os.path.relpath(SAMPLE, ROOT) for finding in findings)

    mistakes = read_mistakes()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (what, _, right, wrong), reported in zip(mistakes, pool.map(is_reported, mistakes)):
            if not reported:
                failures += 1
                print(f"NOT REPORTED: {what}: {right} -> {wrong}")
    print(f"self-test: {len(mistakes)} planted mistakes, {failures} failures")
    return failures


def main():
    parser = argparse.ArgumentParser(description="Check the NPU sources against the real Ascend C headers.")
    parser.add_argument("--headers", default=os.environ.get("ASC_DEVKIT"), help="asc-devkit checkout or CANN root")
    parser.add_argument("--self-test", action="store_true", help="plant mistakes and see whether they are reported")
    options = parser.parse_args()
    try:
        checker = Checker(options.headers)
        return 1 if (self_test if options.self_test else check_project)(checker) else 0
    except CannotRunError as error:
        print(f"typecheck: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
