"""How many clean documents decontamination flags, benchmark by benchmark: the published ones, and one of nothing but stock phrases.

    python benchmarks/stock_phrases.py [--quick] [--corpus PATH] [--told]

Documents are the texts of $TERRAPLANE_SHARED_DATA (books, web pages, papers, instructions, dialogue) or of --corpus. None was made from
a benchmark, so each one that is flagged is flagged wrongly, unless it quotes an item: --told prints which items those are. `ours` is the
share of documents flagged by the rule of the stage (half of an item's n-grams), `peer` the share with any n-gram in common, the rule of
Brown et al. 2020 (arXiv:2005.14165, appendix C). The benchmark `stock` is the worst case: its items are licence lines, notices of web pages
and phrases of exams, whole, so that a document is flagged because it holds one.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.decontamination import items
from benchmarks.text_corpus import documents

QUICK_CHARS = 4_000_000
MIN_CHARS = 200  # of a string of a JSON file that is taken for a document
TEXT, JSON_LINES = (".txt", ".md", ".rst", ".tex"), (".jsonl", ".json")
NOT_CLEAN = ("benchmarks", "language")  # the benchmarks, and translations of one
LENGTHS = ([13], [8], [13, 8])
STOCK = (
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files",
    "The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software",
    "THE SOFTWARE IS PROVIDED AS IS, WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED",
    "Licensed under the Apache License, Version 2.0; you may not use this file except in compliance with the License",
    "Redistribution and use in source and binary forms, with or without modification, are permitted",
    "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License",
    "This work is licensed under a Creative Commons Attribution-ShareAlike 4.0 International License",
    "Text is available under the Creative Commons Attribution-ShareAlike License; additional terms may apply",
    "This eBook is for the use of anyone anywhere in the United States and most other parts of the world",
    "at no cost and with almost no restrictions whatsoever",
    "All rights reserved. No part of this publication may be reproduced or transmitted in any form or by any means",
    "This material may not be published, broadcast, rewritten or redistributed",
    "By continuing to use this site you agree to our use of cookies",
    "We use cookies to give you the best experience on our website",
    "By using this site, you agree to the Terms of Use and Privacy Policy",
    "Your email address will not be published. Required fields are marked",
    "You must be logged in to post a comment on this page",
    "Click here to subscribe to our newsletter and get the latest news in your inbox",
    "This page was last edited on and is available under the terms of the licence",
    "The views expressed in this article are those of the author and do not necessarily reflect",
    "For more information, please visit our website or contact us by email",
    "The following is a list of the most common questions and answers",
    "Which of the following best describes the relationship between the two",
    "Which of the following is not one of the characteristics of",
    "Which one of the following statements about the passage is true",
    "Choose the answer that best completes the sentence or answers the question",
    "All of the above. None of the above. Both A and B",
    "Read the following passage carefully and then answer the questions that follow",
    "Write a function that takes a list of integers and returns the sum",
    "Let's think step by step and give the final answer at the end",
    "as can be seen from the table above, on the other hand",
    "at the end of the day, when all is said and done",
    "it is important to note that this is only one of the",
    "in the middle of the night on the other side of the",
    "版权所有，未经许可不得转载",
    "本网站所有内容均来自互联网，如有侵权请联系我们删除",
    "下列关于以下内容的说法中，正确的是",
    "根据短文内容，选择正确的答案填空",
    "转载请注明出处并保留原文链接",
)


def clean(root: Path) -> Iterator[str]:
    """Texts of the files and archives of a folder, one document each; long strings of JSON files."""
    for path in sorted(root.rglob("*")):
        if path.is_dir() or path.relative_to(root).parts[0] in NOT_CLEAN:
            continue
        if path.name.endswith(".tar.xz"):
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.isfile():
                        yield from _texts(member.name, archive.extractfile(member).read())  # type: ignore[union-attr]
        elif path.suffix == ".gz":
            yield from _texts(path.stem, gzip.decompress(path.read_bytes()))
        else:
            yield from _texts(path.name, path.read_bytes())


def _texts(name: str, content: bytes) -> Iterator[str]:
    suffix = Path(name).suffix
    text = content.decode("utf-8", "replace") if suffix in (*TEXT, *JSON_LINES) else ""
    if suffix in TEXT:
        yield text
    for line in text.splitlines() if suffix == ".jsonl" else [text] * (suffix == ".json"):
        try:
            yield from _strings(json.loads(line))
        except json.JSONDecodeError:
            continue  # some are broken on purpose


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= MIN_CHARS:
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument(
        "--corpus", type=Path, help="a text file, or a folder of .txt, .md and .rst; left out: the shared texts, or made-up ones"
    )
    parser.add_argument("--told", action="store_true", help="print the items of the documents that are flagged")
    return parser.parse_args()


def collection(chosen: argparse.Namespace) -> list[str]:
    """Distinct documents."""
    shared = Path(os.environ.get("TERRAPLANE_SHARED_DATA", "shared/data"))
    texts = documents(chosen) if chosen.corpus or not shared.is_dir() else clean(shared)
    found, total = dict[str, None](), 0
    for text in texts:
        if text.strip() and text not in found:
            found[text] = None
            total += len(text)
        if chosen.quick and total > QUICK_CHARS:
            break
    return list(found)


def main() -> None:
    from dataplane.corpus.contamination import DecontaminateParams, index_items, scan

    chosen = options()
    texts = collection(chosen)
    given, _ = items(None)
    given += [("stock", str(i), [phrase]) for i, phrase in enumerate(STOCK)]
    doc_ids, column = pa.array([str(i) for i in range(len(texts))]), pa.array(texts, pa.large_string())
    size = sum(len(text.encode()) for text in texts) / 1e6
    for n in LENGTHS:
        setup = DecontaminateParams(n=n, n_cjk=n)
        hits = pa.Table.from_batches([scan(index_items(given, setup), doc_ids, column)])
        over = hits.filter(pc.greater_equal(hits["covered"], setup.min_covered))
        for benchmark in sorted({name for name, _, _ in given}):
            flagged, met = (len(pc.unique(table.filter(pc.equal(table["benchmark"], benchmark))["doc_id"])) for table in (over, hits))
            row = {
                "name": f"clean documents flagged, {benchmark}, n={'+'.join(map(str, n))}",
                "ours": flagged / len(texts),
                "peer": met / len(texts),
            }
            about = {
                "peer_name": "any n-gram in common",
                "peer_version": "",
                "ratio": round(flagged / met, 3) if met else None,
                "unit": "share",
            }
            print(json.dumps(row | about | {"flagged": flagged, "met": met, "documents": len(texts), "mb": round(size, 1)}), flush=True)
        if chosen.told:
            for row in over.to_pylist():
                print(row | {"text": texts[int(row["doc_id"])][:80]}, file=sys.stderr)


if __name__ == "__main__":
    main()
