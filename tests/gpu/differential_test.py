"""Compares divided convolutions with undivided ones by each engine of the legacy API: all three operations in fp32, fp16 and
bf16, NCHW and NHWC.

A first run measures. Then each engine in turn gets a store in which its pieces are the fastest; the store is made from
these measurements (stores.py). A run that may not measure then divides as this store says. With UCUDNN_TEST_KEEP=FOLDER
the measurements are kept in FOLDER. Test cases in other processes take them from there, so that the tests of single
engines never measure."""

import json
import os
import pathlib
import tempfile
import unittest

import machine
import stores

PROGRAM = machine.BUILD / "tests/gpu/bin/convolution_cases"
WORKSPACE_MIB = "256"

folder = None  # the folder in which measurements are kept


def setUpModule():
    global folder
    folder = os.environ.get("UCUDNN_TEST_KEEP")
    if not folder:
        holder = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(holder.cleanup)
        folder = holder.name


def results(output):
    """Returns (checksum, distance from whole numbers) by case, or None for cases that cuDNN does not support."""
    lines = [line.split() for line in output.strip().splitlines()]
    return {line[0]: None if line[1] == "unsupported" else (line[1], float(line[2])) for line in lines}


class Cases:
    """Runs the program, and gets the expected results from a run without ucudnn."""

    shapes, tune = "1" if machine.HOST else "5", {}

    @classmethod
    def start(cls, *options, **variables):
        # Only engines of the legacy API are used. Otherwise, a fastest engine of the graph API could replace an engine of the
        # legacy API.
        environment = machine.environment(UCUDNN_ENGINES="legacy", **cls.tune, **variables)
        return machine.under_ucudnn([*options], [PROGRAM, WORKSPACE_MIB, cls.shapes], environment, machine.seconds_left())

    @classmethod
    def references(cls):
        cls.expected = results(cls.start("--off")[0])

    @classmethod
    def setUpClass(cls):
        cls.references()

    @classmethod
    def kept(cls):
        return pathlib.Path(folder, f"differential-{cls.shapes}.json")

    @classmethod
    def measure(cls):
        """Returns the output of a run that measures, the number of its measurements, and their rows. The run is made once, and
        its results are kept."""
        if not cls.kept().exists():
            cls.kept().parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as scratch:
                store = f"{scratch}/measured.db"
                output, report = cls.start("--db", store, "--policy", "powerOfTwo")
                told = {"output": output, "measured": report["measured"], "rows": stores.rows_of(store)}
            machine.write_whole(cls.kept(), json.dumps(told).encode())
        return json.loads(cls.kept().read_text())

    def assert_equals_undivided(self, got):
        self.assertEqual(self.expected.keys(), got.keys())
        for case, expected in self.expected.items():
            with self.subTest(case=case):
                self.assertEqual(expected and expected[0], got[case] and got[case][0], (expected, got[case]))
                self.assertLess(got[case][1] if got[case] else 0, 0.25)


class Measured(Cases, unittest.TestCase):
    def test_cases_are_supported_and_whole(self):
        ran = [result for result in self.expected.values() if result]
        self.assertGreaterEqual(len(ran), len(self.expected) // 2)
        self.assertLess(max(off_whole for _, off_whole in ran), 0.25)

    def test_plans_as_measured_give_equal_results(self):
        told = self.measure()
        self.assertGreater(told["measured"], 0)
        self.assert_equals_undivided(results(told["output"]))
        machine.record("measured", told["measured"])


class Engines(Cases, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # With UCUDNN_TEST_KEEP these tests run at the same time as a stage that measures, so they must not measure themselves.
        if os.environ.get("UCUDNN_TEST_KEEP") and not cls.kept().exists():
            raise machine.Failed(f"nothing was measured before: {cls.kept().name} is missing; run {cls.measured} first, in "
                                 "the same sitting")
        super().setUpClass()

    measured = "Measured"

    def start_with_pieces_of(self, engine, rows, scratch):
        store = f"{scratch}/{machine.slug(engine)}.db"
        stores.prefer_pieces(rows, store, engine)
        return self.start("--db", store, "--policy", "powerOfTwo", UCUDNN_TUNE="off")

    def test_pieces_of_every_engine_give_equal_results(self):
        divided_by_engine, rows = {}, self.measure()["rows"]
        engines = {row["engine"] for row in rows if int(row["micro_batch"]) < int(row["n"])} - {"sum"}
        self.assertGreater(len(engines), 0)
        for engine in sorted(engines):
            with self.subTest(engine=engine), tempfile.TemporaryDirectory() as scratch:
                output, report = self.start_with_pieces_of(engine, rows, scratch)
                self.assertEqual(0, report["measured"])
                self.assert_equals_undivided(results(output))
                divided = [kernel for kernel in report["kernels"] if machine.pieces(kernel) > 1]
                divided_by_engine[engine] = len([k for k in divided if k["plan"][0]["engine"] == engine])
                self.assertGreater(divided_by_engine[engine], 0)
        machine.record("kernels divided, by engine", divided_by_engine)


class Brief:
    """Runs only the first three shapes, which cover remainders, unaligned images and a stride. On the stand-in, runs only the
    first shape."""

    shapes, tune = ("1", {}) if machine.HOST else ("3", {"UCUDNN_TUNE_SECONDS": "1:8"})


class BriefMeasured(Brief, Measured):
    pass


class BriefEngines(Brief, Engines):
    measured = "BriefMeasured"


if __name__ == "__main__":
    machine.main()
