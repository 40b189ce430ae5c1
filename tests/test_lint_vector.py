"""The lint of vector functions: each broken rule is reported at its line, live registers are counted exactly."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import lint_vector  # noqa: E402

LIMITS = {"RegTensor": 32, "MaskReg": 8}

HEAD = """
namespace reg = AscendC::Reg;
using F32 = reg::RegTensor<float>;
typedef int32_t i32;
struct Shape { uint16_t rows; };
inline uint16_t round_up(uint16_t rows) { if (rows > 8) { return rows; } return 8; }
__simd_callee__ inline void load_pair(F32& even, F32& odd, __ubuf__ float* from)
{
    reg::LoadAlign<float, reg::LoadDist::DIST_DINTLV_B32>(even, odd, from);
}
__simd_callee__ inline void step(uint16_t& count)
{
    count += 1;
}
"""

# The vector function that the cases change.
CLEAN = """
template <bool kAdd>
__simd_vf__ inline void scale(__ubuf__ float* to, __ubuf__ float* from, float factor, uint16_t rows, uint16_t columns)
{
    constexpr uint32_t kPitch = 128;
    uint16_t half = (uint16_t)(rows / 2);
    reg::MaskReg all = reg::CreateMask<float, reg::MaskPattern::ALL>();
    for (uint16_t i = 0; i < rows; ++i) {
        for (uint16_t j = 0; j < (uint16_t)(2 * columns); ++j) {
            F32 even, odd;
            load_pair(even, odd, from + i * kPitch);
            reg::Muls(even, even, factor, all);
            if constexpr (kAdd) {
                reg::Add(even, even, odd, all);
            } else {
                reg::Mul(even, even, odd, all);
            }
            reg::StoreAlign(to + i * kPitch, (reg::RegTensor<float>&)even, all);
        }
    }
}
"""

MULS = "reg::Muls(even, even, factor, all);"
OUTER = "for (uint16_t i = 0; i < rows; ++i) {"

# (rule, right text, wrong text)
BROKEN = [
    ("loop-form", OUTER, "for (int i = 0; i < rows; ++i) {"),
    ("loop-form", OUTER, "for (uint16_t i = 1; i < rows; ++i) {"),
    ("loop-form", OUTER, "for (uint16_t i = 0; i < rows; i += 2) {"),
    ("loop-form", OUTER, "for (uint16_t i = 0; i <= rows; ++i) {"),
    ("loop-form", OUTER, "for (uint16_t i = 0; i < rows && i < columns; ++i) {"),
    ("loop-form", OUTER, "for (uint16_t i = 0; i < round_up(rows); ++i) {"),
    ("loop-bound", MULS, MULS + " rows = 4;"),
    ("loop-bound", MULS, MULS + " --columns;"),
    ("loop-bound", MULS, MULS + " i += 1;"),
    ("loop-bound", MULS, MULS + " step(rows);"),
    ("loop-bound", "j < (uint16_t)(2 * columns)", "j < i"),
    ("branch", MULS, "if (rows > 8) { " + MULS + " }"),
    ("branch", MULS, "reg::Muls(even, even, rows > 8 ? factor : 1.0f, all);"),
    ("branch", MULS, "while (rows > 8) { " + MULS + " }"),
    ("branch", MULS, "do { " + MULS + " } while (rows > 8);"),
    ("branch", MULS, MULS + " break;"),
    ("member", MULS, "reg::Muls(even, even, shape.factor, all);"),
    ("member", MULS, "reg::Muls(even, even, shape->factor, all);"),
    ("parameter", "__ubuf__ float* from", "__ubuf__ Shape* from"),
    ("parameter", "uint16_t columns)", "Shape columns)"),
    ("parameter", "uint16_t columns)", "uint16_t& columns)"),
    ("parameter", "uint16_t columns)", "F32& columns)"),
    ("parameter", "__ubuf__ float* from", "__gm__ float* from"),
    ("call", "(uint16_t)(rows / 2)", "round_up(rows)"),
    ("call", MULS, "AscendC::Muls(even, even, factor, all);"),
    ("call", "load_pair(even, odd, from + i * kPitch);", "load_pair(even, from + i * kPitch);"),
    ("registers", "F32 even, odd;", "F32 even, odd, rest[4];"),
]


def lint(text, limits=None):
    return lint_vector.lint({"case.h": HEAD + text}, limits or LIMITS)


def peaks(text, name="measured"):
    measures, violations = lint(text)
    assert violations == []
    found = next(item for item in measures if item.function.name == name)
    return found.peaks["RegTensor"][0], found.peaks["MaskReg"][0]


def function(body, parameters="__ubuf__ float* to, uint16_t rows"):
    return f"template <bool kA, bool kB>\n__simd_vf__ inline void measured({parameters})\n{{\n{body}\n}}\n"


def test_clean_function_passes():
    measures, violations = lint(CLEAN)
    assert violations == []
    scale = next(item for item in measures if item.function.name == "scale")
    assert (scale.depth, scale.peaks["RegTensor"][0], scale.peaks["MaskReg"][0]) == (2, 2, 1)


@pytest.mark.parametrize(("rule", "right", "wrong"), BROKEN)
def test_broken_rule_is_reported_at_its_line(rule, right, wrong):
    assert CLEAN.count(right) == 1
    _, violations = lint(CLEAN.replace(right, wrong))
    assert {violation.rule for violation in violations} == {rule}
    line = (HEAD + CLEAN[: CLEAN.index(right)]).count("\n") + 1
    assert line in {violation.line for violation in violations}
    assert str(violations[0]).startswith(f"case.h:{violations[0].line}: {rule}: ")


def test_loops_of_callees_count_as_levels():
    nest = "for (uint16_t {0} = 0; {0} < rows; ++{0}) {{ {1} }}"
    callee = "__simd_callee__ inline void inner(__ubuf__ float* to, uint16_t rows)\n{ " + nest.format("d", "") + " }\n"
    three = nest.format("a", nest.format("b", nest.format("c", "inner(to, rows);")))
    measures, violations = lint(callee + function(three))
    assert violations == [] and next(m for m in measures if m.function.name == "measured").depth == 4
    _, violations = lint(callee + function(nest.format("e", three)))
    assert [violation.rule for violation in violations] == ["loop-depth"]


def test_endless_recursion_is_reported():
    _, violations = lint("__simd_callee__ inline void again(uint16_t rows)\n{\n    again(rows);\n}\n")
    assert [violation.rule for violation in violations] == ["call"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # a and b die in the instruction that makes c.
        ("F32 a, b, c; load_pair(a, b, to); reg::Add(c, a, b, m); reg::StoreAlign(to, c, m);", 2),
        # a is needed again.
        ("F32 a, b, c; load_pair(a, b, to); reg::Add(c, a, b, m); reg::Add(c, c, a, m);", 2),
        ("F32 a, b, c; load_pair(a, b, to); reg::Add(c, a, b, m); reg::Add(c, a, b, m);", 3),
        # A declaration alone occupies nothing; a result that nobody reads still needs a place.
        ("F32 a, b, c, d;", 0),
        ("F32 a; reg::Duplicate(a, 0.0f);", 1),
        # Blocks one after the other share registers.
        ("{ F32 a, b; load_pair(a, b, to); } { F32 c, d; load_pair(c, d, to); }", 2),
        # Named inside the loop only, but declared outside: live around the loop. The third one is not.
        ("F32 a, b; for (uint16_t i = 0; i < rows; ++i) { load_pair(a, b, to); F32 c; reg::Add(c, a, b, m); }", 3),
        ("for (uint16_t i = 0; i < rows; ++i) { F32 a, b; load_pair(a, b, to); F32 c; reg::Add(c, a, b, m); }", 2),
        # Through references and casts.
        ("F32 a, b; F32& c = (F32&)a; load_pair(a, b, to); reg::Add(b, b, b, m); reg::StoreAlign(to, c, m);", 2),
        # Branches of one condition never meet, those of two may.
        (
            "F32 a, b, c; if constexpr (kA) { load_pair(a, b, to); } if constexpr (!kA) { } "
            "if constexpr (kA) { reg::Add(a, a, b, m); } else { load_pair(b, c, to); }",
            2,
        ),
        (
            "F32 a, b, c; reg::Duplicate(c, 0.0f); if constexpr (kA) { load_pair(a, b, to); } "
            "if constexpr (kB) { reg::Add(c, a, b, m); }",
            3,
        ),
    ],
)
def test_live_registers_are_exact(body, expected):
    setup = "reg::MaskReg m = reg::CreateMask<float>();\n"
    assert peaks(function(setup + body))[0] == expected


def test_live_masks_are_exact():
    body = """reg::MaskReg all = reg::CreateMask<float>(); reg::MaskReg seen, hidden; F32 a;
    reg::Compares<float, AscendC::CMPMODE::GT>(seen, a, 0.0f, all);
    reg::Not(hidden, seen, all);
    reg::Select(a, a, a, hidden);"""
    assert peaks(function(body)) == (1, 2)


def test_arguments_of_a_callee_are_its_callers_registers():
    callee = "__simd_callee__ inline void sum(F32& to, F32& a, F32& b, reg::MaskReg& m)\n{\n"
    callee += "    F32 own;\n    reg::Add(own, a, b, m);\n    reg::Add(to, to, own, m);\n}\n"
    body = "reg::MaskReg m = reg::CreateMask<float>(); F32 t, x, y; reg::Duplicate(t, 0.0f); load_pair(x, y, to); "
    body += "sum(t, x, y, m); reg::StoreAlign(to, x, m);"
    assert peaks(callee + function(body)) == (3, 1)  # own takes the place of y
    assert peaks(callee, "sum") == (4, 1)  # on its own it must leave its arguments alone


def test_more_live_registers_than_the_core_has_are_reported():
    names = [f"r{i}" for i in range(33)]
    body = f"F32 {', '.join(names)};" + "".join(f" reg::Duplicate({name}, 0.0f);" for name in names)
    body += "".join(f" reg::StoreAlign(to, {name});" for name in names)
    _, violations = lint(function(body))
    assert [violation.rule for violation in violations] == ["registers"] and "33 RegTensor" in violations[0].text


def test_limits_come_from_arch_h():
    assert lint_vector.read_limits(lint_vector.ARCH) == LIMITS


def test_project_is_clean_and_its_functions_are_seen():
    files = {str(file): file.read_text() for file in (ROOT / "kernels_ascendc").glob("*.h")}
    measures, violations = lint_vector.lint(files, lint_vector.read_limits(lint_vector.ARCH))
    assert violations == []
    marked = sum(text.count("__simd_vf__ inline") + text.count("__simd_callee__ inline") for text in files.values())
    assert len(measures) == marked > 0
    assert max(item.peaks["RegTensor"][0] for item in measures) > 8


def test_template_arguments_decide_conditions():
    """Thirty calls with known arguments are one combination, and only branches that exist keep registers."""
    callee = """
template <Mode kMode, bool kWide>
__simd_callee__ inline void add(F32& a, __ubuf__ float* to, reg::MaskReg& m)
{
    if constexpr (kMode != Mode::kNone && !kWide) {
        F32 b, c, d;
        load_pair(b, c, to);
        load_pair(d, c, to);
        reg::Add(a, b, d, m);
    }
}
"""
    setup = "reg::MaskReg m = reg::CreateMask<float>(); F32 a; reg::Duplicate(a, 0.0f);\n"
    for mode, wide, expected in (("kNone", "false", 1), ("kSome", "true", 1), ("kSome", "false", 3)):
        body = setup + f"add<Mode::{mode}, {wide}>(a, to, m);\n" * 30 + "reg::StoreAlign(to, a, m);"
        assert peaks(callee + function(body))[0] == expected
