"""Tests that need torch_npu and an NPU, real or virtual: make test-npu."""

import ctypes
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("QBSA_TEST_DEVICE", "npu:0")

torch_npu = pytest.importorskip("torch_npu", reason="these tests run with make test-npu", exc_type=ImportError)


class VirtualDevice:
    """The knobs of twin/device/virtual_device.h."""

    def __init__(self, library):
        self._library = library
        self.refuse_launch = library.virtual_device_refuse_launch
        self.fail_kernel = library.virtual_device_fail_kernel
        self.kernels = library.virtual_device_kernels
        self.kernels.restype = ctypes.c_int64

    def slow_copies(self, *, host_ms=0, stream_ms=0):
        self._library.virtual_device_slow_copies(host_ms, stream_ms)


@pytest.fixture
def virtual():
    library = ctypes.CDLL("libascendcl.so")
    if not hasattr(library, "virtual_device_kernels"):
        pytest.skip("needs the virtual device: a real one is not slow or broken at will")
    device = VirtualDevice(library)
    yield device
    device.slow_copies()
