"""The weights of metadata/cost.h: those of the kernel as it is, by the clock. All figures are a model's.

When a test fails the kernel has moved: put the figures of benchmarks/fit_cost.py into metadata/cost.h.
"""

import fit_cost
import pytest
from qbsa import cases, library

SOC = "950PR"
OF_A_LIST = 0.06  # largest error of a list's cost; one weight stands for 1 and for 64 rows, which differ by 10 %
OF_A_MACRO_BLOCK = 0.03  # of what cutting costs, which counts once or twice a core; merges are off by 36 cycles


def test_costs_of_lists_are_the_clocks():
    points, _ = fit_cost.measure_lists(SOC)
    assert points.largest_error(library.contract().costs) <= OF_A_LIST


def test_costs_of_empty_lists_are_those_of_the_fit():
    fitted = fit_cost.measure_empty_lists(SOC).fit()
    assert {name: library.contract().costs[name] for name in fitted} == pytest.approx(fitted, rel=OF_A_LIST)


def test_costs_of_cuts_are_the_clocks():
    weights = library.contract().costs
    for points in fit_cost.measure_splits(SOC).values():
        assert points.largest_error(weights) <= OF_A_MACRO_BLOCK * weights["kMacroBlock"]


@pytest.mark.parametrize("case", fit_cost.CALLS.values(), ids=fit_cost.CALLS)
def test_the_clock_confirms_the_choice_to_split(case):
    inputs = cases.make_inputs(case)
    (whole, _), (cut, made) = (fit_cost.time_call(SOC, inputs, 32, splits) for splits in (1, 0))
    assert cut[-1] < whole[-1] or not made.splits
