"""Tests the published parameter lists of other systems: how long they are, how many cases the systems' own rules
require, and how many cases ucudnn supports. docs/spatial.md has these numbers. Only a geometry decides about support;
the tests use PlainGeometry and libucudnn's geometry. published_test.py runs a sample of the cases."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python"))

import published  # noqa: E402
from plain_geometry import PlainGeometry, geometries  # noqa: E402


def counted(library, cases):
    """Returns two values. The first has four numbers of cases: of all cases, of cases that the systems' own rules
    require, of cases that an unchanged program can run, and of cases that convert can run. The second has the
    reasons why convert cannot run required cases."""
    why = {}
    for case in cases:
        if case.key not in why:
            why[case.key] = [decide(library, case) for decide in (published.unchanged, published.converted)]
    return (len(cases), sum(not case.excused for case in cases),
            *(sum(not why[case.key][way] for case in cases) for way in (0, 1))), {
                why[case.key][1] for case in cases if not case.excused} - {""}


def documented():
    """Returns {list: numbers in its row of the table in docs/spatial.md}."""
    text = (ROOT / "docs/spatial.md").read_text()
    rows = re.findall(r"^\| ([^|]+?) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+|none) \| ([\d,]+) \|", text, re.MULTILINE)
    return {name: tuple(int(number.replace(",", "").replace("none", "0")) for number in numbers) for name, *numbers in rows}


class Lists(unittest.TestCase):
    def test_lists_are_as_long_as_published(self):
        """The expected lengths of physicsnemo's and DistConv's lists are the numbers of tests that pytest finds in
        their repositories."""
        lengths = {name: len(make()) for name, make in published.LISTS.items()}
        self.assertEqual({"DistConv": 18 + 18 + 72 + 18 + 18 + 25 + 144 + 9 + 4 + 2 + 2 + 3, "DiHydrogen 2-D": 44 * 24 * 32,
                          "DiHydrogen 3-D": 114 * 24 * 32, "DiHydrogen pooling": 15, "DiHydrogen norms 2-D": 44 * 24,
                          "DiHydrogen norms 3-D": 114 * 24, "physicsnemo": 208, "physicsnemo pooling": 160,
                          "physicsnemo norms": 4 + 16}, lengths)

    def test_their_own_rules_require_so_many(self):
        required = {name: sum(not case.excused for case in make()) for name, make in published.LISTS.items()}
        self.assertEqual((321, 15, 55, 80, 18), tuple(required[name] for name in (
            "DistConv", "DiHydrogen pooling", "physicsnemo", "physicsnemo pooling", "physicsnemo norms")))

    def test_table_says_how_many_we_do(self):
        table = documented()
        for library in geometries():
            for name, make in published.LISTS.items():
                numbers, missed = counted(library, make())
                self.assertEqual(numbers, table.get(name), f"{name}: docs/spatial.md")
                wanted = {published.OF_OTHER_GROUPS} if name.startswith("DiHydrogen norms") else set()
                self.assertEqual(wanted, missed, f"{name}: required there, and not done here")

    def test_a_refusal_has_a_reason(self):
        reasons = {re.sub(r"\d+", "N", published.converted(PlainGeometry(), case)) for case in published.physicsnemo()} - {""}
        self.assertEqual(1, len(reasons), reasons)
        self.assertIn("go on across a cut", reasons.pop())


if __name__ == "__main__":
    unittest.main()
