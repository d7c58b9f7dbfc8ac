"""What tests of `ucudnn multigrid` have in common: runs that succeed or are refused, and a few digits to train on."""

import json
import os
import re
import struct

from command import CommandTest

ROOT = os.path.realpath(f"{os.path.dirname(__file__)}/../../..")
DIGITS = f"{ROOT}/tests/unit/planner/digits"
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def few_digits(folder, training, testing):
    """Writes the first digits for training and for testing to `folder`."""
    os.mkdir(folder)
    for name, count in zip(NAMES, (training, training, testing, testing)):
        with open(f"{DIGITS}/{name}", "rb") as file:
            data = file.read()
        head = 4 + 4 * data[3]
        size = (len(data) - head) // struct.unpack(">I", data[4:8])[0]
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data[:4] + struct.pack(">I", count) + data[8:head] + data[head:head + count * size])


class MultigridTest(CommandTest):
    def multigrid(self, *words, **variables):
        return self.output("multigrid", *words, **variables)

    def document(self, *words):
        return json.loads(self.multigrid(*words, "--json"))

    def refused(self, words, line, code=2, **variables):
        """Expects that `line` is the whole message, where ... stands for any text."""
        result = self.run_command("multigrid", *words, **variables)
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        self.assertRegex(result.stderr, rf"\Aucudnn multigrid: {pattern}\n\Z")
        self.assertEqual((code, ""), (result.returncode, result.stdout), words)
