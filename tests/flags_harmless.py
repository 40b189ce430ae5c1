"""Mutants of flags.py that change nothing, and why: (kind, how the name begins, reason)."""

_OTHER_PRIME = "MTE2 has waited for the first slot's credit, which V gives behind begin_core as well."
_NOT_TOUCHED = "The credit moves before begin_core, which leaves key_scale alone."
_END = "The twin drains the pipes at the end of a kernel anyway; the programming guide asks for the barrier."

HARMLESS = [
    ("pipe changed", "kScoresDone FIX_M:0 wait on MTE1", "MTE1 waits earlier then, and M waits for its operands."),
    ("set moved up", "kKeyScaleLoaded[", _NOT_TOUCHED),
    ("pair dropped", "kKeyScaleLoaded[", _NOT_TOUCHED),
    ("set moved up", "kQueryScaleLoaded[1] V_MTE2:3 ", _OTHER_PRIME),
    ("pair dropped", "kQueryScaleLoaded[1] V_MTE2:3 ", _OTHER_PRIME),
    ("PipeBarrier dropped", "PipeBarrier<PIPE_ALL> attention.h", _END),
]
