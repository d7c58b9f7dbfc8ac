"""Tests facts.py without a GPU: comparisons of lists, programs that crash, hang or print nothing, lists for described devices
from the real cuDNN, and all stages on the CPU stand-in."""

import copy
import gzip
import json
import os
import pathlib
import tempfile
import types
import unittest
import unittest.mock

os.environ["UCUDNN_GPU_TEST_HOST"] = "1"  # must be set before `machine` is imported
import facts  # noqa: E402
import machine  # noqa: E402
import versions  # noqa: E402

ROW = {"engine": 62, "knobs": {"2": 0, "13": 1}, "numerical": [1], "behavior": [3], "workspace_bytes": 4096}
MODE = {"configurations": [ROW, ROW | {"engine": 38, "workspace_bytes": 0}], "plan": "{}"}
GRAPH = {"engines": 80, "A": MODE, "B": MODE, "fallback": MODE}
GRAPHS = {"a": GRAPH, "b": GRAPH}


def copied():
    return json.loads(json.dumps(GRAPHS))  # a deep copy: parts of GRAPHS are the same object


def changed(**values):
    device = copied()
    device["b"]["A"]["configurations"][0] |= values
    return facts.compared(device, GRAPHS)


class Comparison(unittest.TestCase):
    def test_equal_lists_are_valid(self):
        told = facts.compared(copied(), GRAPHS)
        self.assertEqual((2, {}, 12, 12),
                         (told["valid"], told["differing"], told["in both"], told["in both with the same workspace"]))
        self.assertEqual("offline work is valid for 2 of 2 graphs, and the JSON of plans is the same for 2", told["sentence"])

    def test_one_difference_is_told_as_what_it_is(self):
        for aspect, values, text in (("engines", {"engine": 61}, "61 there, 62 here"),
                                     ("knobs", {"knobs": {"2": 1, "13": 1}}, "{'2': 1, '13': 1} there"),
                                     ("notes", {"behavior": [1, 3]}, "[[1], [1, 3]] there, [[1], [3]] here"),
                                     ("workspace", {"workspace_bytes": 4097}, "4097 there, 4096 here")):
            with self.subTest(aspect=aspect):
                told = changed(**values)
                self.assertEqual((1, {aspect: 1}), (told["valid"], told["differing"]))
                self.assertTrue(told["first"][aspect].startswith("b, A: number 0, engine "), told["first"])
                self.assertIn(text, told["first"][aspect])

    def test_a_plan_that_is_not_built_there_is_told(self):
        self.assertEqual({"builds": 1, "workspace": 1}, changed(refused="no", workspace_bytes=None)["differing"])

    def test_another_order_has_the_same_configurations(self):
        device = copied()
        device["a"]["B"]["configurations"].reverse()
        told = facts.compared(device, GRAPHS)
        self.assertEqual((1, {"engines": 1}, 12, 12),
                         (told["valid"], told["differing"], told["in both"], told["in both with the same workspace"]))

    def test_what_is_missing_is_no_agreement(self):
        device = copied()
        del device["a"]
        device["b"]["A"]["configurations"].pop()
        told = facts.compared(device, GRAPHS)
        self.assertEqual(0, told["valid"])
        self.assertIn("1 configurations there, 2 here", facts.differences(device["b"]["A"], MODE)["engines"])

    def test_the_json_of_a_plan_decides_nothing(self):
        device = copied()
        device["a"]["A"]["plan"] = json.dumps({"engine": {"engineId": 61, "knobs": [1, 2]}, "GPUProfile": {"deviceVer": 900}})
        device["b"]["A"]["plan"] = json.dumps({"GPUProfile": {"deviceVer": 901}})
        told = facts.compared(device, GRAPHS)
        self.assertEqual((2, {"plan JSON": 1}), (told["valid"], told["differing"]))
        self.assertEqual("a, A: /engine: {'engineId': 61, 'knobs': [1, 2]} there, None here", told["first"]["plan JSON"])
        self.assertEqual("/e/1: 2 there, 3 here", facts.first_difference({"e": [1, 2]}, {"e": [1, 3]}))


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.sitting = types.SimpleNamespace(output=self.folder / "output", scratch=self.folder / "scratch",
                                             store=self.folder / "store.db", slug="host")
        self.sitting.output.mkdir()
        self.sitting.scratch.mkdir()

    def parts(self):
        (path,) = self.sitting.output.iterdir()
        document = json.loads(gzip.decompress(path.read_bytes()))
        self.assertEqual(("host-facts.json.gz", True), (path.name, document["host"]))
        return document["parts"]


class Programs(Folder):
    """Runs facts.py with a shell script in place of facts.cpp."""

    def outcome(self, script, seconds=20):
        program = self.folder / "program"
        program.write_text(f"#!/bin/sh\nwhile [ \"$1\" != --first ]; do shift; done; first=$2\n{script}\n")
        program.chmod(0o755)
        with unittest.mock.patch.object(facts, "PROGRAM", program), unittest.mock.patch.object(machine, "HOST", False):
            try:
                return facts.launches(self.sitting, seconds)
            except machine.Failed as failure:
                return failure

    def test_a_crash_costs_its_own_case_alone(self):
        failure = self.outcome("""
            if [ $first = 0 ]; then echo '{"begin":"a"}'; echo '{"case":"a"}'; echo '{"begin":"b"}'; kill -SEGV $$; fi
            [ $first = 2 ] && echo '{"begin":"c"}' && echo '{"case":"c"}'""")
        self.assertIn("b: ended with -11", str(failure.args[0]))
        self.assertEqual({"a", "b", "c"}, self.parts()["launches"]["cases"].keys())

    def test_what_was_told_before_the_end_of_the_time_is_kept(self):
        failure = self.outcome("""
            echo '{"begin":"a"}'; echo '{"case":"a","x":1}'; echo '{"begin":"b"}'; printf '{"ca'; sleep 60""", 3)
        self.assertIsInstance(failure, machine.TimedOut)
        self.assertEqual({"x": 1}, self.parts()["launches"]["cases"]["a"])
        self.assertIn("was not done in time", self.parts()["launches"]["cases"]["b"]["failed"])

    def test_a_program_that_says_nothing_has_failed(self):
        self.assertIn("told of no case", str(self.outcome("exit 0")))
        self.assertIn("ended with 1 no library", str(self.outcome("echo no library >&2; exit 1")))

    def test_what_time_did_not_reach_and_what_did_not_fit_is_named(self):
        told = self.outcome("""
            echo '{"begin":"a"}'; echo '{"case":"a","failed":"cudaMalloc of 9 MiB: no"}'; echo '{"not run":"b"}'""")
        self.assertEqual((["b"], {"a": "cudaMalloc of 9 MiB: no"}), (told["not run"], told["did not fit"]))

    def test_a_case_that_fails_fails_the_stage_and_no_other_case(self):
        failure = self.outcome("""
            echo '{"begin":"a"}'; echo '{"case":"a","failed":"bad"}'; echo '{"begin":"b"}'; echo '{"case":"b"}'""")
        self.assertEqual("a: bad", failure.args[0])
        self.assertEqual(2, failure.args[1]["cases"])


class Lists(Folder):
    def test_lists_for_described_devices_are_equal_each_time(self):
        first, second = self.folder / "first", self.folder / "second"
        facts.make_lists(first)
        with unittest.mock.patch.object(facts, "PROFILES", {"h200": facts.H200}):
            facts.make_lists(second)
        names = sorted(path.name for path in first.iterdir())
        self.assertEqual(["h100.json.gz", "h200.json.gz"], names)
        self.assertEqual((first / "h200.json.gz").read_bytes(), (second / "h200.json.gz").read_bytes())
        for graphs in facts.lists_of(first).values():
            self.assertEqual(60, len(graphs))
            self.assertLess(50, sum(bool(graph.get("A", {}).get("configurations")) for graph in graphs.values()))
            self.assertEqual(60, facts.compared(graphs, graphs)["valid"])


class StandIn(Folder):
    """Runs every stage with tiny sizes on the stand-in."""

    def test_plans_are_compared_with_lists(self):
        lists = self.folder / "lists"
        lists.mkdir()
        told = facts.ask("plans", 100)
        self.assertEqual(60, len(told.cases))
        other = copy.deepcopy(told.cases)
        other["alexnet conv1 n256 forward fp32 nchw"]["A"]["configurations"][0]["workspace_bytes"] += 1
        for name, graphs in (("same", told.cases), ("other", other)):
            (lists / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps({"graphs": graphs}).encode()))
        with unittest.mock.patch.object(facts, "LISTS", lists):
            figures = facts.plans(self.sitting, 100)
        self.assertEqual([60, 59, 60], [figures[name]["valid"] for name in ("same", "other", "own profile")])
        self.assertEqual({"workspace": 1}, figures["other"]["differing"])
        self.assertEqual(60, len(self.parts()["plans"]["cases"]))

    def test_without_lists_the_comparison_was_not_run(self):
        with unittest.mock.patch.object(facts, "LISTS", self.folder / "none"), \
                unittest.mock.patch.object(facts, "make_lists", side_effect=machine.Failed("no cuDNN")):
            figures = facts.plans(self.sitting, 100)
        self.assertEqual(["the comparison: no lists came along, and here: no cuDNN"], figures["not run"])

    def test_what_the_stand_in_lacks_is_named(self):
        figures = facts.kernels(self.sitting, 100)
        self.assertEqual(["cuGraphKernelNodeGetParams_v2"], figures["lacks"])
        self.assertEqual(figures["plans"], figures["captured"])

    def test_the_legacy_api_is_asked(self):
        figures = facts.legacy(self.sitting, 100)
        self.assertEqual((36, 36, 0), (figures["units"], figures["asked"], figures["left"]))

    def test_parts_are_in_one_file(self):
        self.assertEqual(20, facts.launches(self.sitting, 100)["plans"])
        self.assertEqual({"cases", "l2_bytes"}, {name for name in facts.sweep(self.sitting, 100) if "forward" not in name})
        figures = facts.tiles(self.sitting, 100)
        self.assertEqual(7, sum(isinstance(case, dict) and case["result"] == "equal" for case in figures.values()))
        for when in ("start", "end"):
            self.assertLess(0, facts.repeat(self.sitting, 100, when)["median_ms"])
        with unittest.mock.patch.object(versions, "missing", lambda name: "no PyTorch"):
            self.assertEqual("no PyTorch", facts.ceilings(self.sitting, 100)["gemm"])
        self.assertEqual({"launches", "sweep", "tiles", "repeat start", "repeat end", "ceilings"}, self.parts().keys())


if __name__ == "__main__":
    unittest.main()
