"""twin/reg: every Reg operation against numpy, on random and special values, under full and partial masks.

Each test runs in both build variants and, for the fast one, on this machine's widest vectors and the baseline ones."""

import ctypes

import numpy as np
import pytest
import torch
from host_library import address, aligned, build

REG_BYTES = 256
NAN_BITS = 0x7FFFFFFF
CTRL_DEFAULT = 1 << 60
LIBM = ctypes.CDLL("libm.so.6")
LIBM.fmaf.restype = ctypes.c_float
LIBM.fmaf.argtypes = [ctypes.c_float] * 3

VARIANTS = {
    "fast-native": ("-O3", "-march=native"),
    "fast-baseline": ("-O2",),
    "checked": ("-O1", "-DQBSA_TWIN_CHECKED=1"),
}
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-39, 448.0, 464.0], np.float32)
SCALARS = {np.float32: ctypes.c_float, np.int32: ctypes.c_int32, np.uint16: ctypes.c_uint16, np.uint8: ctypes.c_uint8}
TYPES = {"float": np.float32, "int32_t": np.int32, "uint32_t": np.uint32, "uint16_t": np.uint16, "uint8_t": np.uint8}


@pytest.fixture(params=VARIANTS)
def lib(request):
    return build("reg_library.cpp", *VARIANTS[request.param])


def register(dtype, seed: int) -> np.ndarray:
    """256 bytes of random lanes, the fp32 ones mixed with special values."""
    rng = np.random.default_rng(seed)
    lanes = REG_BYTES // np.dtype(dtype).itemsize
    if dtype is np.float32:
        x = rng.normal(size=lanes).astype(np.float32) * np.float32(10)
        where = rng.random(lanes) < 0.4
        x[where] = rng.choice(SPECIAL, where.sum())
        return aligned(x)
    info = np.iinfo(dtype)
    return aligned(rng.integers(info.min, info.max, lanes, dtype, endpoint=True))


def lane_mask(dtype, active: np.ndarray) -> np.ndarray:
    """A mask as the instructions make it: one byte per bit, the lowest of a lane's set."""
    mask = aligned(np.zeros(REG_BYTES, np.uint8))
    mask[:: np.dtype(dtype).itemsize] = np.where(active, 0xFF, 0)
    return mask


def masks(dtype) -> list[np.ndarray]:
    """Active lanes: all, none, a prefix, random."""
    lanes = REG_BYTES // np.dtype(dtype).itemsize
    rng = np.random.default_rng(7)
    return [np.ones(lanes, bool), np.zeros(lanes, bool), np.arange(lanes) < 5, rng.random(lanes) < 0.5]


def bits(x: np.ndarray) -> np.ndarray:
    """Lanes as integers; NaNs of fp32 as the device's."""
    if x.dtype != np.float32:
        return x
    return np.where(np.isnan(x), np.uint32(NAN_BITS), x.view(np.uint32))


def assert_lanes(got: np.ndarray, expected: np.ndarray, active: np.ndarray, rest=0) -> None:
    """Active lanes equal `expected` bit by bit, inactive ones `rest`."""
    raw = got.view(np.uint32) if got.dtype == np.float32 else got
    fill = rest.view(raw.dtype) if isinstance(rest, np.ndarray) else rest
    assert np.array_equal(raw, np.where(active, bits(expected.astype(got.dtype, copy=False)), fill))


def ieee_max(a, b):
    """NaN wins; +0 is larger than -0."""
    larger = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), larger)


def ieee_min(a, b):
    return -ieee_max(-a, -b)


def fmaf(a, b, c):
    return np.array([LIBM.fmaf(*abc) for abc in zip(a.tolist(), b.tolist(), c.tolist())], np.float32)


def flush(x):
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


FLOAT_BINARY = {
    "Add": lambda a, b, d: a + b,
    "Sub": lambda a, b, d: a - b,
    "Mul": lambda a, b, d: a * b,
    "Div": lambda a, b, d: flush(flush(a) / flush(b)),
    "Max": lambda a, b, d: ieee_max(a, b),
    "Min": lambda a, b, d: ieee_min(a, b),
    "MulAddDst": lambda a, b, d: fmaf(a, b, d),
    "MulDstAdd": lambda a, b, d: fmaf(d, a, b),
}
INT_BINARY = {
    ("Add", "int32_t"): lambda a, b: a + b,
    ("Sub", "int32_t"): lambda a, b: a - b,
    ("Mul", "int32_t"): lambda a, b: a * b,
    ("Max", "int32_t"): np.maximum,
    ("Min", "int32_t"): np.minimum,
    ("And", "uint8_t"): np.bitwise_and,
    ("Or", "uint8_t"): np.bitwise_or,
    ("Or", "uint16_t"): np.bitwise_or,
    ("And", "int32_t"): np.bitwise_and,
    ("Xor", "uint32_t"): np.bitwise_xor,
}


@pytest.mark.parametrize("name", FLOAT_BINARY)
def test_float_binary(lib, name):
    a, b, old = (register(np.float32, seed) for seed in range(3))
    for active in masks(np.float32):
        dst = aligned(old)
        getattr(lib, f"{name}_float")(address(dst), address(a), address(b), address(lane_mask(np.float32, active)))
        with np.errstate(all="ignore"):
            assert_lanes(dst, FLOAT_BINARY[name](a, b, old), active)


@pytest.mark.parametrize(("name", "type_name"), INT_BINARY)
def test_int_binary(lib, name, type_name):
    dtype = TYPES[type_name]
    a, b, old = (register(dtype, seed) for seed in range(3))
    for active in masks(dtype):
        dst = aligned(old)
        getattr(lib, f"{name}_{type_name}")(address(dst), address(a), address(b), address(lane_mask(dtype, active)))
        with np.errstate(over="ignore"):
            assert_lanes(dst, INT_BINARY[name, type_name](a, b), active)


@pytest.mark.parametrize("type_name", ["float", "int32_t"])
@pytest.mark.parametrize("name", ["Adds", "Muls", "Maxs", "Mins"])
def test_binary_scalar(lib, name, type_name):
    dtype = TYPES[type_name]
    a, old = register(dtype, 0), register(dtype, 1)
    operations = {"Adds": np.add, "Muls": np.multiply, "Maxs": np.maximum, "Mins": np.minimum}
    if dtype is np.float32:
        operations |= {"Maxs": ieee_max, "Mins": ieee_min}
    for scalar in (dtype(-3), dtype(0)):
        for active in masks(dtype):
            dst = aligned(old)
            mask = lane_mask(dtype, active)
            getattr(lib, f"{name}_{type_name}")(address(dst), address(a), SCALARS[dtype](scalar), address(mask))
            with np.errstate(all="ignore"):
                assert_lanes(dst, operations[name](a, np.full_like(a, scalar)), active)


@pytest.mark.parametrize("type_name", ["int32_t", "uint32_t"])
@pytest.mark.parametrize("shift", [0, 3, 31, 33])
def test_shifts(lib, shift, type_name):
    dtype = TYPES[type_name]
    a, old = register(dtype, 0), register(dtype, 1)
    wide = a.astype(np.int64)
    left = (wide << shift) & 0xFFFFFFFF if shift < 32 else np.zeros_like(wide)
    if dtype is np.int32 and shift < 32:  # the sign bit stays
        left = (left & 0x7FFFFFFF) | (wide & 0x80000000)
    for active in masks(dtype):
        mask = lane_mask(dtype, active)
        for name, expected in (("ShiftLefts", left), ("ShiftRights", wide >> shift)):
            dst = aligned(old)
            getattr(lib, f"{name}_{type_name}")(address(dst), address(a), ctypes.c_int16(shift), address(mask))
            assert_lanes(dst, (expected & 0xFFFFFFFF).astype(np.uint32).view(dtype), active)


def test_exp_ln(lib):
    a, b = register(np.float32, 0), register(np.float32, 1)
    for active in masks(np.float32):
        mask = lane_mask(np.float32, active)
        with np.errstate(all="ignore"):
            difference = a - b
            references = {"Exp": np.exp(a.astype(np.float64)), "Ln": np.log(flush(a).astype(np.float64))}
            references["ExpSub"] = np.exp(difference.astype(np.float64))
        for name, exact in references.items():
            dst = register(np.float32, 2)
            operands = (a, b) if name == "ExpSub" else (a,)
            getattr(lib, f"{name}_float")(address(dst), *map(address, operands), address(mask))
            with np.errstate(all="ignore"):
                expected = flush(exact.astype(np.float32))
            finite = active & np.isfinite(expected)
            assert np.all(np.abs(dst[finite] - exact[finite]) <= np.spacing(np.abs(expected[finite])))
            assert np.array_equal(bits(dst)[active & ~finite], bits(expected)[active & ~finite])
            assert np.all(dst[~active].view(np.uint32) == 0)


def test_merging_keeps_inactive_lanes(lib):
    a, b, old = (register(np.float32, seed) for seed in range(3))
    for active in masks(np.float32):
        mask = lane_mask(np.float32, active)
        dst = aligned(old)
        lib.MaxMerging_float(address(dst), address(a), address(b), address(mask))
        assert_lanes(dst, ieee_max(a, b), active, rest=old)
        dst = aligned(old)
        lib.Move_float(address(dst), address(a), address(mask))
        assert np.array_equal(dst.view(np.uint32), np.where(active, a.view(np.uint32), old.view(np.uint32)))


@pytest.mark.parametrize("type_name", ["float", "int32_t", "uint16_t", "uint8_t"])
def test_duplicate(lib, type_name):
    dtype = TYPES[type_name]
    old, scalar = register(dtype, 0), dtype(77)
    lanes = old.size
    dst = aligned(old)
    getattr(lib, f"Duplicate_{type_name}")(address(dst), SCALARS[dtype](scalar))
    assert np.all(dst == scalar)
    for active in masks(dtype):
        mask = lane_mask(dtype, active)
        for name, rest in (("Masked", 0), ("Merging", old)):
            dst = aligned(old)
            getattr(lib, f"Duplicate{name}_{type_name}")(address(dst), SCALARS[dtype](scalar), address(mask))
            assert_lanes(dst, np.full(lanes, scalar), active, rest)


def test_duplicate_lane_0_in_place(lib):
    for active in masks(np.float32):
        dst = register(np.float32, 3)
        first = np.full_like(dst, dst[0])
        lib.DuplicateLane_float(address(dst), address(dst), address(lane_mask(np.float32, active)))
        assert_lanes(dst, first, active)


def test_arange_and_move(lib):
    dst = register(np.int32, 0)
    lib.Arange_int32_t(address(dst), ctypes.c_int32(2**31 - 5))
    assert np.array_equal(dst, (np.arange(64) + 2**31 - 5).astype(np.uint32).view(np.int32))
    real, source = register(np.float32, 0), register(np.float32, 1)
    lib.Arange_float(address(real), ctypes.c_float(-3))
    assert np.array_equal(real, np.arange(64, dtype=np.float32) - 3)
    lib.MoveAll_float(address(real), address(source))
    assert np.array_equal(real.view(np.uint32), source.view(np.uint32))


@pytest.mark.parametrize("type_name", ["float", "int32_t"])
def test_compare_and_select(lib, type_name):
    dtype = TYPES[type_name]
    a, b = register(dtype, 0), register(dtype, 1)
    a[::3] = b[::3]
    comparisons = [np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal]
    for mode, expected in enumerate(comparisons):
        for active in masks(dtype):
            mask, out = lane_mask(dtype, active), aligned(np.full(REG_BYTES, 0x55, np.uint8))
            function = getattr(lib, f"compare_{type_name}")
            function(mode, address(out), address(a), address(b), None, address(mask))
            assert np.array_equal(out, lane_mask(dtype, expected(a, b) & active))
            scalar = SCALARS[dtype](a[1])
            function(mode, address(out), address(a), address(b), ctypes.byref(scalar), address(mask))
            assert np.array_equal(out, lane_mask(dtype, expected(a, a[1]) & active))
    for active in masks(dtype):
        dst = register(dtype, 2)
        function = getattr(lib, f"Select_{type_name}")
        function(address(dst), address(a), address(b), address(lane_mask(dtype, active)))
        assert np.array_equal(dst.view(np.uint32), np.where(active, a.view(np.uint32), b.view(np.uint32)))


@pytest.mark.parametrize(
    ("pattern", "type_name", "active"),
    [
        ("ALL", "float", np.arange(64) < 64),
        ("ALL", "uint8_t", np.arange(256) < 256),
        ("ALL", "uint16_t", np.arange(128) < 128),
        ("VL1", "float", np.arange(64) < 1),
        ("VL3", "uint16_t", np.arange(128) < 3),
        ("VL8", "float", np.arange(64) < 8),
        ("VL32", "int32_t", np.arange(64) < 32),
        ("VL128", "uint8_t", np.arange(256) < 128),
        ("VL128", "float", np.arange(64) < 128),
        ("M3", "float", np.arange(64) % 3 == 0),
        ("M4", "uint8_t", np.arange(256) % 4 == 0),
        ("H", "float", np.arange(64) < 32),
        ("Q", "uint16_t", np.arange(128) < 32),
        ("ALLF", "float", np.arange(64) < 0),
    ],
)
def test_create_mask(lib, pattern, type_name, active):
    out = aligned(np.full(REG_BYTES, 0x55, np.uint8))
    getattr(lib, f"create_mask_{pattern}_{type_name}")(address(out))
    assert np.array_equal(out, lane_mask(TYPES[type_name], active))


@pytest.mark.parametrize("type_name", ["float", "uint8_t"])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 255, 256, 1000])
def test_update_mask(lib, type_name, count):
    dtype = TYPES[type_name]
    lanes = REG_BYTES // np.dtype(dtype).itemsize
    out = aligned(np.zeros(REG_BYTES, np.uint8))
    left = getattr(lib, f"update_mask_{type_name}")(address(out), ctypes.c_uint32(count))
    assert np.array_equal(out, lane_mask(dtype, np.arange(lanes) < count))
    assert left == max(0, count - lanes)


def test_mask_logic(lib):
    rng = np.random.default_rng(0)
    a, b, m = (aligned(np.where(rng.random(REG_BYTES) < 0.5, 0xFF, 0).astype(np.uint8)) for _ in range(3))
    expected = [a & b & m, (a | b) & m, (a ^ b) & m, ~a & m, a & m, a, np.where(m != 0, a, b)]
    for which, want in enumerate(expected):
        out = aligned(np.zeros(REG_BYTES, np.uint8))
        lib.mask_logic(which, address(out), address(a), address(b), address(m))
        assert np.array_equal(out, want)


def cast(lib, name: str, x: np.ndarray, active: np.ndarray, dtype) -> np.ndarray:
    dst = aligned(np.full(REG_BYTES // np.dtype(dtype).itemsize, 0x55, dtype))
    getattr(lib, f"Cast_{name}")(address(dst), address(x), address(lane_mask(x.dtype.type, active)))
    return dst


def e4m3_codes(x: np.ndarray) -> np.ndarray:
    """Saturating, NaN to 0."""
    codes = torch.from_numpy(np.clip(x, -448, 448)).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    return np.where(np.isnan(x), 0, codes).astype(np.uint32)


@pytest.mark.parametrize("layout", ["ZERO", "ONE", "TWO", "THREE"])
def test_cast_to_e4m3_fills_one_byte_of_each_lane(lib, layout):
    x = register(np.float32, 0)
    shift = 8 * ["ZERO", "ONE", "TWO", "THREE"].index(layout)
    for active in masks(np.float32):
        got = cast(lib, f"fp8_e4m3fn_t_float_{layout}_SAT", x, active, np.uint32)
        assert np.array_equal(got, np.where(active, e4m3_codes(x) << shift, 0))


@pytest.mark.parametrize("layout", ["ZERO", "ONE"])
def test_cast_to_bf16_fills_one_half_of_each_lane(lib, layout):
    x = register(np.float32, 0)
    codes = torch.from_numpy(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16).astype(np.uint32)
    # CTRL as the device starts: saturate, whatever the instruction says.
    codes = np.where(codes & 0x7FFF == 0x7F80, codes & 0x8000 | 0x7F7F, codes)
    codes = np.where(np.isnan(x), 0, codes)
    for active in masks(np.float32):
        got = cast(lib, f"bfloat16_t_float_{layout}_NO_SAT", x, active, np.uint32)
        assert np.array_equal(got, np.where(active, codes << (16 if layout == "ONE" else 0), 0))


@pytest.mark.parametrize(
    ("ctrl", "trait", "saturates", "e4m3_nan"),
    [
        (CTRL_DEFAULT, "NO_SAT", True, 0),
        (CTRL_DEFAULT | 1 << 50, "SAT", True, 0x7F),
        (CTRL_DEFAULT | 1 << 48, "SAT", False, 0x7F),
        (0, "SAT", True, 0),
        (0, "NO_SAT", False, 0x7F),
    ],
)
def test_saturation_follows_ctrl(lib, ctrl, trait, saturates, e4m3_nan):
    x = aligned(np.resize(np.array([np.inf, -np.inf, np.nan, 1e4], np.float32), 64))
    lib.set_ctrl(ctypes.c_uint64(ctrl))
    try:
        f8 = cast(lib, f"fp8_e4m3fn_t_float_ZERO_{trait}", x, np.ones(64, bool), np.uint32)
        bf16 = cast(lib, f"bfloat16_t_float_ZERO_{trait}", x, np.ones(64, bool), np.uint32)
    finally:
        lib.set_ctrl(ctypes.c_uint64(CTRL_DEFAULT))
    assert f8[:4].tolist() == ([0x7E, 0xFE, e4m3_nan, 0x7E] if saturates else [0x7F, 0xFF, 0x7F, 0x7F])
    assert bf16[:4].tolist() == ([0x7F7F, 0xFF7F, 0, 0x461C] if saturates else [0x7F80, 0xFF80, 0x7FFF, 0x461C])


def test_cast_between_float_and_int(lib):
    x = register(np.float32, 0)
    x[:12] = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 8388607.5, 8388609, 2147483520, 2147483648, -2147483648, -3e9]
    whole = np.clip(np.rint(x.astype(np.float64)), -(2**31), 2**31 - 1)
    expected = np.where(np.isnan(x), 0, whole).astype(np.int32)
    ints = register(np.int32, 1)
    for active in masks(np.float32):
        assert_lanes(cast(lib, "int32_t_float_UNKNOWN_SAT", x, active, np.int32), expected, active)
        assert_lanes(
            cast(lib, "float_int32_t_UNKNOWN_UNKNOWN", ints, active, np.float32), ints.astype(np.float32), active
        )


def tree(x: np.ndarray, combine) -> np.ndarray:
    """Neighbours are combined until one is left of each group."""
    while x.shape[-1] > 1:
        x = combine(x[..., 0::2], x[..., 1::2])
    return x[..., 0]


@pytest.mark.parametrize(
    ("kind", "type_name"),
    [("SUM", "float"), ("MAX", "float"), ("MIN", "float"), ("SUM", "int32_t"), ("MAX", "int32_t")],
)
@pytest.mark.parametrize("special", [False, True])
def test_reductions(lib, kind, type_name, special):
    dtype = TYPES[type_name]
    x = register(dtype, 0)
    if dtype is np.float32 and not special:
        x[:] = np.random.default_rng(1).normal(size=64).astype(np.float32)
    real = dtype is np.float32
    combine = {"SUM": np.add, "MAX": ieee_max if real else np.maximum, "MIN": ieee_min}[kind]
    lowest = dtype(-np.inf) if real else np.iinfo(dtype).min
    neutral = {"SUM": dtype(0), "MAX": lowest, "MIN": -lowest}[kind]
    for active in masks(dtype):
        mask = lane_mask(dtype, active)
        used = np.where(active, x, neutral)
        with np.errstate(all="ignore"):
            total, per_block = tree(used, combine), tree(used.reshape(8, 8), combine)
        dst = register(dtype, 2)
        getattr(lib, f"ReduceDataBlock_{kind}_{type_name}")(address(dst), address(x), address(mask))
        assert_lanes(dst, np.concatenate([per_block, np.zeros(56, dtype)]), np.arange(64) < 8)
        getattr(lib, f"Reduce_{kind}_{type_name}")(address(dst), address(x), address(mask))
        assert_lanes(dst[:1], np.array([total]), np.ones(1, bool))
        assert np.all(dst[2:] == 0)
        if kind == "SUM":
            assert dst[1] == 0
        else:
            first = np.flatnonzero(np.isnan(used) if np.isnan(total) else used == total)[0]
            assert dst.view(np.uint32)[1] == first


def memory(count: int) -> np.ndarray:
    return aligned(np.random.default_rng(5).normal(size=count).astype(np.float32))


def test_loads(lib):
    source, dst, odd = memory(128), register(np.float32, 0), register(np.float32, 1)
    lib.LoadAlign_DIST_NORM(address(dst), address(source[8:]))
    assert np.array_equal(dst, source[8:72])
    lib.LoadAlign_DIST_BRC_B32(address(dst), address(source[5:]))
    assert np.all(dst == source[5])
    lib.LoadAlign_DIST_BLK(address(dst), address(source[8:]))
    assert np.array_equal(dst, np.tile(source[8:16], 8))
    lib.LoadAlign_DIST_E2B_B32(address(dst), address(source[16:]))
    assert np.array_equal(dst, np.repeat(source[16:24], 8))
    lib.LoadAlign_DIST_DINTLV_B32(address(dst), address(odd), address(source))
    assert np.array_equal(dst, source[0::2])
    assert np.array_equal(odd, source[1::2])


@pytest.mark.parametrize("type_name", ["float", "uint16_t", "uint8_t"])
def test_store_under_mask(lib, type_name):
    dtype = TYPES[type_name]
    x = register(dtype, 0)
    for active in masks(dtype):
        place = register(dtype, 1)
        old = place.copy()
        getattr(lib, f"StoreAlign_DIST_NORM_{type_name}")(address(place), address(x), address(lane_mask(dtype, active)))
        assert place.tobytes() == np.where(active, x, old).astype(dtype).tobytes()


def test_store_first_and_low_bytes(lib):
    x, none = register(np.float32, 0), lane_mask(np.float32, np.zeros(64, bool))
    place = memory(64)
    old = place.copy()
    lib.StoreAlign_DIST_FIRST_ELEMENT_B32_float(address(place[3:]), address(x), address(none))
    assert place.tobytes() == np.concatenate([old[:3], x[:1], old[4:]]).tobytes()
    for active in masks(np.float32):
        low = register(np.uint8, 1)
        before = low.copy()
        mask = lane_mask(np.float32, active)
        lib.StoreAlign_DIST_PACK4_B32_uint8_t(address(low), address(x), address(mask))
        assert np.array_equal(low, np.concatenate([np.where(active, x.view(np.uint8)[::4], before[:64]), before[64:]]))


def test_store_pair_ignores_the_mask(lib):
    x, y, place = register(np.float32, 0), register(np.float32, 1), memory(128)
    none = lane_mask(np.float32, np.zeros(64, bool))
    lib.StoreAlign_DIST_INTLV_B32_float(address(place), address(x), address(y), address(none))
    assert place.tobytes() == np.stack([x, y], 1).tobytes()


def test_store_blocks(lib):
    x = register(np.uint16, 0)
    for active in masks(np.uint16):
        place = aligned(np.arange(8 * 3 * 16, dtype=np.uint16))
        expected = place.reshape(8, 3, 16).copy()
        expected[:, 0] = np.where(active.reshape(8, 16), x.reshape(8, 16), expected[:, 0])
        lib.StoreAlign_blocks_uint16_t(address(place), address(x), 3, address(lane_mask(np.uint16, active)))
        assert np.array_equal(place, expected.ravel())


def test_registers_may_be_viewed_as_other_types(lib):
    a, b = register(np.uint32, 0), register(np.uint32, 1)
    dst = register(np.uint32, 2)
    lib.pack_bytes(address(dst), address(a), address(b))
    assert np.array_equal(dst, (a | b << np.uint32(8)) + np.uint32(1))


class Log:
    """What the checked variant told the engine since the last look."""

    def __init__(self, lib):
        instructions, loaded, stored, align, values, registers = (ctypes.c_uint32() for _ in range(6))
        spelling = ctypes.c_char_p()
        lib.take_log(*map(ctypes.byref, (instructions, spelling, loaded, stored, align, values, registers)))
        self.instructions, self.spelling = instructions.value, spelling.value.decode()
        self.loaded, self.stored, self.align = loaded.value, stored.value, align.value
        self.values, self.registers = values.value, registers.value


def test_every_call_is_reported_once():
    lib = build("reg_library.cpp", *VARIANTS["checked"])
    x, y, space = register(np.float32, 0), register(np.float32, 1), memory(512)
    all_lanes = lane_mask(np.float32, np.ones(64, bool))
    five_lanes = lane_mask(np.float32, np.arange(64) < 5)
    halves = aligned(np.where(np.arange(256) < 96, 0xFF, 0).astype(np.uint8))
    to, a, b, m, five = map(address, (space, x, y, all_lanes, five_lanes))
    calls = [
        (lambda: lib.create_mask_VL8_float(to), "CreateMask", 0, 0),
        (lambda: lib.update_mask_float(to, 9), "UpdateMask", 0, 0),
        (lambda: lib.mask_logic(0, to, a, b, m), "And/Or/Xor/Not/Move/Select (MaskReg)", 0, 0),
        (lambda: lib.Add_float(to, a, b, m), "Add/Sub/Adds", 0, 0),
        (lambda: lib.Muls_int32_t(to, a, 3, m), "Mul/Muls (int32)", 0, 0),
        (lambda: lib.Max_float(to, a, b, m), "Max/Min/Maxs/Mins", 0, 0),
        (lambda: lib.MulDstAdd_float(to, a, b, m), "MulAddDst/MulDstAdd", 0, 0),
        (lambda: lib.Or_uint8_t(to, a, b, m), "And/Or/Xor", 0, 0),
        (lambda: lib.ExpSub_float(to, a, b, m), "ExpSub", 0, 0),
        (lambda: lib.Ln_float(to, a, m), "Ln", 0, 0),
        (lambda: lib.Select_float(to, a, b, m), "Select", 0, 0),
        (lambda: lib.Cast_fp8_e4m3fn_t_float_ONE_SAT(to, a, m), "Cast (float, fp8_e4m3fn_t)", 0, 0),
        (lambda: lib.Cast_bfloat16_t_float_ONE_NO_SAT(to, a, m), "Cast (float, bfloat16_t)", 0, 0),
        (lambda: lib.Duplicate_uint16_t(to, 1), "Duplicate", 0, 0),
        (lambda: lib.DuplicateLane_float(to, a, m), "Duplicate", 0, 0),
        (lambda: lib.Arange_float(to, 1), "Arange (float)", 0, 0),
        (lambda: lib.MoveAll_float(to, a), "Move", 0, 0),
        (lambda: lib.Reduce_MAX_float(to, a, m), "Reduce", 0, 0),
        (lambda: lib.ReduceDataBlock_SUM_float(to, a, m), "ReduceDataBlock", 0, 0),
        (lambda: lib.LoadAlign_DIST_NORM(a, to), "LoadAlign", 256, 0),
        (lambda: lib.LoadAlign_DIST_BRC_B32(a, to), "LoadAlign DIST_BRC_B32", 4, 0),
        (lambda: lib.LoadAlign_DIST_BLK(a, to), "LoadAlign DIST_BLK", 32, 0),
        (lambda: lib.LoadAlign_DIST_E2B_B32(a, to), "LoadAlign DIST_E2B_B32", 32, 0),
        (lambda: lib.LoadAlign_DIST_DINTLV_B32(a, b, to), "LoadAlign DIST_DINTLV_B32", 512, 0),
        (lambda: lib.StoreAlign_DIST_NORM_float(to, a, m), "StoreAlign", 0, 256),
        (lambda: lib.StoreAlign_DIST_NORM_float(to, a, five), "StoreAlign", 0, 20),
        (lambda: lib.StoreAlign_DIST_FIRST_ELEMENT_B32_float(to, a, m), "StoreAlign DIST_FIRST_ELEMENT_B32", 0, 4),
        (lambda: lib.StoreAlign_DIST_INTLV_B32_float(to, a, b, m), "StoreAlign DIST_INTLV_B32", 0, 512),
        (lambda: lib.StoreAlign_DIST_PACK4_B32_uint8_t(to, a, five), "StoreAlign DIST_PACK4_B32", 0, 5),
        (lambda: lib.StoreAlign_blocks_uint16_t(to, a, 3, address(halves)), "StoreAlign DATA_BLOCK_COPY", 0, 96),
        (lambda: lib.fence(), "LocalMemBar", 0, 0),
    ]
    Log(lib)
    for call, spelling, loaded, stored in calls:
        call()
        log = Log(lib)
        assert (log.instructions, log.spelling, log.loaded, log.stored) == (1, spelling, loaded, stored)
        assert log.values == log.registers
        if loaded or stored:
            assert log.align == (4 if 4 in (loaded, stored) else 32)
