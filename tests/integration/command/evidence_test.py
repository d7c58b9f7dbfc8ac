"""Tests that docs/evidence.md shows the output of its commands and its script, and that published measurements pass
through a store unchanged."""

import csv
import gzip
import os
import re
import sys
import unittest

from command import COMMAND, ROOT, FolderTest

sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
import predicted_gains  # noqa: E402: its folder must be in sys.path first

CODE = re.compile(r"^```\n(\$ .*?)^```$", re.M | re.S)


def commands(text):
    """Yields (command, output) for each line that begins with `$` in a code block. The output ends at the next
    command."""
    for block in CODE.findall(text):
        for command in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, printed = command.partition("\n")
            yield line, printed


class Evidence(FolderTest):
    maxDiff = None
    command = "bash"
    document = f"{ROOT}/docs/evidence.md"

    @classmethod
    def setUpClass(cls):
        """Makes a folder in which the document's commands can run: it links to tests/, and PATH has ucudnn."""
        super().setUpClass()
        os.symlink(f"{ROOT}/tests", f"{cls.folder}/tests")
        os.mkdir(f"{cls.folder}/bin")
        os.symlink(COMMAND, f"{cls.folder}/bin/ucudnn")

    def run_line(self, line):
        return self.output("-o", "pipefail", "-c", line, PATH=f"{self.folder}/bin:{os.environ['PATH']}")

    def test_its_commands_print_what_it_shows(self):
        shown = list(commands(self.read(self.document)))
        self.assertGreater(len(shown), 6)
        for line, printed in shown:
            with self.subTest(line):
                self.assertEqual(printed, self.run_line(line))

    def test_its_tables_are_what_the_script_prints(self):
        between = self.read(self.document).partition(predicted_gains.BEGIN)[2].partition(predicted_gains.END)[0]
        self.assertEqual(between.splitlines(), list(predicted_gains.tables(COMMAND)))

    def test_the_script_replaces_its_tables_alone(self):
        for page in (f"before\n{predicted_gains.BEGIN}old\n{predicted_gains.END}", "no marks\n"):
            with self.subTest(page):
                path = self.write("page.md", page)
                try:
                    predicted_gains.replace_tables(path, "new\n")
                except SystemExit as refusal:
                    self.assertIn("no marks", page)
                    self.assertIn("page.md", str(refusal))
                self.assertEqual(page.replace("old", "new"), self.read("page.md"))

    def test_published_measurements_survive_import_and_export(self):
        packed = f"{ROOT}/tests/unit/planning/tables/miopen/gpu-tables.csv.gz"
        self.run_line(f"gunzip -c {packed} > in.csv && ucudnn cache import in.csv --db s.db")
        self.run_line("ucudnn cache export out.csv --db s.db 2>&1")
        with gzip.open(packed, "rt", encoding="utf-8", newline="") as file:
            given = list(csv.DictReader(file))
        exported = list(csv.DictReader(self.read("out.csv").splitlines()))
        self.assertEqual((45225, 45225), (len(given), len(exported)))
        for before, after in zip(given, exported):
            # The text of a time may differ, but its value must be the same double.
            self.assertEqual(float(before["time_ms"]), float(after["time_ms"]), before)
            self.assertEqual({k: v for k, v in before.items() if k != "time_ms"},
                             {k: after[k] for k in before if k != "time_ms"})


if __name__ == "__main__":
    unittest.main()
