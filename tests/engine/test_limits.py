"""How many more jobs of a type may start."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.config import Config, PoolSettings
from jobqueued.engine.limits import rooms
from jobqueued.model.job_type import CommandHandler, JobType
from jobqueued.store.interface import Room
from jobqueued.store.sqlite.counts import JobCounts
from tests.engine.support import read_config

LEASE = 60_000


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return read_config(tmp_path_factory.mktemp("limits"))


def with_types(config: Config, *types: JobType) -> Config:
    return msgspec.structs.replace(config, types={job_type.name: job_type for job_type in types})


def a_type(name: str, max_running: int | None = None, pool: str = "default") -> JobType:
    handler = CommandHandler(argv=("true",))
    return JobType(name=name, handler=handler, pool=pool, max_running=max_running)


def pending(*names: str, running: int = 0) -> JobCounts:
    """Counts with jobs pending of these types, and so many of each running."""
    lanes = {(name, "pending", 5): 100 for name in names}
    return JobCounts(lanes | {(name, "processing", 5): running for name in names})


def room(
    config: Config, counts: JobCounts, workers: int = 10, share: float = 0.8
) -> dict[str, int]:
    settings = PoolSettings(workers=workers, max_share=share)
    found = rooms(config, "default", settings, counts)
    running = {name: counts.of(name, "processing") for name in found}
    return {name: room.most - running[name] for name, room in found.items()}


def test_a_type_alone_may_have_all_workers(empty: Config) -> None:
    config = with_types(empty, a_type("a"), a_type("b", pool="narrow"))
    assert room(config, pending("a", "b")) == {"a": 10}


def test_types_that_share_a_pool_leave_room_for_each_other(empty: Config) -> None:
    config = with_types(empty, a_type("a"), a_type("b"))
    assert room(config, pending("a")) == {"a": 8}
    assert room(config, pending("a", "b", running=3)) == {"a": 5, "b": 5}


def test_a_type_at_its_share_has_no_room(empty: Config) -> None:
    config = with_types(empty, a_type("a"), a_type("b"))
    assert room(config, pending("a", running=8)) == {}
    assert room(config, pending("a", running=9)) == {}


def test_a_type_without_pending_jobs_is_not_asked_for(empty: Config) -> None:
    config = with_types(empty, a_type("a"), a_type("b"))
    assert room(config, pending()) == {}


@pytest.mark.parametrize(("running", "left"), [(0, {"a": 2}), (1, {"a": 1}), (2, {}), (5, {})])
def test_max_running_binds(empty: Config, running: int, left: dict[str, int]) -> None:
    config = with_types(empty, a_type("a", max_running=2))
    assert room(config, pending("a", running=running)) == left


def test_max_running_does_not_widen_the_share(empty: Config) -> None:
    config = with_types(empty, a_type("a", max_running=100), a_type("b"))
    assert room(config, pending("a")) == {"a": 8}


def test_a_room_knows_its_lease(empty: Config) -> None:
    config = with_types(empty, a_type("a"))
    settings = PoolSettings(workers=3, max_share=1.0)
    assert rooms(config, "default", settings, pending("a")) == {"a": Room(3, LEASE)}


@given(st.integers(1, 1000), st.floats(0.01, 1.0))
def test_a_share_is_at_least_one_worker_and_never_too_much(
    empty: Config, workers: int, share: float
) -> None:
    config = with_types(empty, a_type("a"), a_type("b"))
    found = room(config, pending("a"), workers, share)["a"]
    assert found == 1 or found <= workers * share
    assert found > workers * share - 1


def test_a_type_that_is_gone_from_the_configuration_waits(empty: Config) -> None:
    assert room(with_types(empty, a_type("a")), pending("gone")) == {}


def test_the_settings_are_read_from_the_file(tmp_path: Path) -> None:
    config = read_config(tmp_path)
    assert rooms(config, "narrow", config.pools["narrow"], pending("alone")) == {
        "alone": Room(1, 10_000)
    }
