"""Chinese and English sentence pairs of hsk-sentences-audio (CC BY-SA 4.0)."""

from __future__ import annotations

import functools
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from dataplane.sample import packages
from dataplane.sample.files import File, Keep

DISTRIBUTION = "hsk-sentences-audio"
ROWS_IN_GROUP = 1_000
_MISSING = re.compile(r"placeholder.*|PH")


@dataclass(frozen=True)
class Pair:
    """One sentence in both languages."""

    key: str
    level: int
    topic: str
    chinese: str
    english: str


@functools.cache
def pairs() -> tuple[Pair, ...]:
    """All pairs by key."""
    loaded = json.loads(packages.read(DISTRIBUTION, "hsk_sentences_audio/data/sentences.json"))
    found = (Pair(row["id"], row["hsk_level"], row["topic"], row["chinese"], row["translation"]["en"]) for row in loaded)
    return tuple(sorted(found, key=lambda pair: pair.key))


def translated() -> tuple[Pair, ...]:
    """Pairs whose English is a translation and not a note that one is missing ("placeholder-p1", "PH")."""
    return tuple(pair for pair in pairs() if not _MISSING.fullmatch(pair.english))


def files(keep: Keep) -> Iterator[File]:
    """One Parquet file; a document is the Chinese line and the English line below it."""
    kept = [pair for pair in pairs() if keep(f"parallel/{pair.key}")]
    table = pa.table(
        {
            "id": pa.array([pair.key for pair in kept], pa.string()),
            "text": pa.array([f"{pair.chinese}\n{pair.english}\n" for pair in kept], pa.string()),
            "level": pa.array([pair.level for pair in kept], pa.int32()),
            "topic": pa.array([pair.topic for pair in kept], pa.string()),
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", row_group_size=ROWS_IN_GROUP)
    yield File("hsk.parquet", buffer.getvalue(), len(kept))
