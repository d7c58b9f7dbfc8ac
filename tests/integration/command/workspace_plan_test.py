"""`ucudnn run --workspace-plan`: what `ucudnn workspace` planned runs, and nothing is measured. A file that is not for this run
is reported once and changes nothing."""

import csv
import json
import os
import subprocess
import unittest

from command import COMMAND, FolderTest

ALEXNET_STEP = os.environ["UCUDNN_TEST_ALEXNET_STEP"]
SWITCHING_STREAMS = os.environ["UCUDNN_TEST_SWITCHING_STREAMS"]
MIB = 1 << 20
# Everything is measured and compared at once, however slow the machine is.
ENVIRONMENT = os.environ | {"UCUDNN_TUNE": "first", "UCUDNN_TUNE_SECONDS": "600:6000"}


def key(kernel):
    return kernel["op"], kernel["problem"]["c"]


def parts(kernel):
    return [(part["engine"], part["micro_batch"], part["count"]) for part in kernel["plan"]]


class Pinned(FolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.store = f"{cls.folder}/measurements.db"
        cls.plain, _ = cls.steps("64", "--off")
        cls.plain_pairs, _ = cls.steps("64", "--off", batch=2)
        cls.steps("64", "--workspace-limit", "2MiB", "--policy", "powerOfTwo", "--db", cls.store, "--report",
                  f"{cls.folder}/trace.json")

    @classmethod
    def steps(cls, workspace_mib, *options, batch=4, **variables):
        """Returns what two steps print, and the errors."""
        result = subprocess.run([COMMAND, "run", "--host", *options, "--", ALEXNET_STEP, str(batch), "2", workspace_mib,
                                 "find"], check=True, capture_output=True, text=True, env=ENVIRONMENT | variables)
        return result.stdout.splitlines(), result.stderr

    def plan(self, *options):
        path = f"{self.folder}/plan.json"
        subprocess.run([COMMAND, "workspace", "--trace", f"{self.folder}/trace.json", "--db", self.store, "-o", path,
                        *options], check=True, capture_output=True)
        return path, self.load(path)

    def run_with_plan(self, path, workspace_mib, *options, batch=4, **variables):
        report = f"{self.folder}/report.json"
        # The command reads the option's file before the program starts; the program reads the variable's.
        named = () if "UCUDNN_WORKSPACE_PLAN" in variables else ("--workspace-plan", path)
        lines, errors = self.steps(workspace_mib, *named, "--db", "none", "--report", report, *options, batch=batch,
                                   **variables)
        self.assertEqual((self.plain if batch == 4 else self.plain_pairs)[:5], lines[:5])
        return self.load(report), errors

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
        """Expects that each kernel is reported as missing, one of them in a message, and that none counts as the file's."""
        self.assertEqual(1, len(errors.splitlines()), errors)
        self.assertIn(f": the workspace plan does not have it{instead}\n", errors)
        self.assertEqual({f"the workspace plan does not have it{instead}"}, {entry["cause"] for entry in report["fallbacks"]})
        self.assertEqual(15, len({entry["kernel"] for entry in report["fallbacks"]}), report["fallbacks"])
        total = report.get("total_workspace")
        if total is not None:
            self.assertEqual((False, 0, None), (total["divided"], total["kernels"], total["optimal"]))
            # Kernels use one segment one after the other, so it becomes as large as the largest needs.
            held = max(kernel["owned_workspace_bytes"] for kernel in report["kernels"])
            self.assertLessEqual(held, total["total_workspace_bytes"])
            self.assertLessEqual(total["total_workspace_bytes"], total["total_bytes"])

    def test_kernels_that_the_file_does_not_have_are_said_and_planned_as_without(self):
        for options in (("--workspace-limit", "2MiB"), ("--total-workspace", "8MiB")):
            path, file = self.plan(*options)
            other = f"{self.folder}/other.json"
            for kernel in file["kernels"]:
                kernel["problem"]["h"] += 1
            self.write(other, file)
            with self.subTest(options=options, other="batch"):
                report, errors = self.run_with_plan(path, "64", "--policy", "powerOfTwo", batch=2)
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
        layers = [[f"layer{at}", *(problem[column] for column in columns)] for at, problem in enumerate(problems)]
        twins = [["twin", *layer[1:]] for layer in layers[1:3]]
        with open(f"{self.folder}/layers.csv", "w") as file:
            csv.writer(file).writerows([["name", *columns], *layers, *twins])
        path = f"{self.folder}/twins.json"
        for division in ("disjoint", "shared"):
            with self.subTest(division=division):
                result = subprocess.run([COMMAND, "workspace", "--layers", f"{self.folder}/layers.csv", "--db", self.store, "-o", path,
                                         "--total-workspace", "4MiB", "--division", division, "--json"],
                                        check=True, capture_output=True, text=True)
                planned = json.loads(result.stdout)
                report, errors = self.run_with_plan(path, "0")
                self.check_followed(report, self.load(path))
                self.assertEqual("", errors)
                self.assertEqual(15 + 6, len(planned["kernels"]))
                self.assertEqual(planned["total_workspace_bytes"], report["total_workspace"]["total_workspace_bytes"])

    def test_pieces_of_unlike_determinism_are_followed(self):
        """For gradients, algorithm 0 is not deterministic and 1 is."""
        _, file = self.plan("--total-workspace", "8MiB", "--division", "shared")
        shown = subprocess.run([COMMAND, "cache", "show", "--json", "--db", self.store], check=True, capture_output=True, text=True)
        needs = {(row["op"], row["c"]): row["workspace_bytes"] for row in json.loads(shown.stdout)["measurements"]
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
        net = ("--net", "alexnet", "--batch", "4", "--db", f"{self.folder}/net.db")
        subprocess.run([COMMAND, "bench", "--host", *net, "--policy", "all"], check=True, capture_output=True, env=ENVIRONMENT)
        path = f"{self.folder}/net.json"
        subprocess.run([COMMAND, "workspace", *net, "--total-workspace", "8MiB", "-o", path], check=True, capture_output=True)
        report, errors = self.run_with_plan(path, "0")
        self.assertEqual("", errors)
        self.check_followed(report, self.load(path))
        self.assertTrue(report["total_workspace"]["divided"])

    def test_each_stream_has_a_copy_of_what_its_kernels_share(self):
        def run(*options):
            report = f"{self.folder}/streams.json"
            reporting = () if "--off" in options else ("--report", report)
            result = subprocess.run([COMMAND, "run", "--host", *reporting, *options, "--", SWITCHING_STREAMS], check=True,
                                    capture_output=True, text=True, env=ENVIRONMENT)
            self.assertEqual("", result.stderr)
            return result.stdout, None if "--off" in options else self.load(report)

        plain, _ = run("--off")
        store, path = f"{self.folder}/streams.db", f"{self.folder}/streams-plan.json"
        output, traced = run("--total-workspace", "4MiB", "--policy", "powerOfTwo", "--db", store)
        self.assertEqual(plain, output)
        self.assertEqual([[0, 1]] * 6, [kernel["lanes"] for kernel in traced["kernels"]])
        os.rename(f"{self.folder}/streams.json", f"{self.folder}/streams-trace.json")
        for division in ("concurrent", "disjoint"):
            for budget in (64 << 10, 300 << 10, 4 << 20):
                with self.subTest(division=division, budget=budget):
                    subprocess.run([COMMAND, "workspace", "--trace", f"{self.folder}/streams-trace.json", "--db", store, "-o", path,
                                    "--total-workspace", str(budget), "--division", division], check=True, capture_output=True)
                    planned = self.load(path)
                    segments = {}
                    for kernel in planned["kernels"]:
                        self.assertEqual(2, kernel["lanes"])
                        need = max(part["workspace_bytes"] for part in kernel["plan"])
                        segments[kernel["segment"]] = max(need, segments.get(kernel["segment"], 0))
                    output, report = run("--workspace-plan", path, "--db", "none")
                    self.assertEqual(plain, output)
                    self.check_followed(report, planned)
                    # Each call of each stream found room.
                    self.assertEqual({0}, {kernel["undivided_calls"] for kernel in report["kernels"]})
                    total = report["total_workspace"]
                    self.assertEqual(2 * sum(segments.values()), total["total_workspace_bytes"] - total["capture_bytes"])
                    self.assertLessEqual(total["total_workspace_bytes"], budget)
                    if budget == 4 << 20:  # what needs least may need more than the others have
                        self.assertGreater(total["total_workspace_bytes"], 0)

    def test_a_file_that_is_not_for_this_run_is_said_once(self):
        path, file = self.plan("--total-workspace", "8MiB")
        wrong = f"{self.folder}/wrong.json"
        other = json.dumps(file | {"cudnn": 90000})
        for text, options, why in (
                (other, (), "is for 'Host stand-in (CPU times)' with cuDNN 90000"),
                (json.dumps(file)[:-20], (), "no JSON at byte"),
                (json.dumps(file), ("--total-workspace", "1KiB"), "more than the total workspace")):
            with self.subTest(why=why):
                self.write(wrong, text)
                _, errors = self.run_with_plan(wrong, "64", "--policy", "undivided", *options, UCUDNN_WORKSPACE_PLAN=wrong)
                told = [line for line in errors.splitlines() if "workspace plan" in line]
                self.assertEqual(1, len(told), errors)
                self.assertIn("the workspace plan is ignored: ", told[0])
                self.assertIn(why, told[0])
        absent = f"{self.folder}/absent.json"
        _, errors = self.run_with_plan(absent, "64", "--policy", "undivided", UCUDNN_WORKSPACE_PLAN=absent)
        self.assertIn("absent.json: ", errors)


if __name__ == "__main__":
    unittest.main()
