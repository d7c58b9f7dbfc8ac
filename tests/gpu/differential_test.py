"""Divided convolutions against undivided ones: all three operations, fp32, fp16 and bf16, NCHW and NHWC, each engine.

What is divided depends on times, and times differ from machine to machine. So a first run measures, then the times in
its store are rewritten (CSV out and in) so that pieces of one engine win, and a run that may not measure uses that."""

import csv
import math
import pathlib
import tempfile
import unittest

import machine

PROGRAM = machine.BUILD / "tests/gpu/bin/convolution_cases"
WORKSPACE_MIB, SHAPES = "256", "1" if machine.HOST else "5"


def results(output):
    """Checksum and distance from whole numbers by case; None where cuDNN has no engine."""
    lines = [line.split() for line in output.strip().splitlines()]
    return {line[0]: None if line[1] == "unsupported" else (line[1], float(line[2])) for line in lines}


class Differential(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = holder.name
        cls.expected = results(cls.start("--off")[0])
        output, cls.report = cls.start("--db", f"{cls.folder}/measured.db", "--policy", "powerOfTwo")
        cls.measured = results(output)
        rows_file = f"{cls.folder}/measured.csv"
        machine.run([machine.UCUDNN, "cache", "export", rows_file, "--db", f"{cls.folder}/measured.db"],
                    machine.environment())
        with open(rows_file, newline="") as file:
            cls.rows = list(csv.DictReader(file))

    @classmethod
    def start(cls, *options, **variables):
        # Engines of the legacy API: those of the graph API serve its calls only where they are the fastest undivided.
        environment = machine.environment(UCUDNN_ENGINES="legacy", **variables)
        return machine.under_ucudnn([*options], [PROGRAM, WORKSPACE_MIB, SHAPES], environment)

    def start_with_pieces_of(self, engine):
        """Runs with a store in which a quarter of the mini-batch on `engine` is the fastest way for every kernel."""
        name = machine.slug(engine)
        path = pathlib.Path(self.folder, f"{name}.csv")
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.rows[0])
            writer.writeheader()
            for row in self.rows:
                size, whole = int(row["micro_batch"]), int(row["n"])
                time = size * (1 + abs(math.log2(4 * size / whole))) * (1 if row["engine"] == engine else 1000)
                writer.writerow(row | {"time_ms": time if size < whole else time * 1000})
        store = ["--db", f"{self.folder}/{name}.db"]
        machine.run([machine.UCUDNN, "cache", "import", path, *store], machine.environment())
        return self.start(*store, "--policy", "powerOfTwo", UCUDNN_TUNE="off")

    def assert_equals_undivided(self, got):
        self.assertEqual(self.expected.keys(), got.keys())
        for case, expected in self.expected.items():
            with self.subTest(case=case):
                self.assertEqual(expected and expected[0], got[case] and got[case][0], (expected, got[case]))
                self.assertLess(got[case][1] if got[case] else 0, 0.25)

    def test_cases_are_supported_and_whole(self):
        ran = [result for result in self.expected.values() if result]
        self.assertGreaterEqual(len(ran), len(self.expected) // 2)
        self.assertLess(max(off_whole for _, off_whole in ran), 0.25)

    def test_plans_as_measured_give_equal_results(self):
        self.assert_equals_undivided(self.measured)
        self.assertGreater(self.report["measured"], 0)

    def test_pieces_of_every_engine_give_equal_results(self):
        divided_by_engine = {}
        smaller = [row for row in self.rows if int(row["micro_batch"]) < int(row["n"])]
        for engine in sorted({row["engine"] for row in smaller} - {"sum"}):
            with self.subTest(engine=engine):
                output, report = self.start_with_pieces_of(engine)
                self.assertEqual(0, report["measured"])
                self.assert_equals_undivided(results(output))
                divided = [kernel for kernel in report["kernels"] if machine.pieces(kernel) > 1]
                divided_by_engine[engine] = len([k for k in divided if k["plan"][0]["engine"] == engine])
                self.assertGreater(divided_by_engine[engine], 0)
        machine.record("kernels divided, by engine", divided_by_engine)


if __name__ == "__main__":
    machine.main()
