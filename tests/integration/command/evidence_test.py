"""docs/evidence.md shows what its commands and its script print, and the published measurements survive a store."""

import csv
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
import predicted_gains  # noqa: E402: it is no package

COMMAND = os.environ["UCUDNN_TEST_COMMAND"]
CODE = re.compile(r"^```\n(\$ .*?)^```$", re.M | re.S)


def document():
    with open(f"{ROOT}/docs/evidence.md", encoding="utf-8") as file:
        return file.read()


def commands(text):
    """Yields (command, its output) for each `$` line in a block of code."""
    for block in CODE.findall(text):
        for command in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, printed = command.partition("\n")
            yield line, printed


class Evidence(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        """Makes a folder in which the document's commands find what they name: tests/ and, in the path, ucudnn."""
        self.folder = tempfile.mkdtemp(prefix="ucudnn-evidence-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.symlink(f"{ROOT}/tests", f"{self.folder}/tests")
        os.mkdir(f"{self.folder}/bin")
        os.symlink(COMMAND, f"{self.folder}/bin/ucudnn")

    def run_line(self, line):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("UCUDNN_")}
        environment["PATH"] = f"{self.folder}/bin:{environment['PATH']}"
        result = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder, env=environment, text=True,
                                capture_output=True, timeout=120)
        self.assertEqual((0, ""), (result.returncode, result.stderr), line)
        return result.stdout

    def test_its_commands_print_what_it_shows(self):
        shown = list(commands(document()))
        self.assertGreater(len(shown), 6)
        for line, printed in shown:
            with self.subTest(line):
                self.assertEqual(printed, self.run_line(line))

    def test_its_tables_are_what_the_script_prints(self):
        between = document().partition(predicted_gains.BEGIN)[2].partition(predicted_gains.END)[0]
        self.assertEqual(between.splitlines(), list(predicted_gains.tables(COMMAND)))

    def test_the_script_replaces_its_tables_alone(self):
        path = f"{self.folder}/page.md"
        for page in (f"before\n{predicted_gains.BEGIN}old\n{predicted_gains.END}", "no marks\n"):
            with self.subTest(page):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(page)
                try:
                    predicted_gains.replace_tables(path, "new\n")
                except SystemExit as refusal:
                    self.assertIn("no marks", page)
                    self.assertIn("page.md", str(refusal))
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(page.replace("old", "new"), file.read())

    def test_published_measurements_survive_import_and_export(self):
        packed = f"{ROOT}/tests/unit/planning/tables/miopen/gpu-tables.csv.gz"
        self.run_line(f"gunzip -c {packed} > in.csv && ucudnn cache import in.csv --db s.db")
        self.run_line("ucudnn cache export out.csv --db s.db 2>&1")
        with gzip.open(packed, "rt", encoding="utf-8", newline="") as file:
            given = list(csv.DictReader(file))
        with open(f"{self.folder}/out.csv", encoding="utf-8", newline="") as file:
            exported = list(csv.DictReader(file))
        self.assertEqual((45225, 45225), (len(given), len(exported)))
        for before, after in zip(given, exported):
            # Times are equal to the bit; their texts may be different ones of the same number.
            self.assertEqual(float(before["time_ms"]), float(after["time_ms"]), before)
            self.assertEqual({k: v for k, v in before.items() if k != "time_ms"},
                             {k: after[k] for k in before if k != "time_ms"})


if __name__ == "__main__":
    unittest.main()
