"""Files of weights, as `ucudnn multigrid --weights` reads them."""

import json
import struct


def safetensors(path, arrays):
    """`arrays`: shape and values by name, which become doubles."""
    header, data = {}, b""
    for name, (shape, values) in arrays.items():
        own = struct.pack(f"<{len(values)}d", *values)
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [len(data), len(data) + len(own)]}
        data += own
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
