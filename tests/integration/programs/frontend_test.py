"""Tests a program written with cudnn-frontend under `ucudnn run`. forward, backward_data and backward_filter, fused and
not fused, run in pieces and give the results of the undivided run. Times come from a store that the test makes, so
nothing is measured. Also tests plan files, single images and one budget."""

import os
import pathlib
import re
import tempfile
import unittest

import program

FRONTEND_STEP = os.environ["UCUDNN_TEST_FRONTEND_STEP"]
BATCH, SIZES = 8, (3, 3, 2)  # such small pieces leave workspace for summing partial gradients
RESULTS = 8  # lines that frontend_step prints for one step


def steps(number, kind, axes, *options, batch=BATCH, **variables):
    """Returns a dictionary for each step: {name of result: (checksum, workspace of its plan)}. The program fails unless
    every result equals the plain loops' result."""
    lines = [line.split() for line in program.printed([FRONTEND_STEP, kind, axes, batch, number], options, **variables)]
    assert len(lines) == RESULTS * number, lines
    return [{line[0]: (line[2], int(line[4])) for line in lines[at:at + RESULTS]}
            for at in range(0, len(lines), RESULTS)]


def step(kind, axes, *options, **variables):
    """Returns {name of result: checksum} for one step."""
    return {name: checksum for name, (checksum, _) in steps(1, kind, axes, *options, **variables)[0].items()}


def fused(engine):
    """Returns the operations fused after the convolution: "graph:1[k25=0]+bias+relu[...]" gives "bias+relu"."""
    return "+".join(re.sub(r"\[.*?\]", "", engine).split("+")[1:])


class Frontend(unittest.TestCase):
    def primed(self, folder, kind, axes, *options, sums=False):
        """Makes a store in which the micro-batches SIZES are by far the fastest for every kernel, with the kernel's own
        engine. With `sums`, summing the partials of 16-bit gradients takes no time."""
        step(kind, axes, "--policy", "all" if sums else "undivided", "--db", f"{folder}/measured.db", *options)
        primed = []
        for row in program.rows_of(f"{folder}/measured.db"):
            if row["engine"] == "sum":
                primed.append(row | {"time_ms": 0})
                continue
            for size in {BATCH, *SIZES}:
                time_ms = size if size == BATCH else 0.01 * (1 + size)
                # A sum of partials needs workspace in addition to the pieces' workspace. So with `sums` each row keeps
                # the size for which its need was measured. Without `sums`, every size gets the undivided kernel's need.
                if not sums or size == int(row["micro_batch"]):
                    primed.append(row | {"micro_batch": size, "time_ms": time_ms})
        return program.add_rows(f"{folder}/primed.db", primed)

    def test_divided_graphs_compute_the_same(self):
        for kind in ("fp32", "fp16", "bf16"):
            kernels = {("forward", ""), ("forward", "bias+relu"), ("forward", "residual+bias+relu"), ("backward_data", ""),
                       ("backward_data", "drelu"), ("backward_filter", "")}
            for axes in ("2", "3"):
                with self.subTest(kind=kind, axes=axes), tempfile.TemporaryDirectory() as folder:
                    undivided = step(kind, axes, "--off")
                    divided = step(kind, axes, "--policy", "all", "--db", self.primed(folder, kind, axes, sums=kind != "fp32"),
                                   "--report", f"{folder}/report.json", UCUDNN_TUNE="off")
                    self.assertEqual(undivided, divided)
                    report = program.read(f"{folder}/report.json")
                    self.assertEqual([], report["fallbacks"])
                    self.assertEqual(0, report["measured"])
                    in_pieces = set()
                    for kernel in report["kernels"]:
                        self.assertEqual("graph", kernel["api"])
                        if len(program.sizes(kernel)) > 1:
                            self.assertEqual(sorted(SIZES), sorted(program.sizes(kernel)), kernel)
                            in_pieces.add((kernel["op"], fused(kernel["plan"][0]["engine"])))
                    self.assertLessEqual(kernels, in_pieces)

    def test_graphs_follow_a_plan_file(self):
        """`ucudnn workspace` makes plans from measurements, without and with a budget. The program then follows
        them."""
        for kind, axes in (("fp32", "2"), ("fp16", "2")):
            with self.subTest(kind=kind, axes=axes), tempfile.TemporaryDirectory() as folder:
                undivided = step(kind, axes, "--off")
                store, report, file = self.primed(folder, kind, axes), f"{folder}/report.json", f"{folder}/plan.json"
                step(kind, axes, "--policy", "undivided", "--db", store, "--report", report, UCUDNN_TUNE="off")
                for budget in ((), ("--total-workspace", "64MiB", "--division", "disjoint")):
                    program.command("workspace", "--trace", report, "--db", store, "--policy", "all", "-o", file, *budget)
                    planned = program.read(file)
                    self.assertEqual({"graph"}, {kernel["api"] for kernel in planned["kernels"]})
                    for kernel in planned["kernels"]:
                        self.assertEqual(sorted(SIZES), sorted(program.sizes(kernel)), kernel)
                    ran = steps(2, kind, axes, "--workspace-plan", file, "--db", store, "--report", f"{folder}/followed.json")
                    for one in ran:
                        self.assertEqual(undivided, {name: checksum for name, (checksum, _) in one.items()})
                        if budget:
                            self.assertEqual({0}, {size for name, (_, size) in one.items() if name != "relu_gradient"})
                    followed = program.read(f"{folder}/followed.json")
                    self.assertEqual(0, followed["measured"])
                    # Under a budget, a kernel gets only the workspace that the file has for it. Plans with fused
                    # operations may need more. The report then has the kernel among its fallbacks.
                    for fallback in followed["fallbacks"]:
                        self.assertRegex(fallback["cause"], "^the workspace plan does not hold for it: .*relu.* bytes of workspace")
                        self.assertTrue(budget)
                    self.assertEqual(bool(budget), followed.get("total_workspace", {}).get("divided", False))
                    called = [kernel for kernel in followed["kernels"] if kernel["calls"] > 0]
                    in_pieces = set()
                    for kernel in called:
                        if "as the workspace plan says" in kernel["reason"] and len(kernel["plan"]) > 1:
                            self.assertEqual(sorted(SIZES), sorted(program.sizes(kernel)))
                            self.assertTrue(budget or kernel["owned_workspace_bytes"] == 0, kernel)
                            in_pieces.add(kernel["op"])
                    self.assertIn("forward", in_pieces)
                    self.assertIn("backward_data", in_pieces)

    def test_a_single_image_is_kept_under_the_limit(self):
        """A single image cannot be divided. So all plans, the deserialized plan included, must be replaced by engines
        that fit the limit."""
        limit = 1024
        for kind, axes in (("fp32", "2"), ("fp16", "2"), ("fp32", "3")):
            with self.subTest(kind=kind, axes=axes), tempfile.TemporaryDirectory() as folder:
                undivided = steps(1, kind, axes, "--off", batch=1)[0]
                self.assertLess(limit, max(size for _, size in undivided.values()))
                for strict in ("0", "1"):
                    report = f"{folder}/report.json"
                    ran = steps(1, kind, axes, "--workspace-limit", str(limit), "--db", f"{folder}/{strict}.db", "--report",
                                report, batch=1, UCUDNN_STRICT_LIMIT=strict)[0]
                    self.assertEqual({name: checksum for name, (checksum, _) in undivided.items()},
                                     {name: checksum for name, (checksum, _) in ran.items()})
                    self.assertGreaterEqual(limit, max(size for _, size in ran.values()), ran)
                    told = program.read(report)
                    self.assertEqual([], told["fallbacks"])
                    self.assertTrue(all(kernel["workspace_bytes"] <= limit for kernel in told["kernels"]))
                    self.assertLessEqual({"forward", "backward_data", "backward_filter"},
                                         {kernel["op"] for kernel in told["kernels"]})

    def test_one_budget_holds_for_all_graphs(self):
        budget = 64 << 20
        options = ("--total-workspace", str(budget))
        for kind, axes in (("fp32", "2"), ("fp16", "2"), ("fp32", "3")):
            with self.subTest(kind=kind, axes=axes), tempfile.TemporaryDirectory() as folder:
                undivided = step(kind, axes, "--off")
                report = f"{folder}/report.json"
                ran = steps(4, kind, axes, *options, "--policy", "all", "--db", self.primed(folder, kind, axes, *options),
                            "--report", report, UCUDNN_TUNE="off")
                for one in ran:
                    self.assertEqual(undivided, {name: checksum for name, (checksum, _) in one.items()})
                    self.assertEqual({0}, {size for name, (_, size) in one.items() if name != "relu_gradient"})
                told = program.read(report)
                self.assertEqual([], told["fallbacks"])
                total = told["total_workspace"]
                self.assertTrue(total["divided"])
                self.assertTrue(0 < total["total_workspace_bytes"] <= budget, total)
                in_library = set()
                for kernel in told["kernels"]:
                    self.assertEqual(("graph", 0), (kernel["api"], kernel["workspace_bytes"]))
                    self.assertLessEqual(kernel["owned_workspace_bytes"], total["total_workspace_bytes"])
                    if kernel["owned_workspace_bytes"] > 0 and len(program.sizes(kernel)) > 1:
                        in_library.add((kernel["op"], fused(kernel["plan"][0]["engine"])))
                self.assertLessEqual({("forward", ""), ("forward", "bias+relu"), ("forward", "residual+bias+relu"),
                                      ("backward_data", "")} | ({("backward_filter", "")} if kind == "fp32" else set()),
                                     in_library)
                program.command("report", report, "-o", f"{folder}/report.html")
                self.assertIn("graph", pathlib.Path(folder, "report.html").read_text())


if __name__ == "__main__":
    unittest.main()
