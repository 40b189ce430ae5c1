"""Before torch is imported: no autoload of a device backend, which fails on a machine that lacks its libraries."""

import os

import pytest

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests last."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
