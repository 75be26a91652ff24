"""Which tests run in one process when pytest-xdist spreads them over several (`-n 2`), and in which order these start.

Tests that share something costly stay together: those that run provers share keys and compiled programs, those that
compute in JAX share what this process has compiled. Of the others each module is one unit. The longest units start
first, so that no process is left with a long one at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

#: unit -> the beginnings of the paths of its tests
TOGETHER = {
    "provers": ("tests/e2e/", "tests/cli/test_prove.py", "tests/cli/test_daemon.py"),
    "arrays": (
        "tests/algebra/",
        "tests/groth16/",
        "tests/circuits/",
        "tests/pipeline/test_post.py",
        "tests/pipeline/test_keys.py",
    ),
}
#: modules that take long, whatever the number of their tests
LONG = ("tests/journal/", "tests/live/", "tests/stack/", "tests/states/test_search.py", "tests/pages/")


def unit(nodeid: str) -> str:
    """The unit of a test: a name of TOGETHER, or its module."""
    module = nodeid.partition("::")[0]
    return next((name for name, paths in TOGETHER.items() if module.startswith(paths)), module)


def urgency(nodeid: str) -> int:
    """Units with a smaller number start earlier."""
    name = unit(nodeid)
    return list(TOGETHER).index(name) if name in TOGETHER else len(TOGETHER) + (not name.startswith(LONG))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In each of the processes alike; a run in one process keeps its order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: urgency(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """pytest-xdist asks how to spread the tests: by our units, in our order."""
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    config.option.loadscopereorder = False
    return ByUnit(config, log)
