"""An ordinary cuDNN program under `ucudnn run`: what `ucudnn bench` or an earlier run measured is not measured again, and a
tight workspace limit changes how its kernels run but not what they compute."""

import csv
import json
import os
import subprocess
import tempfile
import unittest

from command import COMMAND, FolderTest

ALEXNET_STEP = os.environ["UCUDNN_TEST_ALEXNET_STEP"]
# Everything is measured at once, however slow the machine is.
ENVIRONMENT = os.environ | {"UCUDNN_TUNE": "first", "UCUDNN_TUNE_SECONDS": "600:6000"}


def rewrite(store, other, change):
    """Puts the rows of one store into another with what `change` says of each. Returns the original rows."""
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/rows.csv"
        subprocess.run([COMMAND, "cache", "export", table, "--db", store], check=True, capture_output=True)
        with open(table) as file:
            rows = list(csv.DictReader(file))
        with open(table, "w") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(row | change(row) for row in rows)
        subprocess.run([COMMAND, "cache", "import", table, "--db", other], check=True, capture_output=True)
    return rows


class Warm(FolderTest):
    def test_run_after_bench_measures_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            options = ["--host", "--policy", "undivided", "--db", f"{folder}/measurements.db"]
            subprocess.run([COMMAND, "bench", "--net", "alexnet", "--batch", "1", *options], check=True,
                           stdout=subprocess.DEVNULL)
            subprocess.run([COMMAND, "run", *options, "--report", f"{folder}/report.json", "--", ALEXNET_STEP, "1", "1"],
                           check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
            report = self.load(f"{folder}/report.json")
        self.assertEqual(0, report["measured"])
        self.assertEqual(15, len(report["kernels"]))

    def test_run_after_bench_of_all_engines_measures_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            options = ["--host", "--policy", "powerOfTwo", "--workspace-limit", "2MiB", "--engines", "both",
                       "--db", f"{folder}/measurements.db"]
            subprocess.run([COMMAND, "bench", "--net", "alexnet", "--batch", "2", *options], check=True,
                           stdout=subprocess.DEVNULL)
            shown = subprocess.run([COMMAND, "cache", "show", "--json", "--db", f"{folder}/measurements.db"],
                                   check=True, capture_output=True, text=True)
            graph = [row for row in json.loads(shown.stdout)["measurements"] if row["engine"].startswith("graph:")]
            subprocess.run([COMMAND, "run", *options, "--report", f"{folder}/report.json", "--", ALEXNET_STEP, "2", "1"],
                           check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
            report = self.load(f"{folder}/report.json")
        self.assertEqual({"forward", "backward_data", "backward_filter"}, {row["op"] for row in graph})
        self.assertEqual(0, report["measured"])
        self.assertEqual(15, len(report["kernels"]))

    def step(self, *options):
        """Returns what one step of batch 4 prints of its outputs, each a checksum of whole numbers."""
        result = subprocess.run([COMMAND, "run", "--host", *options, "--", ALEXNET_STEP, "4", "1", "64"], check=True,
                                capture_output=True, text=True, env=ENVIRONMENT)
        return [line for line in result.stdout.splitlines() if line.startswith("conv")]

    def test_rows_that_say_too_little_workspace_are_not_believed(self):
        """Rows of a run with other settings, or of a wrong file, may say so: half of what each engine needs."""
        undivided = self.step("--off")
        with tempfile.TemporaryDirectory() as folder:
            store = f"{folder}/measurements.db"
            options = ["--policy", "powerOfTwo", "--workspace-limit", "2MiB", "--report", f"{folder}/report.json"]
            self.step(*options, "--db", store)
            low = f"{folder}/low.db"
            rows = rewrite(store, low, lambda row: {"workspace_bytes": int(row["workspace_bytes"]) // 2})
            self.assertEqual(undivided, self.step(*options, "--engines", "legacy", "--db", low))
            report = self.load(f"{folder}/report.json")
            self.assertEqual([], report["fallbacks"])
            self.assertEqual(0, report["measured"])
            needs = {(row["op"], row["c"], row["engine"], row["micro_batch"]): int(row["workspace_bytes"]) for row in rows}
            used = [(kernel["op"], str(kernel["problem"]["c"]), part["engine"], str(part["micro_batch"]), part["workspace_bytes"])
                    for kernel in report["kernels"] for part in kernel["plan"]]
            self.assertGreater(sum(bytes > 0 for *_, bytes in used), 0)
            for *engine, bytes in used:
                self.assertEqual(needs[tuple(engine)], bytes, engine)
            # Graph engines of such rows are compared first, and found to need more.
            self.assertEqual(undivided, self.step(*options, "--db", low))

    def test_devices_that_help_to_measure_change_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            seen = {}
            for devices in ("current", "0,1,9"):
                options = ["--policy", "powerOfTwo", "--engines", "legacy", "--devices", "2",
                           "--db", f"{folder}/{devices}.db", "--report", f"{folder}/report.json"]
                result = subprocess.run([COMMAND, "run", "--host", *options, "--", ALEXNET_STEP, "2", "1"], check=True,
                                        capture_output=True, text=True, env=ENVIRONMENT | {"UCUDNN_BENCHMARK_DEVICES": devices})
                report = self.load(f"{folder}/report.json")
                self.assertEqual([], report["fallbacks"])
                outputs = [line for line in result.stdout.splitlines() if line.startswith("conv")]
                seen[devices] = (outputs, report["measured"], "device 9 is left out" in result.stderr)
        self.assertEqual(5, len(seen["current"][0]))
        self.assertEqual((*seen["current"][:2], True), seen["0,1,9"])

    def test_tight_limit_keeps_the_outputs_and_is_kept(self):
        limit = 2 << 20
        undivided = self.step("--off")
        self.assertEqual(5, len(undivided))
        with tempfile.TemporaryDirectory() as folder:
            options = ["--workspace-limit", "2MiB", "--db", f"{folder}/measurements.db"]
            reports = []
            for run in ("first", "second"):
                self.assertEqual(undivided, self.step(*options, "--report", f"{folder}/{run}.json"), run)
                reports.append(self.load(f"{folder}/{run}.json"))
            # Makes pieces faster, so that they pay whatever this machine measured.
            rewrite(f"{folder}/measurements.db", f"{folder}/quick.db",
                    lambda row: {"time_ms": float(row["time_ms"]) / 1000} if int(row["micro_batch"]) < 4 else {})
            self.assertEqual(undivided, self.step("--workspace-limit", "2MiB", "--db", f"{folder}/quick.db",
                                                  "--report", f"{folder}/quick.json"))
            reports.append(self.load(f"{folder}/quick.json"))
        first, second, quick = reports
        self.assertGreater(first["measured"], 0)
        self.assertEqual(0, second["measured"])
        for report in reports:
            self.assertEqual([], report["fallbacks"])
            self.assertEqual(15, len(report["kernels"]))
            for kernel in report["kernels"]:
                self.assertLessEqual(kernel["workspace_bytes"] + kernel["owned_workspace_bytes"], limit, kernel)
        pieces = [sum(part["count"] for part in kernel["plan"]) for kernel in quick["kernels"]]
        self.assertGreaterEqual(max(pieces), 2)


if __name__ == "__main__":
    unittest.main()
