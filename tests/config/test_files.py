"""Several files make one configuration; what is wrong with a file is said with its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobqueued.config import Config, load_config
from jobqueued.model.errors import ConfigError
from tests.config.support import command_of

OK = 'command = ["true"]\n'


@pytest.fixture
def main(tmp_path: Path) -> Path:
    (tmp_path / "conf.d").mkdir()
    file = tmp_path / "jobqueued.toml"
    file.write_text(f"[queue]\nmax_depth = 1\n[types.main]\n{OK}")
    return file


def add(main: Path, name: str, text: str) -> Path:
    file = main.parent / "conf.d" / name
    file.write_text(text)
    return file


def load(main: Path) -> Config:
    return load_config(main, {"STATE_DIRECTORY": "/state"})


def faults(main: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(main)
    return str(caught.value).split("\n")


def test_files_are_merged(main: Path) -> None:
    one = add(main, "10-one.toml", f"[queue]\nmax_batch = 2\n[types.one]\n{OK}env.A = '1'\n")
    two = add(main, "20-two.toml", "[types.one]\nenv.B = '2'\n[types.main]\npriority = 9")
    config = load(main)
    assert (config.queue.max_depth, config.queue.max_batch) == (1, 2)
    assert command_of(config, "one").env == {"A": "1", "B": "2"}
    assert config.types["main"].priority == 9
    assert config.files == (main, one, two)


def test_other_files_are_left_alone(main: Path) -> None:
    for name in ("notes.txt", ".hidden.toml", "old.toml.bak"):
        add(main, name, "not = = toml")
    assert load(main).files == (main,)


def test_a_file_named_like_the_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "c.toml").touch()
    (tmp_path / "conf.d").touch()
    assert load(tmp_path / "c.toml").files == (tmp_path / "c.toml",)


def test_paths_in_a_merged_file_start_at_the_main_one(main: Path) -> None:
    add(main, "a.toml", '[store]\npath = "jobs.db"')
    assert load(main).store.path == main.parent / "jobs.db"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[queue]\nmax_depth = 1", "queue.max_depth"),
        ("queue = 1", "queue"),
        ("[types.main]\ncommand = ['false']", "types.main.command"),
        ("[types.main.command]\nx = 1", "types.main.command"),
    ],
)
def test_what_is_set_twice_names_both_files(main: Path, text: str, key: str) -> None:
    other = add(main, "a.toml", text)
    assert faults(main) == [f"{other}: {key}: is set in {main} too: keep one of them"]


def test_the_file_named_is_the_one_at_fault(main: Path) -> None:
    one = add(main, "1.toml", "[types.main]\npriority = 10\nenv = { A = '1' }")
    two = add(main, "2.toml", "[types.main.env]\nB = 2\n[types.two]\npool = 'none'")
    assert [line.split(": ")[:2] for line in faults(main)] == [
        [str(one), "types.main.priority"],
        [str(two), "types.main.env.B"],
        [str(two), "types.two"],
        [str(two), "types.two.pool"],
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = ", "is not valid TOML: Invalid value (at end of document)"),
        (b"a = 1\na = 2\n", "is not valid TOML: Cannot overwrite a value (at line 2, column 6)"),
        (b"x = '\xff'", "is not UTF-8 text (byte 5)"),
        (b"x = " + b"[" * 100_000, "is not valid TOML: "),
        (b"x = " + b"9" * 10_000, "is not valid TOML: "),
        (b"x = 2026-13-01", "is not valid TOML: "),
    ],
)
def test_what_is_not_toml(main: Path, content: bytes, message: str) -> None:
    main.write_bytes(content)
    (found,) = faults(main)
    assert found.startswith(f"{main}: {message}")


def test_tables_of_any_depth_are_only_unknown(main: Path) -> None:
    main.write_text(".".join("a" * 5000) + " = 1")
    (found,) = faults(main)
    assert found.startswith(f"{main}: a: unknown key")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert faults(missing) == [f"{missing}: cannot be read: No such file or directory"]


def test_a_directory_instead_of_a_file(main: Path) -> None:
    directory = main.parent / "conf.d" / "a.toml"
    directory.mkdir()
    assert faults(main) == [f"{directory}: cannot be read: Is a directory"]


def test_an_unreadable_directory_of_files(tmp_path: Path) -> None:
    (tmp_path / "c.toml").touch()
    (tmp_path / "conf.d").symlink_to("conf.d")
    (found,) = faults(tmp_path / "c.toml")
    assert found.startswith(f"{tmp_path / 'conf.d'}: cannot be read: Too many levels of symbolic")


def test_faults_of_all_files_are_listed_together(main: Path) -> None:
    broken = add(main, "1.toml", "= 1")
    wrong = add(main, "2.toml", "[queue]\nmax_batch = 0")
    assert [line.split(": ")[:2] for line in faults(main)] == [
        [str(broken), "is not valid TOML"],
        [str(wrong), "queue.max_batch"],
    ]


def test_what_an_unreadable_file_may_define_is_not_called_missing(main: Path) -> None:
    broken = add(main, "1.toml", "[pools.heavy]\nworkers = = 1")
    add(main, "2.toml", "[types.two]\npool = 'heavy'")
    (found,) = faults(main)
    assert found.startswith(f"{broken}: is not valid TOML")
