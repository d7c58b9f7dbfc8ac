"""Tests `ucudnn run --workspace-plan`: a program runs as `ucudnn workspace` planned it, and nothing is measured. A file that
does not fit the run is reported once and changes nothing."""

import json
import os
import unittest

from alexnet_step import AlexnetTest
from command import MIB

SWITCHING_STREAMS = os.environ["UCUDNN_TEST_SWITCHING_STREAMS"]


def key(kernel):
    return kernel["op"], kernel["problem"]["c"]


def parts(kernel):
    return [(part["engine"], part["micro_batch"], part["count"]) for part in kernel["plan"]]


class Pinned(AlexnetTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain = {batch: cls().step(batch, "2", "64", "find", options=["--off"])[0][:5] for batch in ("2", "4")}
        cls().step("4", "2", "64", "find", options=["--workspace-limit", "2MiB", "--policy", "powerOfTwo",
                                                    "--db", "measurements.db", "--report", "trace.json"])

    def plan(self, *options, trace="trace.json", db="measurements.db"):
        self.run_measured("workspace", "--trace", trace, "--db", db, "-o", "plan.json", *options)
        return f"{self.folder}/plan.json", self.load("plan.json")

    def run_with_plan(self, path, workspace_mib, *options, batch="4", **variables):
        # A test that sets UCUDNN_WORKSPACE_PLAN tests how the program reads the file. If the option were given, the command
        # would read the file first.
        named = () if "UCUDNN_WORKSPACE_PLAN" in variables else ("--workspace-plan", path)
        lines, errors = self.step(batch, "2", workspace_mib, "find", options=[
            *named, "--db", "none", "--report", "report.json", *options], **variables)
        self.assertEqual(self.plain[batch], lines[:5])
        return self.load("report.json"), errors

    def check_followed(self, report, file):
        self.assertEqual(0, report["measured"])
        self.assertEqual([], report["fallbacks"])
        called = {key(kernel): parts(kernel) for kernel in report["kernels"] if kernel["calls"] > 0}
        self.assertEqual({key(kernel): parts(kernel) for kernel in file["kernels"]}, called)

    def test_each_kernel_runs_its_own_plan(self):
        path, file = self.plan("--workspace-limit", "2MiB")
        report, errors = self.run_with_plan(path, "64")
        self.assertEqual("", errors)
        self.check_followed(report, file)
        self.assertEqual({0}, {kernel["owned_workspace_bytes"] for kernel in report["kernels"]})

    def test_one_budget_is_divided_as_the_file_says(self):
        for division in ("disjoint", "shared"):
            with self.subTest(division=division):
                path, file = self.plan("--total-workspace", "8MiB", "--division", division)
                report, errors = self.run_with_plan(path, "0")
                self.assertEqual("", errors)
                self.check_followed(report, file)
                total = report["total_workspace"]
                self.assertEqual((8 * MIB, division, True), (total["total_bytes"], total["division"], total["divided"]))
                need = {key(kernel): max(part["workspace_bytes"] for part in kernel["plan"])
                        for kernel in file["kernels"]}
                self.assertEqual(need, {key(kernel): kernel["owned_workspace_bytes"] for kernel in report["kernels"]
                                        if kernel["calls"] > 0})
                reserved = sum(need.values()) if division == "disjoint" else max(need.values())
                self.assertEqual(reserved, total["total_workspace_bytes"])

    def check_missed(self, report, errors, instead):
        """Expects that the report names each of the 15 kernels as missing in the plan, that stderr names one of them,
        and that a budget, if there is one, is not divided."""
        self.assertEqual(1, len(errors.splitlines()), errors)
        self.assertIn(f": the workspace plan does not have it{instead}\n", errors)
        self.assertEqual({f"the workspace plan does not have it{instead}"}, {entry["cause"] for entry in report["fallbacks"]})
        self.assertEqual(15, len({entry["kernel"] for entry in report["fallbacks"]}), report["fallbacks"])
        total = report.get("total_workspace")
        if total is not None:
            self.assertEqual((False, 0, None), (total["divided"], total["kernels"], total["optimal"]))
            # All kernels use one segment in turn, so the segment is at least as large as the largest need.
            held = max(kernel["owned_workspace_bytes"] for kernel in report["kernels"])
            self.assertLessEqual(held, total["total_workspace_bytes"])
            self.assertLessEqual(total["total_workspace_bytes"], total["total_bytes"])

    def test_kernels_that_the_file_does_not_have_are_said_and_planned_as_without(self):
        for options in (("--workspace-limit", "2MiB"), ("--total-workspace", "8MiB")):
            path, file = self.plan(*options)
            for kernel in file["kernels"]:
                kernel["problem"]["h"] += 1
            other = self.write("other.json", file)
            with self.subTest(options=options, other="batch"):
                report, errors = self.run_with_plan(path, "64", "--policy", "powerOfTwo", batch="2")
                self.check_missed(report, errors, ": it has it for 4 images, not for 2")
                self.assertGreater(report["measured"], 0)
                for kernel in report["kernels"]:
                    self.assertNotIn("not measured", kernel["reason"])
            with self.subTest(options=options, other="network"):
                report, errors = self.run_with_plan(other, "64", UCUDNN_TUNE="off")
                self.check_missed(report, errors, "")
                self.assertEqual(0, report["measured"])
                for kernel in report["kernels"]:
                    self.assertNotIn("not measured yet", kernel["reason"])

    def test_layers_of_one_shape_reserve_what_was_planned_for_them(self):
        problems = [kernel["problem"] for kernel in self.load("trace.json")["kernels"] if kernel["op"] == "forward"]
        columns = [column for column in problems[0] if column != "align"]
        layers = [{"name": f"layer{at}"} | {column: problem[column] for column in columns}
                  for at, problem in enumerate(problems)]
        self.write_rows("layers.csv", [*layers, *(layer | {"name": "twin"} for layer in layers[1:3])])
        path = f"{self.folder}/twins.json"
        for division in ("disjoint", "shared"):
            with self.subTest(division=division):
                planned = json.loads(self.run_measured(
                    "workspace", "--layers", "layers.csv", "--db", "measurements.db", "-o", path, "--total-workspace", "4MiB",
                    "--division", division, "--json").stdout)
                report, errors = self.run_with_plan(path, "0")
                self.check_followed(report, self.load(path))
                self.assertEqual("", errors)
                self.assertEqual(15 + 6, len(planned["kernels"]))
                self.assertEqual(planned["total_workspace_bytes"], report["total_workspace"]["total_workspace_bytes"])

    def test_pieces_of_unlike_determinism_are_followed(self):
        """For gradients, algorithm 0 is not deterministic and algorithm 1 is. The plan mixes pieces of both."""
        _, file = self.plan("--total-workspace", "8MiB", "--division", "shared")
        needs = {(row["op"], row["c"]): row["workspace_bytes"] for row in self.rows_in_store("measurements.db")
                 if (row["engine"], row["micro_batch"]) == ("legacy:1", 2)}
        segment_bytes = max(part["workspace_bytes"] for kernel in file["kernels"] for part in kernel["plan"])
        mixed = 0
        for kernel in file["kernels"]:
            need = needs.get(key(kernel), 0)
            if kernel["op"] == "forward" or not 0 < need <= segment_bytes:
                continue
            mixed += 1
            kernel["segment"] = 0
            kernel["plan"] = [
                {"engine": "legacy:1", "workspace_bytes": need, "piece_ms": 1, "micro_batch": 2, "count": 1},
                {"engine": "legacy:0", "workspace_bytes": 0, "piece_ms": 1, "micro_batch": 1, "count": 2}]
        self.assertGreater(mixed, 0)
        report, errors = self.run_with_plan(self.write("mixed.json", file), "0")
        self.assertEqual("", errors)
        self.check_followed(report, file)

    def test_the_three_commands_of_the_readme(self):
        net = ("--net", "alexnet", "--batch", "4", "--db", self.store)
        self.run_measured("bench", "--host", *net, "--policy", "all")
        path = f"{self.folder}/net.json"
        self.run_measured("workspace", *net, "--total-workspace", "8MiB", "-o", path)
        report, errors = self.run_with_plan(path, "0")
        self.assertEqual("", errors)
        self.check_followed(report, self.load(path))
        self.assertTrue(report["total_workspace"]["divided"])

    def test_each_stream_has_a_copy_of_what_its_kernels_share(self):
        def run(*options):
            result = self.run_measured("run", "--host", *options, "--", SWITCHING_STREAMS)
            self.assertEqual("", result.stderr)
            return result.stdout

        plain = run("--off")
        self.assertEqual(plain, run("--total-workspace", "4MiB", "--policy", "powerOfTwo", "--db", self.store,
                                    "--report", "streams.json"))
        self.assertEqual([[0, 1]] * 6, [kernel["lanes"] for kernel in self.load("streams.json")["kernels"]])
        for division in ("concurrent", "disjoint"):
            for budget in (64 << 10, 300 << 10, 4 << 20):
                with self.subTest(division=division, budget=budget):
                    path, planned = self.plan("--total-workspace", str(budget), "--division", division, trace="streams.json",
                                              db=self.store)
                    segments = {}
                    for kernel in planned["kernels"]:
                        self.assertEqual(2, kernel["lanes"])
                        need = max(part["workspace_bytes"] for part in kernel["plan"])
                        segments[kernel["segment"]] = max(need, segments.get(kernel["segment"], 0))
                    self.assertEqual(plain, run("--workspace-plan", path, "--db", "none", "--report", "report.json"))
                    report = self.load("report.json")
                    self.check_followed(report, planned)
                    # No call of either stream ran undivided for lack of memory.
                    self.assertEqual({0}, {kernel["undivided_calls"] for kernel in report["kernels"]})
                    total = report["total_workspace"]
                    self.assertEqual(2 * sum(segments.values()), total["total_workspace_bytes"] - total["capture_bytes"])
                    self.assertLessEqual(total["total_workspace_bytes"], budget)
                    if budget == 4 << 20:  # smaller budgets may be too small for any kernel
                        self.assertGreater(total["total_workspace_bytes"], 0)

    def test_a_file_that_is_not_for_this_run_is_said_once(self):
        path, file = self.plan("--total-workspace", "8MiB")
        other = json.dumps(file | {"cudnn": 90000})
        for text, options, why in (
                (other, (), "is for 'Host stand-in (CPU times)' with cuDNN 90000"),
                (json.dumps(file)[:-20], (), "no JSON at byte"),
                (json.dumps(file), ("--total-workspace", "1KiB"), "more than the total workspace")):
            with self.subTest(why=why):
                wrong = self.write("wrong.json", text)
                _, errors = self.run_with_plan(wrong, "64", "--policy", "undivided", *options, UCUDNN_WORKSPACE_PLAN=wrong)
                told = [line for line in errors.splitlines() if "workspace plan" in line]
                self.assertEqual(1, len(told), errors)
                self.assert_has(told[0], "the workspace plan is ignored: ", why)
        absent = f"{self.folder}/absent.json"
        _, errors = self.run_with_plan(absent, "64", "--policy", "undivided", UCUDNN_WORKSPACE_PLAN=absent)
        self.assertIn("absent.json: ", errors)


if __name__ == "__main__":
    unittest.main()
