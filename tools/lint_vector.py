"""Holds the rules of vector functions (__simd_vf__, __simd_callee__) that only bisheng and the hardware know.

    python3 tools/lint_vector.py [FILE...]        default: kernels_ascendc/*.h

Rules, by the name that a violation shows:
    loop-form    loops are `for (uint16_t i = 0; i < bound; ++i)`
    loop-bound   a loop changes neither its counter nor its bound; a bound is no counter of a loop around it
    loop-depth   at most 4 levels, loops of callees included
    branch       no if (but if constexpr), ternary, while, do, switch, goto, break or continue
    member       no member access (. or ->)
    parameter    arithmetic scalars and __ubuf__ pointers to them; in a __simd_callee__ registers by reference too
    call         only Reg API, __simd_callee__ functions and casts
    registers    live RegTensor and MaskReg never exceed kVectorRegisters and kMaskRegisters of arch.h

A register variable is live from the instruction that first names it to the one that last names it; an instruction may
write its result over an operand that dies there. A variable from outside a loop that the loop names is live in all of
the loop. Callees count as inlined, with their template arguments; every combination of the `if constexpr` conditions
that these leave open is looked at.

Exit status: 0 clean, 1 violations, 2 cannot run.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

from vector_source import (
    COUNTED,
    Block,
    Choice,
    Declaration,
    Function,
    Loop,
    Violation,
    call_at,
    read_functions,
    spell,
    template_arguments,
)

ROOT = pathlib.Path(__file__).resolve().parents[1]
ARCH = ROOT / "kernels_ascendc" / "arch.h"

MAX_LOOP_DEPTH = 4  # hardware loops
MAX_COMBINATIONS = 4096
INFINITY = float("inf")


CONSTANT = re.compile(r"(\w+::)+\w+|\d+")  # an enumerator with its type, or a number


def outside_parentheses(text, separator):
    """Parts of the text between the separators that stand in no parentheses."""
    parts, depth, begin = [], 0, 0
    for index, character in enumerate(text):
        if depth == 0 and index >= begin and text.startswith(separator, index):
            parts.append(text[begin:index])
            begin = index + len(separator)
        depth += (character == "(") - (character == ")")
    return [*parts, text[begin:]]


class ViolationError(Exception):
    """What stops the look at a function: line, rule, text."""


@dataclasses.dataclass(eq=False)
class Variable:
    kind: str
    loops: tuple  # loops around the declaration
    first: float = INFINITY
    last: float = -INFINITY


@dataclasses.dataclass(eq=False)
class Span:
    """Instructions [begin, end) of one loop."""

    begin: int
    end: int = 0


class Flow:
    """A function with its callees inlined and one set of `if constexpr` outcomes, as a line of instructions."""

    def __init__(self, function, callees, forced):
        """callees: {name: [Function]}. forced: outcomes of the first choices; the others are taken to be true."""
        self.callees = callees
        self.forced = forced
        self.outcomes = {}
        self.lines = []  # source line of each instruction
        self.mentions = []  # (variable, instruction, loops around it)
        self.variables = []
        self.loops = ()
        self.depth = 0
        self.callers = ()  # names of the callees that are open
        self.bindings = {}  # template parameter of the open callee -> what it stands for
        registers = [parameter for parameter in function.parameters if parameter.kind in COUNTED]
        scope = {parameter.name: self.declare(parameter.kind) for parameter in registers}
        for variable in self.variables:  # of the caller: live all the time
            variable.first, variable.last = -INFINITY, INFINITY
        self.run(function.body, [scope])
        self.close_ranges()

    def declare(self, kind):
        self.variables.append(Variable(kind, self.loops))
        return self.variables[-1]

    def close_ranges(self):
        for variable, position, loops in self.mentions:
            outer = next((loop for loop in loops if loop not in variable.loops), None)
            begin, end = (outer.begin - 0.5, outer.end - 0.5) if outer else (position, position)
            variable.first = min(variable.first, begin)
            variable.last = max(variable.last, end)

    def run(self, nodes, scopes):
        scopes = [*scopes, {}]
        for node in nodes:
            if isinstance(node, Block):
                self.run(node.body, scopes)
            elif isinstance(node, Loop):
                self.loop(node, scopes)
            elif isinstance(node, Choice):
                self.run(node.then if self.holds(node.condition) else node.other, scopes)
            elif isinstance(node, Declaration) and node.is_reference:
                scopes[-1][node.name] = self.find(node.tokens, scopes, node.line)
            elif isinstance(node, Declaration):
                variable = scopes[-1][node.name] = self.declare(node.kind)
                if node.tokens:
                    self.instruction(node.line, [variable, *self.registers(node.tokens, scopes)])
            else:
                self.statement(node, scopes)

    def loop(self, node, scopes):
        span = Span(len(self.lines))
        self.loops = (*self.loops, span)
        self.depth = max(self.depth, len(self.loops))
        self.run(node.body, scopes)
        self.loops = self.loops[:-1]
        span.end = len(self.lines)

    def bind(self, text):
        """The text with the template parameters of the open callee replaced."""
        return re.sub(r"\w+", lambda word: self.bindings.get(word.group(), word.group()), text)

    def holds(self, condition):
        """Outcome of an `if constexpr` condition."""
        return self.decide(self.bind(condition).replace(" ", ""))

    def decide(self, text):
        for separator, combine in (("||", any), ("&&", all)):
            parts = outside_parentheses(text, separator)
            if len(parts) > 1:
                return combine([self.decide(part) for part in parts])
        if text.startswith("("):
            return self.decide(text[1:-1])
        if text.startswith("!") and (text[1] == "(" or "=" not in text):
            return not self.decide(text[1:])
        sides = text.replace("!=", "==").split("==")
        if len(sides) == 2 and all(CONSTANT.fullmatch(side) for side in sides):
            return (sides[0] == sides[1]) == ("!=" not in text)
        if "!=" in text:
            return not self.outcome(text.replace("!=", "=="))
        return text == "true" or (text != "false" and self.outcome(text))

    def outcome(self, condition):
        """The same condition has the same outcome wherever it stands."""
        if condition not in self.outcomes:
            index = len(self.outcomes)
            self.outcomes[condition] = self.forced[index] if index < len(self.forced) else True
        return self.outcomes[condition]

    def statement(self, node, scopes):
        places = (i for i, token in enumerate(node.tokens) if token.text in self.callees and call_at(node.tokens, i))
        place = next(places, None)
        if place is None:
            self.instruction(node.line, self.registers(node.tokens, scopes))
            return
        name, arguments = call_at(node.tokens, place)
        callee = next((f for f in self.callees[name] if len(f.parameters) == len(arguments)), None)
        if callee is None:
            raise ViolationError(node.line, "call", f"no {name} takes {len(arguments)} arguments")
        if name in self.callers:
            raise ViolationError(node.line, "call", f"{name} calls itself")
        pairs = [pair for pair in zip(callee.parameters, arguments) if pair[0].kind in COUNTED]
        scope = {parameter.name: self.find(argument, scopes, node.line) for parameter, argument in pairs}
        values = [
            f"({self.bind(value)})" if " " in value else self.bind(value)
            for value in template_arguments(node.tokens, place)
        ]
        outer = self.callers, self.bindings
        self.callers, self.bindings = (*self.callers, name), dict(zip(callee.template, values))
        self.run(callee.body, [scope])
        self.callers, self.bindings = outer

    def instruction(self, line, variables):
        if variables:
            self.mentions += [(variable, len(self.lines), self.loops) for variable in variables]
            self.lines.append(line)

    @staticmethod
    def registers(tokens, scopes):
        """Register variables that the tokens name."""
        found = [next((scope[t.text] for scope in reversed(scopes) if t.text in scope), None) for t in tokens]
        return [variable for variable in found if variable is not None]

    def find(self, tokens, scopes, line):
        """The register variable that an argument or a reference stands for, through casts."""
        found = self.registers(tokens, scopes)
        if len(found) != 1:
            raise ViolationError(line, "registers", f"{spell(tokens)} names no register variable")
        return found[0]

    def peak(self, kind):
        """(most live at once, source line)."""
        variables = [variable for variable in self.variables if variable.kind == kind]
        best = (sum(variable.last == INFINITY for variable in variables), 0)
        for position, line in enumerate(self.lines):
            before = sum(v.first < position <= v.last for v in variables)
            after = sum(v.first <= position < v.last or v.first == v.last == position for v in variables)
            best = max(best, (max(before, after), line), key=lambda peak: peak[0])
        return best


@dataclasses.dataclass
class Measure:
    """What one function needs, callees included."""

    function: Function
    depth: int
    peaks: dict  # kind -> (count, source line)


def measure(function, callees):
    """The worst over all combinations of `if constexpr` branches."""
    result = Measure(function, 0, dict.fromkeys(COUNTED, (0, function.line)))
    pending = [[]]
    for _ in range(MAX_COMBINATIONS):
        forced = pending.pop()
        flow = Flow(function, callees, forced)
        outcomes = list(flow.outcomes.values())
        pending += [outcomes[:index] + [False] for index in range(len(forced), len(outcomes))]
        result.depth = max(result.depth, flow.depth)
        for kind in COUNTED:
            result.peaks[kind] = max(result.peaks[kind], flow.peak(kind), key=lambda peak: peak[0])
        if not pending:
            return result
    raise ViolationError(function.line, "branch", f"more than {MAX_COMBINATIONS} combinations of if constexpr")


def lint(sources, limits):
    """(measures, violations) of {file name: text}. limits: {"RegTensor": most live at once, "MaskReg": ...}."""
    functions, violations = read_functions(sources)
    callees = {}
    for function in functions:
        if not function.is_entry:
            callees.setdefault(function.name, []).append(function)
    measures = []
    for function in functions:
        try:
            measures.append(measure(function, callees))
        except ViolationError as error:
            violations.append(Violation(function.file, *error.args))
    for item in measures:
        function = item.function
        if item.depth > MAX_LOOP_DEPTH:
            text = f"{function.name} nests {item.depth} loops, {MAX_LOOP_DEPTH} are allowed"
            violations.append(Violation(function.file, function.line, "loop-depth", text))
        for kind, (count, line) in item.peaks.items():
            if count > limits[kind]:
                text = f"{function.name} keeps {count} {kind} live (around line {line}), {limits[kind]} exist"
                violations.append(Violation(function.file, function.line, "registers", text))
    return measures, sorted(set(violations))


def read_limits(path):
    """Register counts of arch.h."""
    text = path.read_text()
    limits = {}
    for kind, name in zip(COUNTED, ("kVectorRegisters", "kMaskRegisters")):
        match = re.search(rf"\b{name} = (\d+);", text)
        if not match:
            raise ValueError(f"{path}: no {name}")
        limits[kind] = int(match.group(1))
    return limits


def main():
    parser = argparse.ArgumentParser(description="Lint of the vector functions.")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="default: kernels_ascendc/*.h")
    files = parser.parse_args().files or sorted((ROOT / "kernels_ascendc").glob("*.h"))
    try:
        limits = read_limits(ARCH)
        measures, violations = lint({str(file): file.read_text() for file in files}, limits)
    except (OSError, ValueError) as error:
        print(f"lint_vector: {error}", file=sys.stderr)
        return 2
    print(f"{'function':32} {'loops':>5} " + " ".join(f"{kind:>9}" for kind in COUNTED))
    for item in measures:
        print(f"{item.function.name:32} {item.depth:5} " + " ".join(f"{item.peaks[kind][0]:9}" for kind in COUNTED))
    for violation in violations:
        print(violation)
    allowed = ", ".join(f"{limit} {kind}" for kind, limit in limits.items())
    print(f"{len(measures)} functions, {len(violations)} violations (limits: {MAX_LOOP_DEPTH} loops, {allowed})")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
