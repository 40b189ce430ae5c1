"""A few of the random calls of fuzz.py; make sanitize runs 10,000."""

import fuzz
import pytest

STEP = 50


@pytest.mark.parametrize("first", range(0, 400, STEP))
def test_random_calls(first):
    for seed in range(first, first + STEP):
        fuzz.run(fuzz.make_call(seed))


def test_there_are_calls_of_every_kind():
    kinds = [fuzz.make_call(seed).kind for seed in range(200)]
    assert all(kinds.count(kind) >= 10 for kind in ("valid", "values", "plan", "argument"))
