"""Mutants of flags.py that change nothing, and why: (kind, how the name begins, reason).

t counts macro-blocks. MTE1 loads in the order C1(t - 1), C2(t - 2), C1(t), C2(t - 1), ..; MTE2 loads Q, K and V of t
before anything of t + 1.
"""

_BEHIND_VALUES = (
    "MTE2 has waited for the value slot of t - 1, which C2(t - 3) gives back behind C1(t - 2), the last reader of this "
    "slot. The flag itself counts at t = 2 alone, where no value slot has come back, and there the slot is 0."
)
_OTHER_PRIME = "MTE2 has waited for the first slot's credit, which V gives behind begin_core as well."
_NOT_TOUCHED = "The credit moves before begin_core, which leaves key_scale alone."
_LATER = "That pipe has waited for the reader of the slot, so the credit comes later than needed."
_END = "The twin drains the pipes at the end of a kernel anyway; the programming guide asks for the barrier."

HARMLESS = [
    ("pipe changed", "kKeyLoaded[1] MTE1_MTE2:3 ", _BEHIND_VALUES),
    ("set moved up", "kKeyLoaded[1] MTE1_MTE2:3 ", _BEHIND_VALUES),
    ("pair dropped", "kKeyLoaded[1] MTE1_MTE2:3 ", _BEHIND_VALUES),
    ("pipe changed", "kQueryLoaded[1] MTE1_MTE2:1 ", _BEHIND_VALUES),
    ("pair dropped", "kQueryLoaded[1] MTE1_MTE2:1 ", _BEHIND_VALUES),
    ("set moved up", "kQueryLoaded[", "What stands before the flag loads P; Q was read before that."),
    ("pipe changed", "kQueryLoaded[0] MTE1_MTE2:0 set ", _LATER),
    ("pipe changed", "kAccFree AIC set on MTE3", _LATER),
    ("pipe changed", "kScoresDone FIX_M:0 wait on MTE1", "MTE1 waits earlier then, and M waits for its operands."),
    ("set moved up", "kKeyScaleLoaded[", _NOT_TOUCHED),
    ("pair dropped", "kKeyScaleLoaded[", _NOT_TOUCHED),
    ("set moved up", "kQueryScaleLoaded[1] V_MTE2:3 ", _OTHER_PRIME),
    ("pair dropped", "kQueryScaleLoaded[1] V_MTE2:3 ", _OTHER_PRIME),
    ("PipeBarrier dropped", "PipeBarrier<PIPE_ALL> attention.h", _END),
]
