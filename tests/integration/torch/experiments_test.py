"""Tests that docs/experiments.md has the output of tests/bench/paper_figures.py, and that every measured count equals
the plan's prediction."""
import os
import pathlib
import sys
import tempfile
import unittest

import gloo

sys.path.insert(0, str(gloo.ROOT / "tests/bench"))
import paper_figures  # noqa: E402: its folder must be in sys.path first

COMMAND = os.environ.get("UCUDNN_TEST_COMMAND")
DOCUMENT = gloo.ROOT / "docs/experiments.md"


def shown(name):
    """Returns the lines of a figure's table in the document."""
    begin, end = paper_figures.marks(name)
    return DOCUMENT.read_text().partition(begin)[2].partition(end)[0].splitlines()


class Experiments(unittest.TestCase):
    maxDiff = None

    def compare(self, names):
        if not COMMAND:
            self.skipTest("UCUDNN_TEST_COMMAND names no command")
        for name, lines in paper_figures.figures_of(COMMAND, names):
            with self.subTest(name):
                self.assertGreater(len(lines), 3)
                self.assertEqual(shown(name), lines)

    def test_WhatIsModelled(self):
        self.compare(paper_figures.MODELLED)

    def test_WhatIsCounted(self):
        gloo.need("torch")
        self.compare([name for name in paper_figures.FIGURES if name not in paper_figures.MODELLED])

    def test_TheScriptReplacesItsTablesAlone(self):
        begin, end = paper_figures.marks("deepa-a2")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "page.md")
            path.write_text(f"before\n{begin}old\n{end}after\n")
            paper_figures.replace(path, "deepa-a2", ["new", "table"])
            self.assertEqual(f"before\n{begin}new\ntable\n{end}after\n", path.read_text())
            with self.assertRaisesRegex(SystemExit, "page.md: expected the lines <!-- owt-schemes -->"):
                paper_figures.replace(path, "owt-schemes", ["new"])


if __name__ == "__main__":
    unittest.main()
