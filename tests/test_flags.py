"""The mutation proof in small: one mutant of each kind. All of them: make flags."""

import flags
import flags_harmless
import pytest

KINDS = [
    *("set dropped", "wait dropped", "pair dropped", "set moved up", "pipe changed", "credit more"),
    *("PipeBarrier dropped", "LocalMemBar dropped", "distance halved", "stride off by one"),
]


@pytest.fixture(scope="module")
def mutants():
    return flags.mutants()


def test_kinds(mutants):
    assert sorted(mutants) == sorted(KINDS)
    assert {kind for kind, _, _ in flags_harmless.HARMLESS} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutant_is_noticed(mutants, kind):
    names = [name for name in mutants[kind] if not flags.reason_of(kind, name)]
    name = names[len(names) // 2]
    assert flags.notice(mutants[kind][name]), name


def test_the_kernel_itself_passes():
    for run in flags.runs():
        assert run.notice("") is None


def test_messages_name_flags_and_buffers(mutants):
    """A flag set too early, the first wait for it, and who waits for ever without it."""
    place = "cube.h: SetFlag<HardEvent::MTE2_MTE1>(kKeyLoaded + k)"
    _, text = flags.notice(mutants["set moved up"][f"kKeyLoaded[0] MTE2_MTE1:0 {place}"])
    assert "race: " in text and "L1 [0x8000, " in text and "(key[0]) is also " in text and "(pages.h:" in text
    _, text = flags.notice(mutants["set dropped"][f"kKeyLoaded[1] MTE2_MTE1:1 {place}"])
    assert "deadlock in group 0" in text and "flag MTE2_MTE1 1 (kKeyLoaded[1])" in text


def test_an_edit_that_is_none_is_refused():
    with pytest.raises(RuntimeError, match="no edit of a mutation: shift 0 0 1"):
        flags.runs()[0].bits("checked", "shift 0 0 1")
