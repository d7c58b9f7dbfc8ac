"""Writes files of weights that `ucudnn multigrid --weights` reads."""

import json
import struct


def safetensors(path, arrays):
    """Writes `arrays`, shape and values by name, as doubles."""
    header, data = {}, b""
    for name, (shape, values) in arrays.items():
        own = struct.pack(f"<{len(values)}d", *values)
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [len(data), len(data) + len(own)]}
        data += own
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
