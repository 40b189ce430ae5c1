"""The weights of metadata/cost.h: those of the kernel as it is, by the clock. All figures are a model's."""

import fit_cost
import pytest
from qbsa import cases, library

MACRO_BLOCKS = 0.02  # how far a weight may be off, in macro-blocks: the goal of a balanced plan
SHARE = 0.05  # or in parts of the weight
RESIDUAL = 0.05  # of the sum of weights to the clock's time of a list


@pytest.fixture(scope="module")
def fit():
    return fit_cost.fit("950PR")


def test_weights_are_those_of_the_kernel(fit):
    """When it fails the kernel has changed: put the figures of benchmarks/fit_cost.py into metadata/cost.h."""
    weights = library.contract().costs
    assert weights.keys() == fit.weights.keys()
    allowed = MACRO_BLOCKS * weights["kMacroBlock"]
    off = {name: (weights[name], fitted) for name, fitted in fit.weights.items()
           if abs(weights[name] - fitted) > max(allowed, SHARE * fitted)}
    assert off == {}


def test_a_sum_of_weights_fits_lists_of_all_lengths(fit):
    assert fit.lists_off <= RESIDUAL


@pytest.mark.parametrize("case", fit_cost.CALLS.values(), ids=fit_cost.CALLS)
def test_the_clock_confirms_the_choice_to_split(case):
    """Cut lists are the faster ones on the clock, too."""
    inputs = cases.make_inputs(case)
    (whole, _), (cut, made) = (fit_cost.time_call("950PR", inputs, 32, splits) for splits in (1, 0))
    assert made.splits and cut[-1] < whole[-1]
