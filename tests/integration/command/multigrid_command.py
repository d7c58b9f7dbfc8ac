"""Functions shared by tests of `ucudnn multigrid`: runs that succeed or are refused, and files with digits and
weights."""

import json
import os
import re
import struct

from command import ROOT, CommandTest

DIGITS = f"{ROOT}/tests/unit/planner/digits"
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def few_digits(folder, training, testing):
    """Writes the first `training` and `testing` digits of DIGITS to `folder`, in MNIST's file format."""
    os.mkdir(folder)
    for name, count in zip(NAMES, (training, training, testing, testing)):
        with open(f"{DIGITS}/{name}", "rb") as file:
            data = file.read()
        head = 4 + 4 * data[3]
        size = (len(data) - head) // struct.unpack(">I", data[4:8])[0]
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data[:4] + struct.pack(">I", count) + data[8:head] + data[head:head + count * size])


def chain_arrays(steps, first=1):
    """Returns the weights of a chain of `steps` steps with 1x1 kernels. The chain's first state begins with the number
    `first`."""
    return {"K": ((steps, 1, 1, 1, 1), [0.5] * steps), "b": ((steps, 1), [0.25] * steps), "u0": ((1, 2, 3), [first, 2, 3, 4, 5, 6])}


def safetensors(path, arrays):
    """Writes a safetensors file of doubles. `arrays`: {name: (shape, values)}."""
    header, data = {}, b""
    for name, (shape, values) in arrays.items():
        own = struct.pack(f"<{len(values)}d", *values)
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [len(data), len(data) + len(own)]}
        data += own
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class MultigridTest(CommandTest):
    def multigrid(self, *words, **variables):
        return self.output("multigrid", *words, **variables)

    def document(self, *words):
        return self.printed_json("multigrid", *words, "--json")

    def told(self, *words):
        """Runs a solve that must succeed. Returns (the printed document, stderr)."""
        result = self.ended(0, "multigrid", *words, "--json")
        return json.loads(result.stdout), result.stderr

    def refused(self, words, line, code=2, **variables):
        """Runs a command whose whole message must be `line`, in which ... stands for any text."""
        result = self.ended(code, "multigrid", *words, **variables)
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        self.assertRegex(result.stderr, rf"\Aucudnn multigrid: {pattern}\n\Z")
        self.assertEqual("", result.stdout, words)
