from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from jobqueued.api import sockets
from jobqueued.api.sockets import bind, file_of, name_of


def test_port_zero_gets_a_port() -> None:
    (bound,) = bind("127.0.0.1:0")
    with bound:
        assert name_of(bound) == f"127.0.0.1:{bound.getsockname()[1]}"
        assert bound.getsockname()[1] != 0


def test_localhost_is_one_port_for_both_families() -> None:
    bound = bind("localhost:0")
    try:
        assert bound[0].getsockname()[0] == "127.0.0.1"
        assert len({one.getsockname()[1] for one in bound}) == 1
    finally:
        for one in bound:
            one.close()


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=f"cannot listen on {address}: Address already in use"):
            bind(address)


def test_the_socket_of_a_dead_daemon_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    (bound,) = bind(f"unix:{path}")
    with bound:
        assert name_of(bound) == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    path.write_text("precious")
    with pytest.raises(OSError, match=r"cannot listen on unix:.*Address already in use"):
        bind(f"unix:{path}")
    assert path.read_text() == "precious"


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"cannot listen on unix:.*No such file or directory"):
        bind(f"unix:{tmp_path}/nowhere/api.sock")


def test_the_socket_of_a_living_daemon_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(path))
        living.listen()
        with pytest.raises(OSError, match=r"cannot listen on unix:.*a daemon is answering there"):
            bind(f"unix:{path}")
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))


def test_a_socket_that_is_too_busy_to_accept_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "_PROBE_SECONDS", 0.05)
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as caller:
        busy.bind(str(path))
        busy.listen(0)
        caller.connect(str(path))
        with pytest.raises(OSError, match="a daemon is answering there"):
            bind(f"unix:{path}")
    assert path.exists()


def test_only_the_file_that_was_bound_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    (bound,) = bind(f"unix:{path}")
    with bound:
        own = file_of(bound)
        path.unlink()
        own.remove()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            own.remove()
            assert path.exists()
            file_of(other).remove()
            assert not path.exists()
