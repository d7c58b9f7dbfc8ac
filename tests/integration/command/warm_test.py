"""Tests an ordinary cuDNN program under `ucudnn run`. What `ucudnn bench` or an earlier run measured is not measured again.
A tight workspace limit changes how the program's kernels run, but not their results. ucudnn does not trust stored rows that
state too little workspace."""

import unittest

from alexnet_step import AlexnetTest


class Warm(AlexnetTest):
    def rewrite(self, store, other, change):
        """Copies the rows of `store` to the store `other`, with the values in change(row) replaced. Returns the
        original rows."""
        rows = self.exported(store)
        self.run_measured("cache", "import", self.write_rows("rows.csv", [row | change(row) for row in rows]), "--db", other)
        return rows

    def run_after_bench(self, batch, *options):
        """Runs `ucudnn bench` for AlexNet, then AlexNet with the same options. Expects that the second run measures
        nothing."""
        options = [*options, "--db", self.store]
        self.ended(0, "bench", "--host", "--net", "alexnet", "--batch", batch, *options, process={"timeout": 1500})
        self.step(batch, "1", options=[*options, "--report", "report.json"])
        report = self.load("report.json")
        self.assertEqual(0, report["measured"])
        self.assertEqual(15, len(report["kernels"]))

    def test_run_after_bench_measures_nothing(self):
        self.run_after_bench("1", "--policy", "undivided")

    def test_run_after_bench_of_all_engines_measures_nothing(self):
        self.run_after_bench("2", "--policy", "powerOfTwo", "--workspace-limit", "2MiB", "--engines", "both")
        graph = [row for row in self.rows_in_store() if row["engine"].startswith("graph:")]
        self.assertEqual({"forward", "backward_data", "backward_filter"}, {row["op"] for row in graph})

    def outputs(self, *options, arguments=("4", "1", "64"), **variables):
        """Runs one step of AlexNet. Returns (lines with checksums of outputs, stderr)."""
        lines, errors = self.step(*arguments, options=options, **variables)
        return [line for line in lines if line.startswith("conv")], errors

    def reported(self, *options, **more):
        outputs, errors = self.outputs(*options, "--report", "report.json", **more)
        return outputs, self.load("report.json"), errors

    def test_rows_that_say_too_little_workspace_are_not_believed(self):
        """A wrong file may state too little workspace. Here, rows state half of each engine's need."""
        undivided, _ = self.outputs("--off")
        options = ["--policy", "powerOfTwo", "--workspace-limit", "2MiB"]
        self.reported(*options, "--db", self.store)
        rows = self.rewrite(self.store, "low.db", lambda row: {"workspace_bytes": int(row["workspace_bytes"]) // 2})
        outputs, report, _ = self.reported(*options, "--engines", "legacy", "--db", "low.db")
        self.assertEqual((undivided, [], 0), (outputs, report["fallbacks"], report["measured"]))
        needs = {(row["op"], row["c"], row["engine"], row["micro_batch"]): int(row["workspace_bytes"]) for row in rows}
        used = [(kernel["op"], str(kernel["problem"]["c"]), part["engine"], str(part["micro_batch"]), part["workspace_bytes"])
                for kernel in report["kernels"] for part in kernel["plan"]]
        self.assertGreater(sum(bytes > 0 for *_, bytes in used), 0)
        for *engine, bytes in used:
            self.assertEqual(needs[tuple(engine)], bytes, engine)
        # Graph engines are compared before they run. The comparison shows that they need more workspace than the rows state.
        self.assertEqual(undivided, self.reported(*options, "--db", "low.db")[0])

    def test_devices_that_help_to_measure_change_nothing_else(self):
        seen = {}
        for devices in ("current", "0,1,9"):
            outputs, report, errors = self.reported(
                "--policy", "powerOfTwo", "--engines", "legacy", "--devices", "2", "--db", f"{devices}.db",
                arguments=("2", "1"), UCUDNN_BENCHMARK_DEVICES=devices)
            self.assertEqual([], report["fallbacks"])
            seen[devices] = (outputs, report["measured"], "device 9 is left out" in errors)
        self.assertEqual(5, len(seen["current"][0]))
        self.assertEqual((*seen["current"][:2], True), seen["0,1,9"])

    def test_tight_limit_keeps_the_outputs_and_is_kept(self):
        undivided, _ = self.outputs("--off")
        self.assertEqual(5, len(undivided))
        reports = []
        for store in (self.store, self.store, "quick.db"):
            if store == "quick.db":  # in this store pieces are 1000 times as fast, so dividing pays on every machine
                self.rewrite(self.store, store,
                             lambda row: {"time_ms": float(row["time_ms"]) / 1000} if int(row["micro_batch"]) < 4 else {})
            outputs, report, _ = self.reported("--workspace-limit", "2MiB", "--db", store)
            self.assertEqual(undivided, outputs, store)
            reports.append(report)
        first, second, quick = reports
        self.assertGreater(first["measured"], 0)
        self.assertEqual(0, second["measured"])
        for report in reports:
            self.assertEqual([], report["fallbacks"])
            self.assertEqual(15, len(report["kernels"]))
            for kernel in report["kernels"]:
                self.assertLessEqual(kernel["workspace_bytes"] + kernel["owned_workspace_bytes"], 2 << 20, kernel)
        pieces = [sum(part["count"] for part in kernel["plan"]) for kernel in quick["kernels"]]
        self.assertGreaterEqual(max(pieces), 2)


if __name__ == "__main__":
    unittest.main()
