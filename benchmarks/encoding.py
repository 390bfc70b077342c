"""MB/s of UTF-8 per CPU second: encoding repair against ftfy, decoding against chardet.

    python benchmarks/encoding.py [--quick] [--corpus FILE_OR_FOLDER]

`clean` is text without mojibake, `broken` the same with every hundredth document decoded wrongly. Decoding is that of the text in
windows-1252 and gb18030, undeclared.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

from importlib.metadata import version

import pyarrow as pa

from benchmarks.text_corpus import cpu_seconds, documents, options, show

CONFIG = dict.fromkeys(
    ("unescape_html", "remove_terminal_escapes", "fix_latin_ligatures", "fix_character_width", "uncurl_quotes", "fix_line_breaks"), False
)


def repair(texts: list[str], name: str, peer_share: int) -> None:
    """Ours on all texts, ftfy on every `peer_share`-th."""
    import ftfy

    from dataplane.transforms.encoding import EncodingRepair

    operator = EncodingRepair()
    operator.open()
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    size = sum(len(text.encode()) for text in texts) / 1e6
    some = texts[::peer_share]
    ours = size / cpu_seconds(lambda: operator.transform(batch))
    peer = sum(len(text.encode()) for text in some) / 1e6 / cpu_seconds(lambda: [ftfy.fix_text(text, **CONFIG) for text in some])
    show(f"repair/{name}", ours, peer, "ftfy", version("ftfy"), "MB/s")


def decoding(texts: list[str], charset: str) -> None:
    import chardet

    from dataplane.sources.decode import decode

    payloads = [payload for text in texts if not (payload := text.encode(charset, "ignore")).isascii()][:200]
    size = sum(map(len, payloads)) / 1e6
    ours = size / cpu_seconds(lambda: [decode(payload, None, None) for payload in payloads])
    peer = size / cpu_seconds(lambda: [payload.decode(chardet.detect(payload)["encoding"] or "latin-1", "replace") for payload in payloads])
    show(f"decode/{charset}", ours, peer, "chardet", version("chardet"), "MB/s")


def main() -> None:
    chosen = options(__doc__)
    texts = documents(chosen)
    broken = [text.encode().decode("latin-1") if row % 100 == 0 else text for row, text in enumerate(texts)]
    repair(texts, "clean", 10)
    repair(broken, "broken", 10)
    for charset in ("cp1252", "gb18030"):
        decoding(texts, charset)


if __name__ == "__main__":
    main()
