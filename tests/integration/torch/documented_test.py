"""Tests the program of docs/spatial.md that decodes a picture in stripes: it is ten lines long, and prints on four ranks what
the page says, except for the rounding."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import gloo

RANKS = 4
# Values reach about 4, and fp32 has 24 bits; some thirty layers, each with sums in another order, err by some hundred
# roundings.
LARGEST = 4 * 2.0 ** -24 * 256


def setUpModule():
    gloo.need("torch")
    gloo.need("diffusers")


def documented():
    """Returns (the program, the lines that it prints)."""
    page = (gloo.ROOT / "docs/spatial.md").read_text()
    (program, output), = re.findall(r"```python\n(.*?)```\n\n```\n\$ UCUDNN_SPATIAL=h4 torchrun --nproc-per-node 4 decode.py\n"
                                    "(.*?)```", page, re.DOTALL)
    return program, output.splitlines()


def parted(line):
    """Returns (everything but the difference, the difference)."""
    text, difference = line.rsplit(" ", 1)
    return text, float(difference)


class Documented(unittest.TestCase):
    def test_program_has_ten_lines(self):
        self.assertEqual(10, len(documented()[0].splitlines()))

    def test_program_prints_what_the_page_says(self):
        program, expected = documented()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "decode.py")
            path.write_text(program)
            variables = os.environ | {"UCUDNN_SPATIAL": f"h{RANKS}", "PYTHONPATH": str(gloo.ROOT / "python"),
                                      "OMP_NUM_THREADS": "1"}
            if library := os.environ.get("UCUDNN_TEST_LIBRARY"):
                variables["UCUDNN_LIBRARY"] = library
            result = subprocess.run([sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                     str(RANKS), path], env=variables, capture_output=True, text=True, timeout=600)
        self.assertEqual(0, result.returncode, result.stderr)
        # A rank writes its line and the end of the line apart, so another rank's line may come between them.
        lines = re.split(r"\n|(?=rank \d)", result.stdout)
        found = sorted(line for line in lines if line.startswith("rank "))
        print(*found, sep="\n")
        self.assertEqual(RANKS, len(expected))
        self.assertEqual([parted(line)[0] for line in expected], [parted(line)[0] for line in found])
        for line in (*expected, *found):
            self.assertLess(parted(line)[1], LARGEST, line)


if __name__ == "__main__":
    unittest.main()
