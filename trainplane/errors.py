"""What goes wrong in training; the tree goes on from dataplane.errors.

DataError
└── TrainingError        1   training cannot go on, or proved itself wrong
    ├── NotFinite        1   a loss or gradient is NaN or infinite
    ├── LedgerBroken     1   the chain of consumed steps does not add up
    └── SandboxUnavailable 1 a program that a model wrote cannot be shut in, so it is not run
"""

from dataplane.errors import DataError


class TrainingError(DataError):
    """Training cannot go on, or a check on it failed."""


class NotFinite(TrainingError):
    """A loss or gradient is NaN or infinite."""


class LedgerBroken(TrainingError):
    """The chain of consumed steps does not add up."""


class SandboxUnavailable(TrainingError):
    """A program that a model wrote cannot be shut in, so it is not run."""
