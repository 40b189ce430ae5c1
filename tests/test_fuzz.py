"""A few of the random calls of fuzz.py; make sanitize runs 10,000."""

import fuzz
import pytest

STEP = 50


@pytest.mark.parametrize("first", range(0, 400, STEP))
def test_random_calls(first):
    for seed in range(first, first + STEP):
        fuzz.run(fuzz.make_call(seed))


def test_there_are_calls_of_every_kind():
    calls = [fuzz.make_call(seed) for seed in range(200)]
    kinds = [call.kind for call in calls]
    assert all(kinds.count(kind) >= 10 for kind in ("valid", "values", "plan", "argument"))
    scales = [call.inputs["k_descale"] for call in calls if call.kind == "valid"]
    assert sum(x.dim() == 1 for x in scales) >= 5  # one K scale in all; one a head
    assert sum(x.dim() == 4 and x.stride(0) == x.stride(2) == 0 for x in scales) >= 5
