"""One K scale a head, or one in all: a path of its own, in which pass 2 scales what all rows see."""

import cases
import pytest
import torch
from cases import Case
from device import attend
from qbsa import library
from test_attention import LISTS, TAILS, check, checked, one_list_per_head, same_bits  # noqa: F401

SHAPES = {
    "tails of keys": Case("", (2, 1), (3,) * 18, (*TAILS, *(256 + tail for tail in TAILS)), "dense", 0),
    "tails of rows": Case("", (2, 1), (*TAILS, 15, 96, 129), (600,) * 12, "dense", 0),
    "the diagonal": Case("", (2, 1), (140, 141, 204, 40, 300), (140, 171, 331, 104, 300), "dense", 0),
    "no diagonal": Case("", (2, 1), (140, 30), (1024, 1100), "dense", 0, 0),
    "long lists": Case("", (4, 2), (300,), (2000,), "random", 11),
}


def per_head(inputs):
    """inputs with one K scale for each KV head, as a view."""
    heads = inputs["key"].shape[1]
    scales = torch.linspace(0.004, 0.03, heads).view(1, heads, 1, 1)
    return inputs | {"k_descale": scales.expand(*inputs["key"].shape[:3], 1)}


@pytest.mark.parametrize("name", SHAPES)
def test_one_scale_a_head(checked, name):  # noqa: F811
    check(per_head(cases.make_inputs(SHAPES[name])))


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_any_entry_in_any_slot(checked, mask_mode):  # noqa: F811
    inputs = per_head(cases.make_inputs(Case("", (len(LISTS), 2), (140,), (300,), "empty", 0, mask_mode)))
    inputs["block_table"] = torch.arange(5, dtype=torch.int32)[None] % inputs["key"].shape[0]
    check(one_list_per_head(inputs, LISTS))


def test_one_value_is_a_view_of_it(checked):  # noqa: F811
    inputs = cases.make_inputs(SHAPES["long lists"])
    one = torch.tensor([0.013])
    view = one.expand(*inputs["key"].shape[:3], 1)
    assert same_bits(check(inputs | {"k_descale": one}), attend(inputs | {"k_descale": view}))


def test_scales_of_zero(checked):  # noqa: F811
    inputs = cases.make_inputs(SHAPES["the diagonal"]) | {"k_descale": torch.zeros(1)}
    check(inputs)
    inputs = per_head(cases.make_inputs(SHAPES["the diagonal"]))
    inputs["q_descale"][::3] = 0
    check(inputs)


def test_which_tensors_take_the_path():
    inputs = cases.make_inputs(SHAPES["no diagonal"])
    scales = inputs["k_descale"]

    def takes(k_descale):
        with library.mode("checked"):
            attend(inputs | {"k_descale": k_descale})
            names = library.current().report()["vector_functions"]
        return any("kLater" in name for name in names)

    assert takes(torch.ones(1)) and takes(scales[:1, :, :1].expand_as(scales))
    assert (
        not takes(scales) and not takes(scales[:1].expand_as(scales)) and not takes(scales[:, :, :1].expand_as(scales))
    )
