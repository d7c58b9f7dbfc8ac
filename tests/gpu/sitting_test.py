"""Tests the outcomes that tools/gpu-check records for stages that pass, fail, exceed their limit or are cut off by the
sitting's end. Also tests which stages run at the same time, and that a sitting's files are complete whenever it is killed.
The stages are made up in this file, except in the tests of the tables of tests/gpu/stages.py."""

import contextlib
import csv
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import machine
import sitting
import stages
import summary
import versions
from stages import ALONE, BESIDE, FREE, GATE, MEASURES

# This is the module `work` whose functions the stages call. The test writes it to a folder from which the stages'
# processes import it.
WORK = """
import json, os, pathlib, signal, subprocess, sys, time
import figures, machine

def note(sitting, name, what):
    with open(sitting.scratch / "log", "a") as log:
        log.write(json.dumps([name, what, time.monotonic()]) + "\\n")

def passes(sitting, seconds, name="", takes=0.0):
    note(sitting, name, "begin")
    time.sleep(takes)
    note(sitting, name, "end")
    return {"name": name, "total_ms": 5, "deep": [{"seconds": 1, "bytes": 2}]}

def fails(sitting, seconds):
    raise machine.Failed("the first line\\n" + 9000 * "x", {"so far": 1})

def skips(sitting, seconds):
    raise figures.Skipped("nothing here")

def is_cut(sitting, seconds):
    raise machine.TimedOut("not done", {"so far": 1})

def leaves_out(sitting, seconds):
    return {"not run": ["fp16"]}

def hangs(sitting, seconds):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"], preexec_fn=machine.die_with_parent)
    (sitting.scratch / "child").write_text(str(child.pid))
    time.sleep(600)

def crashes(sitting, seconds):
    print("about to crash", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)

def raises(sitting, seconds):
    {}["nowhere"]

def writes(sitting, seconds):
    rows = "".join(f"{i},{i * i}\\n" for i in range(20000))
    machine.write_whole(sitting.output / "rows.csv", ("i,square\\n" + rows).encode())
    return {"rows": list(range(5000))}
"""
# This program runs a sitting of many short stages. The test kills it.
KILLED = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import sitting, stages
folder = pathlib.Path(sys.argv[2])
context = {"output": str(folder / "output"), "scratch": str(folder), "store": str(folder / "m.db"), "slug": "x",
           "modules": str(folder), "environment": {}}
rows = [stages.Stage(f"writes {i}", stages.FREE, 1, 10, "", ("work.writes",)) for i in range(1000)]
sitting.Sitting(sitting.Results(folder / "output/x.json", {}), context, 600, 2).run(rows)
"""


def stage(name, work, *arguments, lane=FREE, seconds=1, limit=20, needs=(), is_test=False):
    made = type("Test", (stages.Stage,), {"is_test": True}) if is_test else stages.Stage
    return made(name, lane, seconds, limit, "", (f"work.{work}", *arguments), tuple(needs))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.output = self.folder / "output"
        self.output.mkdir()
        (self.folder / "work.py").write_text(WORK)
        silent = self.enterContext(open(os.devnull, "w"))
        self.enterContext(contextlib.redirect_stdout(silent))

    def run_stages(self, *rows, seconds=60, at_once=4, earlier=None, environment=None, last=()):
        context = {"output": str(self.output), "scratch": str(self.folder), "store": str(self.folder / "m.db"), "slug": "x",
                   "modules": str(self.folder), "environment": {}}
        self.results = sitting.Results(self.output / "x.json", environment or {"commit": "c", "gpu": "g", "driver": 1}, earlier)
        sitting.Sitting(self.results, context, seconds, at_once).run(rows, last)
        document = json.loads((self.output / "x.json").read_text())
        return {each["name"]: each for each in document["stages"]}

    def spans(self):
        """Returns the times at which each stage began and ended, by name."""
        found = {}
        for line in (self.folder / "log").read_text().splitlines():
            name, what, when = json.loads(line)
            found.setdefault(name, {})[what] = when
        return found


class Outcomes(Case):
    def test_each_end_of_a_stage_is_told_as_such_and_costs_the_others_nothing(self):
        found = self.run_stages(
            stage("passes", "passes"), stage("fails", "fails"), stage("skips", "skips"), stage("is cut", "is_cut"),
            stage("test is cut", "is_cut", is_test=True), stage("leaves out", "leaves_out"), stage("crashes", "crashes"),
            stage("raises", "raises"), stage("is last", "passes"))
        self.assertEqual({"passes": "passed", "fails": "failed", "skips": "skipped", "is cut": "cut", "test is cut": "failed",
                          "leaves out": "failed", "crashes": "failed", "raises": "failed", "is last": "passed"},
                         {name: each["outcome"] for name, each in found.items()})
        self.assertIn("was ended by signal 11: about to crash", found["crashes"]["reason"])
        self.assertIn("KeyError: 'nowhere' (a fault of tests/gpu/work.py)", found["raises"]["reason"])
        self.assertEqual(sitting.REASON_CHARACTERS, len(found["fails"]["reason"]))
        self.assertEqual({"so far": 1}, found["fails"]["figures"])
        self.assertEqual("not run: fp16", found["leaves out"]["reason"])
        for each in found.values():
            self.assertEqual(("c", "g", 1), (each["commit"], each["gpu"], each["driver"]))

    def test_a_stage_that_hangs_is_ended_with_all_it_started(self):
        slack, sitting.SLACK_SECONDS = sitting.SLACK_SECONDS, 0.5
        self.addCleanup(setattr, sitting, "SLACK_SECONDS", slack)
        found = self.run_stages(stage("hangs", "hangs", limit=1.5), stage("passes", "passes", lane=ALONE))
        self.assertEqual(("cut", "passed"), (found["hangs"]["outcome"], found["passes"]["outcome"]))
        self.assertLess(found["hangs"]["seconds"], 10)
        child = int((self.folder / "child").read_text())
        deadline = time.monotonic() + 5
        while pathlib.Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(pathlib.Path(f"/proc/{child}").exists())

    def test_times_of_stages_that_others_ran_beside_are_not_kept(self):
        found = self.run_stages(stage("beside others", "passes"), stage("alone", "passes", lane=ALONE))
        self.assertEqual({"name": "", "deep": [{"bytes": 2}]}, found["beside others"]["figures"])
        self.assertEqual({"name": "", "total_ms": 5, "deep": [{"seconds": 1, "bytes": 2}]}, found["alone"]["figures"])


class Time(Case):
    def test_a_stage_for_which_no_time_is_left_is_not_run(self):
        found = self.run_stages(stage("long", "passes", seconds=50), stage("short", "passes", seconds=1), seconds=10)
        self.assertEqual(("not run", "no time left"), (found["long"]["outcome"], found["long"]["reason"]))
        self.assertEqual("passed", found["short"]["outcome"])

    def test_what_the_end_of_the_sitting_cuts_off_has_not_failed(self):
        found = self.run_stages(stage("is cut", "is_cut", limit=100), stage("leaves out", "leaves_out", limit=100), seconds=10)
        for each in found.values():
            self.assertEqual("not run", each["outcome"])
            self.assertIn("no time left after", each["reason"])

    def test_what_saves_the_measurements_runs_after_the_end(self):
        found = self.run_stages(stage("late", "passes"), seconds=0.01, last=(stage("saves", "passes", lane=ALONE),))
        self.assertEqual(("not run", "passed"), (found["late"]["outcome"], found["saves"]["outcome"]))


class Lanes(Case):
    def test_one_measures_while_others_run_and_nothing_runs_beside_what_is_alone(self):
        takes = 0.6
        rows = [stage(f"free {i}", "passes", f"free {i}", takes) for i in range(3)]
        rows += [stage(f"measures {i}", "passes", f"measures {i}", takes, lane=MEASURES) for i in range(2)]
        rows += [stage("alone", "passes", "alone", takes, lane=ALONE), stage("behind", "passes", "behind", takes),
                 stage("beside", "passes", "beside", 3 * takes, lane=BESIDE)]
        self.run_stages(*rows)
        spans = self.spans()
        overlap = lambda one, other: spans[one]["begin"] < spans[other]["end"] and spans[other]["begin"] < spans[one]["end"]
        self.assertTrue(overlap("free 0", "free 1"))
        self.assertTrue(overlap("free 0", "measures 0"))
        self.assertFalse(overlap("measures 0", "measures 1"))
        for name in spans:
            if name not in ("alone", "beside"):
                self.assertFalse(overlap("alone", name), name)
        self.assertLess(spans["alone"]["end"], spans["behind"]["begin"])

    def test_a_device_that_takes_one_process_gets_one_at_a_time(self):
        self.run_stages(*(stage(f"{i}", "passes", f"{i}", 0.3, lane=(FREE, MEASURES)[i % 2]) for i in range(4)), at_once=None)
        ordered = sorted(self.spans().values(), key=lambda span: span["begin"])
        for one, next_one in zip(ordered, ordered[1:]):
            self.assertLessEqual(one["end"], next_one["begin"])

    def test_a_stage_waits_for_those_it_needs(self):
        self.run_stages(stage("first", "passes", "first", 0.5), stage("second", "passes", "second", needs=["first"]))
        self.assertLessEqual(self.spans()["first"]["end"], self.spans()["second"]["begin"])

    def test_nothing_runs_behind_a_gate_that_fails(self):
        began = time.monotonic()
        found = self.run_stages(stage("beside", "passes", "beside", 30, lane=BESIDE), stage(GATE, "fails", lane=ALONE),
                                stage("free", "passes"), stage("alone", "passes", lane=ALONE))
        self.assertEqual(["failed", "not run", "not run"], [found[name]["outcome"] for name in (GATE, "free", "alone")])
        self.assertEqual("the gate failed", found["free"]["reason"])
        self.assertLess(time.monotonic() - began, 15)


class Resumed(Case):
    def test_what_passed_with_this_commit_card_and_driver_is_kept_and_the_rest_runs(self):
        self.run_stages(stage("a", "passes"), stage("b", "fails"))
        earlier = json.loads((self.output / "x.json").read_text())
        kept = self.run_stages(stage("a", "fails"), stage("b", "passes"), earlier=earlier)
        self.assertEqual(("passed", "passed"), (kept["a"]["outcome"], kept["b"]["outcome"]))
        for key, value in (("commit", "other"), ("gpu", "other"), ("driver", 2)):
            with self.subTest(differs=key):
                environment = {"commit": "c", "gpu": "g", "driver": 1} | {key: value}
                again = self.run_stages(stage("a", "fails"), earlier=earlier, environment=environment)
                self.assertEqual(("failed", "failed"), (again["a"]["outcome"], again["b"]["outcome"]))
        self.assertEqual(["b"], sitting.Results(self.output / "x.json", {}, earlier).failed_before())


class Chosen(unittest.TestCase):
    def chosen(self, *words, earlier=None):
        loader = importlib.machinery.SourceFileLoader("gpu_check", str(machine.ROOT / "tools/gpu-check"))
        command = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
        loader.exec_module(command)
        command.stages, command.machine = stages, machine
        arguments = command.parse([*words, "--output", "/nowhere"])
        return [each.name for each in command.chosen(arguments, "x", sitting.Results(pathlib.Path("/nowhere/x.json"), {}, earlier))[1]]

    def test_the_second_call_repeats_behind_the_gate_what_failed_in_the_first(self):
        outcomes = {"test capture": "failed", "test nccl": "passed", "test memory briefly": "running", "a stage of another day": "failed"}
        earlier = {"stages": [{"name": name, "outcome": outcome} for name, outcome in outcomes.items()]}
        first = self.chosen("--sitting", "B", "--resume")
        repeated = self.chosen("--sitting", "B", "--resume", earlier=earlier)
        self.assertEqual(["page cache", "versions", GATE, "test capture", "test memory briefly"], repeated[:5])
        self.assertEqual(first[3:], repeated[5:])
        self.assertNotIn("test capture", self.chosen("--sitting", "A", earlier=earlier)[:4])

    def test_what_needs_another_stage_is_repeated_with_it(self):
        earlier = {"stages": [{"name": "test differential engines", "outcome": "failed"}]}
        repeated = self.chosen("--sitting", "B", "--resume", earlier=earlier)
        self.assertLess(repeated.index("test differential measured"), repeated.index("test differential engines"))


class Killed(unittest.TestCase):
    def test_files_are_whole_whenever_the_sitting_is_killed(self):
        seed = int(os.environ.get("SITTING_TEST_SEED", random.randrange(1 << 30)))
        draw = random.Random(seed)
        for attempt in range(12):
            with self.subTest(seed=seed, attempt=attempt), tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "work.py").write_text(WORK)
                output = pathlib.Path(folder, "output")
                output.mkdir()
                process = subprocess.Popen([sys.executable, "-B", "-c", KILLED, str(machine.FOLDER), folder],
                                           stdout=subprocess.DEVNULL, start_new_session=True)
                while not (output / "x.json").exists():
                    time.sleep(0.002)
                time.sleep(draw.uniform(0, 1.2))
                process.kill()
                process.wait()
                time.sleep(0.3)  # the stages of the killed program must end, too
                json.loads((output / "x.json").read_text())
                for path in output.glob("*.csv"):
                    with path.open(newline="") as file:
                        rows = list(csv.reader(file))
                    self.assertEqual((20001, 2), (len(rows), len(rows[-1])))
                self.assertLessEqual(len(list(output.iterdir())), 8)


class Tables(unittest.TestCase):
    def test_each_stage_says_what_a_gpu_alone_can_show_of_it(self):
        for each in stages.EVERY.values():
            with self.subTest(stage=each.name):
                self.assertGreater(len(each.guards.split()), 1)
                self.assertLessEqual(each.seconds, each.limit)

    def test_the_first_call_fits_its_time(self):
        plan = stages.SITTINGS["A"]
        in_turn = sum(each.seconds for each in plan.stages if each.lane in (MEASURES, ALONE))
        self.assertLessEqual(in_turn, 130)
        self.assertEqual(150, plan.seconds)

    def test_the_second_has_time_for_headlines_and_facts(self):
        plan = stages.SITTINGS["B"]
        own = [each for each in plan.stages if each.name.startswith(("headline", "facts")) or each.name == GATE]
        self.assertLessEqual(sum(each.seconds for each in own), 0.85 * plan.seconds)
        self.assertEqual(450, plan.seconds)

    def test_names_are_stages_and_stages_are_in_the_order_of_what_they_need(self):
        for name, plan in stages.SITTINGS.items():
            names = [each.name for each in plan.stages]
            self.assertEqual(len(names), len(set(names)), name)
            for each in plan.stages:
                for needed in each.needs:
                    self.assertTrue(needed not in names or names.index(needed) < names.index(each.name), (name, each.name, needed))

    def test_every_stage_of_the_tests_has_a_file_and_every_function_is_there(self):
        import importlib
        for each in stages.EVERY.values():
            module, function = each.work[0].split(".")
            self.assertTrue(callable(getattr(importlib.import_module(module), function)), each.work)
            if each.is_test:
                self.assertTrue((machine.FOLDER / f"{each.work[1]}_test.py").exists(), each.work)

    def test_a_test_of_a_framework_has_time_for_measuring(self):
        import frameworks
        budget = float(frameworks.TUNE["UCUDNN_TUNE_SECONDS"].split(":")[1])
        measuring = {"test torch training Deterministic": 2, "test torch samples": 2}
        for each in stages.LONG_TESTS:
            if each.work[1].startswith("torch") or each.work[1] == "convolutions":
                self.assertGreaterEqual(each.limit, 2 * measuring.get(each.name, 1) * budget, each.name)


class Summaries(unittest.TestCase):
    def test_it_has_at_most_sixty_lines_and_says_what_failed_first(self):
        every = [{"name": f"test {i}", "outcome": ("passed", "failed", "skipped", "not run")[i % 4], "reason": f"why {i}\nmore",
                  "figures": {"sentences": [f"sentence {i}"], "findings": ["f"]}} for i in range(200)]
        document = {"host": False, "environment": {"gpu": "NVIDIA X1", "driver": 13000}, "stages": every}
        told = summary.lines(document)
        self.assertLessEqual(len(told), summary.LINES)
        self.assertIn("NVIDIA X1", told[0])
        self.assertEqual("FAILED test 1: why 1", told[3])
        self.assertTrue(all(len(line) <= summary.WIDTH for line in told))

    def test_a_rehearsal_is_said_to_be_none(self):
        told = summary.lines({"host": True, "environment": {}, "stages": []})
        self.assertIn("CPU times", told[0])
        self.assertIn("no results", told[0])


class Versions(unittest.TestCase):
    def test_what_is_not_here_is_named(self):
        versions.PROBES["nothing"] = ("Nothing", "import a_module_that_is_nowhere", "")
        self.addCleanup(versions.PROBES.pop, "nothing")
        told = versions.ask("nothing")
        self.assertIsNone(told["version"])
        self.assertIn("no Nothing", told["missing"])

    def test_a_stage_takes_what_the_sitting_asked(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"torch": {"version": "9.9", "missing": None}}, file)
            file.flush()
            words = [sys.executable, "-B", "-c", "import versions; print(versions.answer('torch'))"]
            environment = dict(os.environ, UCUDNN_TEST_VERSIONS=file.name, PYTHONPATH=str(machine.FOLDER))
            self.assertIn("'9.9'", subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    unittest.main()
