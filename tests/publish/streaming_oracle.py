"""Run by an interpreter that has mosaicml-streaming: reads a folder of MDS as JSON, or writes one with MDSWriter.

python streaming_oracle.py read FOLDER                 prints the samples
python streaming_oracle.py write FOLDER < REQUEST.json {"columns": {name: encoding}, "size_limit": bytes, "samples": [...]}
"""

import json
import sys

import numpy as np
from streaming import MDSWriter, StreamingDataset


def plain(value):  # type: ignore[no-untyped-def]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value.item() if isinstance(value, np.generic) else value


def read(folder):  # type: ignore[no-untyped-def]
    data = StreamingDataset(local=folder, shuffle=False, batch_size=1)
    json.dump([{name: plain(value) for name, value in data[i].items()} for i in range(len(data))], sys.stdout)


def write(folder):  # type: ignore[no-untyped-def]
    request = json.load(sys.stdin)
    with MDSWriter(out=folder, columns=request["columns"], size_limit=request["size_limit"]) as out:
        for sample in request["samples"]:
            arrays = {name: np.array(value, np.int32) if isinstance(value, list) else value for name, value in sample.items()}
            out.write(arrays)


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]](sys.argv[2])
