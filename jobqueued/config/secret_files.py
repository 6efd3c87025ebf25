"""Reading the secrets of webhooks from files and systemd credentials. No message shows one."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from jobqueued.config.faults import Faults, Keys, shown_path
from jobqueued.config.read import Reader, Values
from jobqueued.model.webhook_secret import Secret, decode_secret

DIRECTORY_VARIABLE = "CREDENTIALS_DIRECTORY"
LARGEST = 4096
OTHERS = stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH

_FORM = "write the secret into it as plain text, or as whsec_ and base64"


class Unreadable(ValueError):
    """The secret may be good, but not for this user to see."""


def read_secrets(
    reader: Reader,
    types: Mapping[str, Values],
    environment: Mapping[str, str],
    unreadable: Faults,
) -> dict[str, tuple[Secret, ...]]:
    """The secrets of every type, by its name; those that are none are faults."""
    directory = environment.get(DIRECTORY_VARIABLE, "")
    return {
        name: tuple(_secrets(reader, ("types", name, "http"), own, directory, unreadable))
        for name, own in types.items()
    }


def _secrets(
    reader: Reader, above: Keys, own: Values, directory: str, unreadable: Faults
) -> Iterator[Secret]:
    for key, value in (("secret_file", _from_file), ("secret_credential", _from_credential)):
        named = own.get(f"http.{key}", ())
        for index, one in enumerate(named):
            keys = (*above, key, index) if len(named) > 1 else (*above, key)
            try:
                yield value(one, directory)
            except Unreadable as error:
                reader.note(unreadable, keys, str(error))
            except ValueError as error:
                reader.fault(keys, str(error))


def _from_file(file: Path, directory: str) -> Secret:
    try:
        return _secret(_content(file, private=True))
    except FileNotFoundError:
        start = "a relative path starts at the directory of the configuration file"
        raise ValueError(f"there is no such file; {start}") from None
    except PermissionError:
        fix = "it must belong to the user jobqueued runs as, with `chmod 600`"
        raise Unreadable(f"may not be read by this user: {fix}") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None


def _from_credential(name: str, directory: str) -> Secret:
    load = "LoadCredential=NAME:/path/of/the/file in its systemd unit"
    if not os.path.isabs(directory):
        raise Unreadable(f"needs ${DIRECTORY_VARIABLE}, which a daemon has that has {load}")
    try:
        # systemd may grant access by an access control list, which looks like a group's.
        return _secret(_content(Path(directory, name), private=False))
    except FileNotFoundError:
        raise ValueError(f"is not among the credentials of the daemon: add {load}") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None


def _secret(content: bytes) -> Secret:
    try:
        return decode_secret(re.sub(r"\r?\n\Z", "", content.decode()))
    # The error of a text that is not UTF-8 holds the whole of it.
    except UnicodeDecodeError:
        raise ValueError(f"is not UTF-8 text: {_FORM}") from None
    except ValueError as error:
        raise ValueError(f"{error}: {_FORM}") from None


def _content(file: Path, private: bool) -> bytes:
    # A pipe without a writer must not hold up the start.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(file, os.fstat(descriptor), private)
        return os.read(descriptor, LARGEST)
    finally:
        os.close(descriptor)


def _check(file: Path, status: os.stat_result, private: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("is not an ordinary file")
    if private and status.st_mode & OTHERS:
        raise ValueError(f"is open to other users: close it with `chmod 600 {shown_path(file)}`")
    if status.st_size > LARGEST:
        raise ValueError(f"is larger than {LARGEST} bytes, which is no secret")
