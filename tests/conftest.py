"""Before torch is imported: no autoload of a device backend, which fails on a machine that lacks its libraries."""

import os
import statistics

import pytest

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests last."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests recorded with record_property as numbers: count, median, and the worst with its test."""
    recorded: dict[str, list[tuple[float, str]]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in report.user_properties:
                recorded.setdefault(name, []).append((value, report.nodeid.partition("::")[2]))
    for name, values in sorted(recorded.items()):
        worst, where = max(values)
        median = statistics.median(value for value, _ in values)
        terminalreporter.write_line(f"{name}: {len(values)} cases, median {median:.2e}, worst {worst:.2e} in {where}")
