"""Reads the restricted C++ of vector functions (__simd_vf__, __simd_callee__) into a small tree.

lint_vector.py judges the tree. What the reader itself can tell of a rule it reports while reading. It knows the subset
that the rules allow; text outside vector functions is skipped.
"""

import dataclasses
import re

TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#(?:\\\n|[^\n])*)"
    r"|(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<literal>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<mark>\.\.\.|->|::|\+\+|--|<<=|[-+*/%&|^<=>!]=|&&|\|\||<<|.)",
    re.DOTALL,
)
PAIRS = {"(": ")", "[": "]", "{": "}"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<="}
JUMPS = {"if", "else", "while", "do", "switch", "case", "goto", "break", "continue"}
QUALIFIERS = {"const", "constexpr", "static", "inline", "volatile"}
ARITHMETIC = {"bool", "char", "int", "unsigned", "float", "half", "bfloat16_t", "hifloat8_t"}
ARITHMETIC |= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
ARITHMETIC |= {"fp8_e4m3fn_t", "fp8_e5m2_t", "fp8_e8m0_t"}
COUNTED = ("RegTensor", "MaskReg")
UNCOUNTED = ("UnalignRegForLoad", "UnalignRegForStore", "AddrReg")
NO_CALLS = {"sizeof", "alignof", "static_cast", "reinterpret_cast", "static_assert", "decltype"}


@dataclasses.dataclass(frozen=True)
class Token:
    text: str
    line: int
    is_word: bool


@dataclasses.dataclass(frozen=True, order=True)
class Violation:
    file: str
    line: int
    rule: str
    text: str

    def __str__(self):
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


@dataclasses.dataclass
class Parameter:
    name: str
    kind: str  # "scalar", "pointer" or a register type
    by_reference: bool


@dataclasses.dataclass
class Function:
    file: str
    line: int
    name: str
    is_entry: bool  # __simd_vf__
    template: list  # names of the template parameters
    parameters: list
    body: list


@dataclasses.dataclass
class Loop:
    line: int
    body: list


@dataclasses.dataclass
class Choice:
    """if constexpr"""

    line: int
    condition: str
    then: list
    other: list


@dataclasses.dataclass
class Block:
    body: list


@dataclasses.dataclass
class Declaration:
    """A register variable, or a reference to one. tokens: its initial value, may be empty."""

    line: int
    kind: str
    name: str
    is_reference: bool
    tokens: list


@dataclasses.dataclass
class Statement:
    line: int
    tokens: list


def tokenize(text):
    tokens = []
    line = 1
    for match in TOKEN.finditer(text):
        if match.lastgroup != "skip":
            tokens.append(Token(match.group(), line, match.lastgroup == "word"))
        line += match.group().count("\n")
    return tokens


def spell(tokens):
    """The tokens as one would write them, near enough for a message."""
    text = " ".join(token.text for token in tokens)
    return re.sub(r"(?<=[\w)]) (?=[),;(])|(?<=\() | (?=::)|(?<=::) |(?<=\+\+) ", "", text)


def closing(tokens, start):
    """Index of the bracket that closes the one at start."""
    opens, closes = tokens[start].text, PAIRS[tokens[start].text]
    depth = 0
    for index in range(start, len(tokens)):
        depth += (tokens[index].text == opens) - (tokens[index].text == closes)
        if depth == 0:
            return index
    raise ValueError(f"line {tokens[start].line}: {opens} is never closed")


def behind_template(tokens, start):
    """Index behind the <...> at start; start itself when there is none or < compares."""
    if start >= len(tokens) or tokens[start].text != "<":
        return start
    depth = 0
    for index in range(start, len(tokens)):
        depth += (tokens[index].text == "<") - (tokens[index].text == ">")
        if depth == 0:
            return index + 1
        if tokens[index].text in (";", "{", "}"):
            break
    return start


def split(tokens, separator=","):
    """Parts between the separators that stand outside brackets and template lists."""
    parts = [[]]
    index = 0
    while index < len(tokens):
        after = index + 1
        if tokens[index].text in PAIRS:
            after = closing(tokens, index) + 1
        elif index > 0 and tokens[index - 1].is_word:
            after = max(after, behind_template(tokens, index))
        if tokens[index].text == separator:
            parts.append([])
        else:
            parts[-1] += tokens[index:after]
        index = after
    return [part for part in parts if part]


def call_at(tokens, index):
    """(name, arguments) of the call whose name is tokens[index], or None."""
    after = behind_template(tokens, index + 1)
    if not tokens[index].is_word or after >= len(tokens) or tokens[after].text != "(":
        return None
    return tokens[index].text, split(tokens[after + 1 : closing(tokens, after)])


def template_arguments(tokens, index):
    """The <...> behind the name at tokens[index], spelt; empty when there is none."""
    return [spell(part) for part in split(tokens[index + 2 : behind_template(tokens, index + 1) - 1])]


class Names:
    """Names that the files give to registers, arithmetic types and the Reg namespace."""

    def __init__(self, sources):
        self.registers = {name: name for name in COUNTED + UNCOUNTED}
        self.arithmetic = set(ARITHMETIC)
        self.reg_namespaces = {"Reg", "MicroAPI"}
        for tokens in sources:
            for index, token in enumerate(tokens):
                if token.text in ("using", "namespace", "typedef"):
                    end = next(i for i in range(index, len(tokens)) if tokens[i].text in (";", "{", "}"))
                    self.learn(tokens[index:end])

    def learn(self, words):
        if words[0].text == "typedef":
            name, meaning = words[-1].text, self.type_name(words[1:-1])
        elif len(words) > 3 and words[2].text == "=":
            name, meaning = words[1].text, self.type_name(words[3:])
        else:
            return
        if words[0].text == "namespace":
            if meaning in self.reg_namespaces:
                self.reg_namespaces.add(name)
        elif meaning in self.registers:
            self.registers[name] = self.registers[meaning]
        elif meaning in self.arithmetic:
            self.arithmetic.add(name)

    @staticmethod
    def type_name(words):
        """Last part of the name of a type: `reg::RegTensor<float>` is RegTensor."""
        index = 0
        while index < len(words) and words[index].text in QUALIFIERS | {"__ubuf__"}:
            index += 1
        while index + 2 < len(words) and words[index + 1].text == "::":
            index += 2
        return words[index].text if index < len(words) else ""


class Reader:
    """Recursive-descent reader of one file's vector functions."""

    def __init__(self, file, tokens, names, callees, violations):
        """callees: {name: [parameter lists]} of all __simd_callee__ functions. violations: list to add to."""
        self.file = file
        self.tokens = tokens
        self.names = names
        self.callees = callees
        self.violations = violations
        self.counters = []

    def report(self, line, rule, text):
        self.violations.append(Violation(self.file, line, rule, text))

    def functions(self):
        for is_entry, name, opening, body, types, template in find_functions(self.tokens):
            parameters = [
                self.parameter(part, is_entry, types)
                for part in split(self.tokens[opening + 1 : closing(self.tokens, opening)])
            ]
            nodes = self.block(body + 1, closing(self.tokens, body))
            yield Function(self.file, name.line, name.text, is_entry, template, parameters, nodes)

    def parameter(self, words, is_entry, template_types):
        texts = [word.text for word in words]
        line, shown = words[0].line, spell(words)
        base = self.names.type_name(words)
        by_reference = "&" in texts
        kind = self.names.registers.get(base)
        if kind:
            if is_entry or not by_reference:
                self.report(line, "parameter", f"{shown}: registers pass by reference, between callees only")
            return Parameter(texts[-1], kind, by_reference)
        kind = "pointer" if "*" in texts else "scalar"
        if base not in self.names.arithmetic | template_types:
            self.report(line, "parameter", f"{shown}: neither an arithmetic scalar nor a pointer to one")
        elif kind == "pointer" and "__ubuf__" not in texts:
            self.report(line, "parameter", f"{shown}: a pointer must be __ubuf__")
        elif is_entry and by_reference:
            self.report(line, "parameter", f"{shown}: a __simd_vf__ function takes no reference")
        return Parameter(texts[-1], kind, by_reference)

    def block(self, start, end):
        nodes = []
        while start < end:
            read, start = self.statement(start, end)
            nodes += read
        return nodes

    def body(self, start, end):
        """Nodes of one statement, its braces taken off, and the index behind it."""
        nodes, after = self.statement(start, end)
        return (nodes[0].body if nodes and isinstance(nodes[0], Block) else nodes), after

    def statement(self, start, end):
        token = self.tokens[start]
        if token.text == "{":
            close = closing(self.tokens, start)
            return [Block(self.block(start + 1, close))], close + 1
        if token.text == "for":
            return self.loop(start, end)
        if token.text == "if" and self.tokens[start + 1].text == "constexpr":
            return self.choice(start, end)
        if token.text in JUMPS:
            self.report(token.line, "branch", f"{token.text} in a vector function")
            if token.text in ("if", "while", "switch"):
                return self.statement(closing(self.tokens, start + 1) + 1, end)
            if token.text in ("else", "do"):
                return self.statement(start + 1, end)
        stop = start
        while stop < end and self.tokens[stop].text != ";":
            stop = closing(self.tokens, stop) + 1 if self.tokens[stop].text in PAIRS else stop + 1
        return self.simple(self.tokens[start:stop]), stop + 1

    def loop(self, start, end):
        line = self.tokens[start].line
        close = closing(self.tokens, start + 1)
        header = self.tokens[start + 2 : close]
        parts = [[token.text for token in part] for part in split(header, ";")]
        counter = parts[0][1] if len(parts[0]) > 1 else ""
        is_right = len(parts) == 3 and parts[0] == ["uint16_t", counter, "=", "0"] and parts[2] == ["++", counter]
        is_right = is_right and parts[1][:2] == [counter, "<"] and len(parts[1]) > 2
        bound = split(header, ";")[1][2:] if is_right else []
        is_right = is_right and not any(call_at(bound, index) for index in range(len(bound)))
        if not is_right or any(token.text in ("&&", "||", "<", ">", "?") for token in bound):
            self.report(line, "loop-form", f"for ({spell(header)}): write for (uint16_t i = 0; i < bound; ++i)")
        bound_names = {token.text for token in bound if token.is_word}
        for name in sorted(bound_names & set(self.counters)):
            self.report(line, "loop-bound", f"{name} is the counter of a loop around this one; copy it first")
        self.counters.append(counter)
        nodes, after = self.body(close + 1, end)
        self.counters.pop()
        for changed in self.changes(nodes):
            if changed.text in bound_names | {counter}:
                self.report(changed.line, "loop-bound", f"{changed.text} changes inside the loop of line {line}")
        return [Loop(line, nodes)], after

    def choice(self, start, end):
        close = closing(self.tokens, start + 2)
        then, after = self.body(close + 1, end)
        other = []
        if after < end and self.tokens[after].text == "else":
            other, after = self.body(after + 1, end)
        condition = spell(self.tokens[start + 3 : close])
        return [Choice(self.tokens[start].line, condition, then, other)], after

    def changes(self, nodes):
        """Names in the statements below nodes that are assigned, stepped or handed over by reference."""
        for node in nodes:
            if isinstance(node, Choice):
                yield from self.changes(node.then + node.other)
            elif isinstance(node, (Loop, Block)):
                yield from self.changes(node.body)
            else:
                for index in range(len(node.tokens)):
                    yield from self.changes_at(node.tokens, index)

    def changes_at(self, tokens, index):
        before = tokens[index - 1] if index > 0 else Token(";", 0, False)
        after = tokens[index + 1].text if index + 1 < len(tokens) else ";"
        is_declared = before.is_word or before.text in ("*", "&", ">")
        if not tokens[index].is_word:
            return
        if {before.text, after} & {"++", "--"} or (after in ASSIGNMENTS and not is_declared):
            yield tokens[index]
        call = call_at(tokens, index)
        if call:
            for argument, changed in zip(call[1], self.reference_parameters(*call)):
                if changed and len(argument) == 1:
                    yield argument[0]

    def reference_parameters(self, name, arguments):
        """Per argument of a call: may the callee change it?"""
        if name == "UpdateMask":
            return [True]
        for parameters in self.callees.get(name, []):
            if len(parameters) == len(arguments):
                return [any(token.text == "&" for token in part) for part in parameters]
        return []

    def simple(self, words):
        """A declaration or an expression."""
        if not words:
            return []
        for index, token in enumerate(words):
            if token.text == "?":
                self.report(token.line, "branch", "? in a vector function")
            if token.text in (".", "->"):
                access = spell(words[max(index - 1, 0) : index + 2])
                self.report(token.line, "member", f"{access}: copy it to a local first")
            self.check_call(words, index)
        kind = self.names.registers.get(self.names.type_name(words))
        if kind is None or call_at(words, 0):
            return [Statement(words[0].line, words)]
        start = next(i for i, word in enumerate(words) if self.names.registers.get(word.text) == kind)
        return self.declarations(kind, words[behind_template(words, start + 1) :])

    def declarations(self, kind, words):
        nodes = []
        is_reference = words[0].text == "&"
        for part in split(words[is_reference:]):
            if len(part) > 1 and part[1].text == "[":
                self.report(part[0].line, "registers", f"{spell(part)}: an array of registers cannot be counted")
            nodes.append(Declaration(part[0].line, kind, part[0].text, is_reference, part[2:]))
        return nodes

    def check_call(self, words, index):
        call = call_at(words, index)
        if not call:
            return
        name = call[0]
        qualifier = words[index - 2].text if index > 1 and words[index - 1].text == "::" else ""
        is_declared = index > 0 and words[index - 1].is_word and words[index - 1].text != "return"
        is_known = name in self.callees or name in NO_CALLS or name in self.names.arithmetic
        if not (is_known or is_declared or name.startswith("__builtin_") or qualifier in self.names.reg_namespaces):
            self.report(words[index].line, "call", f"{name} is neither Reg API nor a __simd_callee__ function")


def find_functions(tokens):
    """(is entry, name, index of (, index of {, template type names, template names) of each vector function."""
    for index, token in enumerate(tokens):
        if token.text not in ("__simd_vf__", "__simd_callee__"):
            continue
        opening = next(i for i in range(index, len(tokens)) if tokens[i].text == "(")
        body = closing(tokens, opening) + 1
        if tokens[body].text != "{":
            continue
        start = index
        while start > 0 and tokens[start - 1].text not in (";", "{", "}"):
            start -= 1
        heads = zip(tokens[start:index], tokens[start + 1 : index])
        types = {name.text for word, name in heads if word.text in ("class", "typename")}
        template = []
        if tokens[start].text == "template":
            template = [part[-1].text for part in split(tokens[start + 2 : behind_template(tokens, start + 1) - 1])]
        yield token.text == "__simd_vf__", tokens[opening - 1], opening, body, types, template


def read_functions(sources):
    """(functions, violations) of {file name: text}."""
    tokens = {file: tokenize(text) for file, text in sources.items()}
    names = Names(tokens.values())
    callees = {}
    for words in tokens.values():
        for is_entry, name, opening, *_ in find_functions(words):
            if not is_entry:
                callees.setdefault(name.text, []).append(split(words[opening + 1 : closing(words, opening)]))
    violations = []
    functions = []
    for file, words in tokens.items():
        functions += Reader(file, words, names, callees, violations).functions()
    return functions, violations
