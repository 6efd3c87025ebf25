"""The kinds of setting that `python` handlers have: a function, and where its module is."""

from __future__ import annotations

import keyword
from pathlib import Path

import msgspec

from jobqueued.config.faults import quoted
from jobqueued.config.kinds import FilePath, unlike
from jobqueued.config.lists import items_of, read_each


class Function(msgspec.Struct, frozen=True):
    """A function in a module, as the pair of their names."""

    @property
    def accepts(self) -> str:
        return 'a function as "module:function", such as "myapp.jobs:score"'

    def read(self, value: object, base: Path) -> tuple[str, str]:
        if not isinstance(value, str):
            raise unlike(self, value)
        module, _, function = value.partition(":")
        if module.endswith(".py") or not (_is_dotted(module) and _is_dotted(function)):
            raise unlike(self, value, _meant(value))
        return module, function


class Directories(msgspec.Struct, frozen=True):
    """Directories, in the order in which they are searched."""

    @property
    def accepts(self) -> str:
        return 'a list of directories such as ["lib", "/srv/myapp"]'

    def read(self, value: object, base: Path) -> tuple[str, ...]:
        directory = FilePath("a directory")
        return tuple(read_each(items_of(self, value), lambda item: str(directory.read(item, base))))


def _is_dotted(name: str) -> bool:
    """Whether it is made of names that Python takes, with dots between them."""
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))


def _meant(text: str) -> str:
    """What somebody who wrote `myapp.jobs.score` or `myapp/jobs.py:score` means."""
    module, colon, function = text.removesuffix("()").partition(":")
    if not colon and not module.endswith(".py"):
        module, _, function = module.rpartition(".")
    module = module.removeprefix("./").removesuffix(".py").replace("/", ".")
    if not (_is_dotted(module) and _is_dotted(function)):
        return ""
    return f" (did you mean {quoted(f'{module}:{function}')}?)"
