"""The exception tree of both planes.

TerraplaneError                     exit code
├── UsageError                      2   the command, the params or a plugin's name is wrong
│   ├── ParamsError                 2   params.yaml or settings.yaml
│   └── PluginError                 2   an entry point is missing, doubled or out of step with the lock
├── DataError                       1   a check on data failed
│   ├── SourceError                 1   an input cannot be read at all
│   ├── ContractError               1   an operator broke its contract
│   └── AccountingError             1   rows in != kept + dropped + quarantined
└── EnvironmentFault                3   something outside the project is missing or busy
    ├── ModelMissing                3   a model file is not on this machine
    └── LakeBusy                    3   another run holds the table
"""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable


class TerraplaneError(Exception):
    """What failed, where, and the command or edit that mends it.

    Args:
        message: What failed, with expected and got.
        where: Stage, operator, column or file, most general first.
        fix: The command or edit that mends it.
    """

    exit_code = 1

    def __init__(self, message: str, *, where: str = "", fix: str = "") -> None:
        self.message, self.where, self.fix = message, where, fix
        super().__init__(self.render())

    def render(self) -> str:
        """The message as the command line prints it."""
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head}\n  fix: {self.fix}" if self.fix else head

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process borders; keyword arguments do not survive the default pickling."""
        return _rebuild, (type(self), self.message, self.where, self.fix)


def _rebuild(cls: type[TerraplaneError], message: str, where: str, fix: str) -> TerraplaneError:
    return cls(message, where=where, fix=fix)


class UsageError(TerraplaneError):
    """The command, the params or a name is wrong."""

    exit_code = 2


class ParamsError(UsageError):
    """params.yaml or settings.yaml is wrong; every fault found is listed."""


class PluginError(UsageError):
    """An entry point is missing, doubled, or out of step with plugins.lock.json."""


class DataError(TerraplaneError):
    """A check on data failed."""


class SourceError(DataError):
    """An input cannot be read at all."""


class ContractError(DataError):
    """An operator returned what its contract does not allow."""


class AccountingError(DataError):
    """Rows in do not equal rows kept + dropped + quarantined."""


class EnvironmentFault(TerraplaneError):
    """Something outside the project is missing or busy."""

    exit_code = 3


class ModelMissing(EnvironmentFault):
    """A model file is not on this machine."""


class LakeBusy(EnvironmentFault):
    """Another run holds the table."""


_ROOM = "make room, then run the same again: finished work is kept"
_RIGHTS = "make it writable for you, then run the same again; questions need no right to write"
_FIXES = {errno.ENOSPC: _ROOM, errno.EDQUOT: _ROOM, errno.EFBIG: _ROOM, errno.EROFS: _RIGHTS, errno.EACCES: _RIGHTS, errno.EPERM: _RIGHTS}


def of_system(error: OSError) -> EnvironmentFault:
    """What the operating system refused, as an error that says how to mend it."""
    # Lance gives its own text, with the number in it.
    told = re.search(r"\(os error (\d+)\)", str(error))
    number = error.errno or (int(told[1]) if told else 0)
    message = os.strerror(number) if number else str(error).partition(", /")[0]
    return EnvironmentFault(message, where=str(error.filename or ""), fix=_FIXES.get(number, ""))


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or lists all of them when none is close."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names)}" if names else "none is registered"
