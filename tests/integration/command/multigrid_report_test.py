"""Tests pages that `ucudnn report` makes from files of `ucudnn multigrid --report`, and files that it refuses."""

import json
import unittest

from report_test import REPORT, PageTest, mutations


def stage(steps=64, levels=(64, 16, 4), coarsening=(4, 4), **changes):
    return {"steps": steps, "shape": [4, 24, 24], "step": 1 / steps, "levels": list(levels), "coarsening": list(coarsening),
            "residuals": [6.5, 4.75, 0.25], "cycles": 2, "status": "early", "fallback": "", "largest_state": 50.0} | changes


HEAD = {"format": "ucudnn-multigrid", "version": 1, "ucudnn": "0.1.0", "network": "kirby-3m", "layers": 67, "parameters": 73682,
        "weights": "drawn", "backend": "cpu64", "precision": "fp64", "machine": "double precision on the host, 2 threads",
        "cpu_times": True, "threads": 2, "method": "multigrid", "devices": 1, "batch": 1,
        "norm": "L2, absolute", "tolerance": None, "most_cycles": 2, "coarse": "inject", "relaxation": "FCF,F", "start": "broadcast", "storage": "all"}


def solve(*stages, **changes):
    """Returns a report of one solve."""
    stages = list(stages) or [stage()]
    return HEAD | {"residuals": stages[0]["residuals"], "cycles": 2, "status": "early", "output_error": 0.00125, "seconds": 0.5,
                   "serial_seconds": 0.125, "stages": stages} | changes


def depths(**changes):
    """Returns a report of solves with a tolerance, at depths of 64, 256 and 1024 steps."""
    made = []
    for steps, levels, residuals in ((64, (64, 16, 4), [6.5, 1e-3, 1e-10]), (256, (256, 64, 16, 4), [3.25, 2e-3, 2e-7, 5e-11]),
                                     (1024, (1024, 256, 64, 16, 4), [1.5, 3e-3, 3e-7, None])):
        one = stage(steps, levels, [4] * (len(levels) - 1), residuals=residuals, cycles=len(residuals) - 1,
                    status="serial" if residuals[-1] is None else "converged", fallback="" if residuals[-1] else "the states are not finite")
        made.append({"layers": steps + 3, "parameters": 1000 * steps, "residuals": residuals, "cycles": one["cycles"],
                     "status": one["status"], "output_error": None, "seconds": 1.5, "serial_seconds": None, "stages": [one]})
    return solve(tolerance=1e-9, most_cycles=100, depths=made, **changes)


def training(cycles=2, levels=(64, 16, 4), losses=(2.5, 1.25, 0.5), **changes):
    epochs = [{"loss": loss, "top1": 0.25 * (number + 1), "solves": 12, "cycles": 12 * cycles, "serial_solves": number, "fallback": "",
               "seconds": 3.5, "checks": [{"step": 3 * number, "output_error": 0.5 ** number, "gradient_error": 2.0}]}
              for number, loss in enumerate(losses)]
    what = stage(64, levels, [4] * (len(levels) - 1))
    for key in ("residuals", "cycles", "status", "fallback", "largest_state"):
        del what[key]
    return HEAD | {"most_cycles": cycles, "most_backward_cycles": cycles, "stages": [what], "training": {
        "data": "digits", "examples": 1442, "test_examples": 355, "rate": 0.002, "momentum": 0.9, "seed": 0, "epochs": epochs}} | changes


def timeline(**changes):
    """Returns the timeline of a stage of 64 layers on two threads."""
    spans = [(0, 0, 0, 3, 0, 3), (0, 0, 3, 1, 3.5, 4), (1, 0, 32, 3, 0, 4), (0, 1, 4, 3, 5, 7.5), (1, 2, 0, 4, 8, 12)]
    return {"cycle": 2, "lanes": 2, "ms": 12, "concurrency": 1.25, "spans": [
        dict(zip(("lane", "level", "first", "steps", "begin_ms", "end_ms"), span)) for span in spans]} | changes


def modelled(ms, share=1.0, fits=True):
    return {"modelled_ms": ms, "computing_share": share, "message_path_ms": 0.5, "messages": 3, "memory_bytes": 1000, "fits": fits}


def scaling(devices, ms, streams=None, partitioned=40.0):
    row = {"devices": devices, "partitioned": modelled(partitioned), "multigrid": None}
    if ms is not None:
        row["multigrid"] = modelled(ms, 0.5) | {"cycles": 2, "coarse_levels": "distributed", "setting": {
            "coarsening": [8, 4], "levels": 3, "relaxation": "FCF", "coarse": "sum"}}
        row["launched_streams"] = modelled(streams, 0.75)
    return row


def analysis(**changes):
    workloads = [{"workload": name, "serial": modelled(32.0), "captured": modelled(20.0), "rows": [
        scaling(1, 64.0, 128.0), scaling(4, 16.0, 32.0), scaling(24, 4.0, 8.0), scaling(64, None)]} for name in ("inference", "training")]
    return {"format": "ucudnn-multigrid-analysis", "version": 1, "network": "kirby-3m", "layers": 4096, "parameters": 3248534, "batch": 1,
            "machine": "made:32", "layer_times": "roofline", "norm": "L2, absolute", "tolerance": 0.25, "workloads": workloads} | changes


class MultigridReport(PageTest):
    def test_a_solve_says_what_it_is(self):
        page = self.page(solve())
        row, = self.rows(page, "solve-table")
        self.assertEqual({"solve": "64 layers", "residual layers": "64", "h": "0.0156", "levels": "3", "cycles": "2", "status": "early",
                          "residual": "2.500e-01", "of the largest state": "5.00e-03", "output error": "1.25e-03", "solve, s": "0.5",
                          "serial, s": "0.125"}, row)
        text = page.text()
        for said in ("kirby-3m, 67 layers, 73,682 parameters", "V-cycle, relaxation FCF,F, coarse operator inject, start broadcast",
                     "fp64 (cpu64)", "L2, absolute", "double precision on the host, 2 threads", "CPU times, by the clock", "0.json",
                     "early: the cycles asked for are done, and the states are approximate", "level 1: 64 layers", "FCF, blocks of 4",
                     "level 2: 16 layers", "F, blocks of 4", "level 3: 4 layers", "serially"):
            self.assertIn(said, text)
        self.assertNotIn("rounding: ", text)
        self.assertIn("convergence-chart", page.ids)
        self.assertNotIn("training", page.ids)
        with self.subTest("a method without cycles"):
            serial = stage(64, (64,), (), residuals=[], status="serial", cycles=0)
            for document, method in ((solve(serial), "serial propagation"), (training(levels=(64,)), "serial propagation"),
                                     (solve(serial, method="partitioned"), "partitioned: one layer after the other")):
                text = self.page(document).text()
                self.assertRegex(text, rf"\bmethod\s*{method}")
                self.assertNotIn("V-cycle", text)
        device = self.page(solve(cpu_times=False, machine="single precision on Some GPU, blocks run as: grouped", precision="fp32",
                                 backend="cudnn")).text()
        self.assertIn("of a device, by the clock", device)
        self.assertNotIn("CPU times", device)

    def test_depths_are_told_apart(self):
        page = self.page(depths())
        self.assertEqual(["64 layers", "256 layers", "1024 layers"], [row["solve"] for row in self.rows(page, "solve-table")])
        self.assertEqual(["1.000e-10", "5.000e-11", ""], [row["residual"] for row in self.rows(page, "solve-table")])
        # The stage of 1024 steps fell back to serial propagation, so its states no longer belong to its last residual.
        # Therefore the table does not relate this residual to the largest state.
        self.assertEqual(["2.00e-12", "1.00e-12", ""], [row["of the largest state"] for row in self.rows(page, "solve-table")])
        self.assertEqual(["", "", "the states are not finite"], [row["fell back since"] for row in self.rows(page, "solve-table")])
        text = page.text()
        for said in ("kirby-3m at 3 depths", "tolerance 1e-09", "converged: the residual is at most the tolerance", "1024 layers, cycle 2: 3.000e-07"):
            self.assertIn(said, text)
        self.assertEqual(3, len([name for name in page.ids if name.startswith("levels-") and not name.endswith("title")]))

    def test_files_are_named_by_what_differs(self):
        def names(*documents):
            return [row["solve"] for row in self.rows(self.page(*documents), "solve-table")]
        self.assertEqual(["inject", "sum"], names(solve(), solve(coarse="sum")))
        self.assertEqual(["FCF,F, start broadcast", "F, start nested"], names(solve(), solve(relaxation="F", start="nested")))
        self.assertEqual(["kirby-3m, fp64", "net, fp32"], names(solve(), solve(network="net", precision="fp32")))
        self.assertEqual(["T = 1", "T = 64"], names(solve(), solve(stage(step=1))))
        self.assertEqual(["coarsening 4", "one level"], names(solve(), solve(stage(64, (64,), (), residuals=[], status="serial", cycles=0))))
        self.assertEqual(["64 layers, stage 1", "16 layers, stage 2"], names(solve(stage(), stage(16, (16, 4), (4,)))))
        self.assertEqual(["1 device", "3 devices", "partitioned over 3 devices"],
                         names(solve(), solve(devices=3), solve(devices=3, method="partitioned")))
        self.assertEqual(["64 layers"] * 2, names(solve(), solve()))

    def test_training_stands_next_to_serial_propagation(self):
        page = self.page(training(levels=(64,)), training(), training(cycles=1, most_backward_cycles=3))
        rows = self.rows(page, "training-table")
        self.assertEqual(["serial propagation", "2 cycles", "1 + 3 cycles"], [row["training"] for row in rows[::3]])
        self.assertEqual({"training": "2 cycles", "epoch": "2", "loss": "1.25000", "top-1": "50.00 %", "solves": "12", "cycles": "24",
                          "fell back": "1", "far away": "0", "s": "3.5", "output error": "5.0e-01", "gradient error": "2.0e+00"}, rows[4])
        text = page.text()
        self.assertIn("On 1,442 images of digits, tested on 355 others.", text)
        self.assertIn("serial propagation, epoch 3: top-1 75.00 %", text)
        self.assert_has(page.ids, "loss-chart", "top1-chart")
        self.assertNotIn("solve-table", page.tables)
        other = self.page(training(), training(batch=64), training(most_cycles=1, most_backward_cycles=1))
        self.assertEqual(["2 cycles, mini-batches of 1", "2 cycles, mini-batches of 64", "1 cycle, mini-batches of 1"],
                         [row["training"] for row in self.rows(other, "training-table")[::3]])
        with self.subTest("beside a solve"):
            both = self.page(training(), solve())
            self.assertLess(both.ids.index("solves"), both.ids.index("training"))

    def test_residuals_of_training_are_drawn(self):
        document = training()
        for number, epoch in enumerate(document["training"]["epochs"]):
            epoch.update(residual=0.5 ** number, backward_residual=None if number == 1 else 0.125, far_solves=number)
        page = self.page(training(levels=(64,)), document)
        self.assertIn("residual-chart", page.ids)
        self.assert_has(page.text(), "2 cycles, forward, epoch 3: 2.500e-01", "2 cycles, adjoint, epoch 3: 1.250e-01")
        self.assertNotIn("2 cycles, adjoint, epoch 2", page.text())
        self.assertEqual(["0", "0", "0", "0", "1", "2"], [row["far away"] for row in self.rows(page, "training-table")])
        self.assertNotIn("residual-chart", self.page(training()).ids)
        repeated = training(most_cycles=1, start="previous")
        repeated["training"]["repeats"] = 3
        self.assertEqual(["2 cycles, 1 step each, start broadcast", "1 + 2 cycles, 3 steps each, start previous"],
                         [row["training"] for row in self.rows(self.page(training(), repeated), "training-table")[::3]])

    def test_a_timeline_says_what_ran_when(self):
        page = self.page(solve(stage(timeline=timeline()), state_bytes=3 << 20))
        self.assertIn("timeline-1", page.ids)
        text = page.text()
        for said in ("64 layers: 1.25 of 2 threads run a layer on average, over 12 ms.", "64 layers: cycle 2 of 2, CPU times",
                     "thread 1, level 1: steps 1 to 3, 3 ms from 0 ms on", "thread 1, level 1: step 4, 0.5 ms from 3.5 ms on",
                     "thread 1, level 2: steps 5 to 7 (for layers 17 to 28), 2.5 ms from 5 ms on",
                     "thread 2, level 3: steps 1 to 4 (for layers 1 to 64), 4 ms from 8 ms on", "level 2: 16 layers", "all, 3 MiB"):
            self.assertIn(said, text)
        self.assertNotIn("timeline", self.page(solve()).ids)
        text = self.page(solve(stage(timeline=timeline()), cpu_times=False, backend="cudnn")).text()
        self.assertNotIn("CPU times", text)
        self.assertIn("stream 2, level 3: steps 1 to 4 (for layers 1 to 64), 4 ms from 8 ms on", text)
        self.assertNotRegex(text, r"thread \d")
        many = timeline(spans=[timeline()["spans"][0]] * 6001)
        self.assertIn("The first 6,000 of 6,001 blocks are drawn.", self.page(solve(stage(timeline=many))).text())
        self.assertIn("timeline-1", self.page(solve(stage(timeline=timeline(spans=[], concurrency=0)))).ids)

    def test_scaling_is_drawn_beside_serial_propagation(self):
        page = self.page(analysis())
        text = page.text()
        for said in ("kirby-3m, 4,096 layers, 3,248,534 parameters, mini-batch of 1, on made:32 (single layers: roofline).",
                     "Solves reach a residual of 0.25 (L2, absolute).", "Strong scaling of inference: kirby-3m on made:32 (modelled)",
                     "serial propagation, 1 device, 24 devices: 32 ms", "the same as a CUDA graph, 4 devices: 20 ms",
                     "partitioned, 64 devices: 40 ms", "multigrid, 4 devices: 16 ms", "multigrid in streams, 1 device: 128 ms",
                     "multigrid: computing, 4 devices: 8 ms", "in streams: waiting for states, 24 devices: 2 ms"):
            self.assertIn(said, text)
        self.assertNotIn("multigrid, 64 devices", text)
        self.assertNotIn("does not fit", text)
        self.assertNotIn("about", page.ids)
        self.assert_has(page.ids, *(f"scaling-1-{number}-{name}" for number in (0, 1) for name in ("times", "shares", "table")))
        rows = page.tables["scaling-1-1-table"]
        self.assertEqual(["4", "40", "16", "2.00 x", "2.50 x", "50.0 %", "32", "75.0 %", "c = 8,4, 3 levels, FCF, sum, 2 cycles"], rows[2])
        self.assertEqual(["64", "40", "", "", "", "", "", "", ""], rows[4])
        with self.subTest("layers of a CPU that were measured, and memory that is too small"):
            changed = analysis(layer_times="cpu, measured", tolerance=None)
            changed["workloads"][0]["rows"][0]["partitioned"]["fits"] = False
            text = self.page(changed).text()
            self.assert_has(text, "40 *", "* does not fit the memory of a device.")
            self.assertNotIn("CUDA graph", text)
        with self.subTest("beside solves and another network"):
            page = self.page(solve(), analysis(), analysis(network="kirby-2b"))
            self.assertLess(page.ids.index("solves"), page.ids.index("scaling-1"))
            self.assertIn("Strong scaling of kirby-2b", page.text())

    def test_an_analysis_is_what_the_command_prints(self):
        page = self.page(self.output("multigrid", "kirby-3m", "--layers", "64", "--analyse", "--machine", "v100x2-25g:2",
                                     "--devices", "1,4", "--json"))
        self.assertEqual(["1", "4"], [row[0] for row in page.tables["scaling-1-0-table"][1:]])

    def test_what_is_not_known_is_left_out(self):
        page = self.page(training(losses=(None, 1.5)), solve(output_error=None, serial_seconds=None))
        self.assertEqual(["", "1.50000"], [row["loss"] for row in self.rows(page, "training-table")])
        row, = self.rows(page, "solve-table")
        self.assertEqual(("", ""), (row["output error"], row["serial, s"]))
        nothing = self.page(solve(stage(64, (64,), (), residuals=[], status="serial", cycles=0)))
        self.assertIn("Nothing was solved by cycles.", nothing.text())
        self.assertNotIn("convergence-chart", nothing.ids)

    def test_bytes_of_others_are_shown_as_text(self):
        page = self.page(solve(network="</td><script>alert(1)</script>", machine="<b onclick='x'>"))
        self.assertEqual(1, page.tags.count("script"))
        self.assertIn("</td><script>alert(1)</script>", page.text())

    def test_extreme_numbers_can_be_drawn(self):
        for residuals in ([1e300, 1e-300, 5e-324], [0, 0, 0], [1, 1, 1], [1e308] * 200, [None, 7.5]):
            page = self.page(solve(stage(residuals=residuals, largest_state=1e-300)))
            self.assertNotIn("nan", page.text())
        deep = 1 << 40
        self.page(solve(stage(deep, (deep, deep // 2), (2,))), solve(stage(deep, (deep, deep // 2), (2,))))
        self.page(training(losses=[1e300] * 3), training(losses=[0.0]))
        many = self.page(*[solve(coarse=f"operator {number}") for number in range(30)])
        self.assertIn("6 more are not drawn.", many.text())
        self.assertEqual(30, len(self.rows(many, "solve-table")))

    def test_what_is_wrong_is_named(self):
        for document, path, value, expected in (
                (solve(), ("version",), 2, "version is 2; expected 1\n"),
                (solve(), ("network",), None, "network is null; expected text\n"),
                (solve(), ("batch",), 0, "batch is 0; expected a whole number from 1 to "),
                (solve(), ("cpu_times",), 1, "cpu_times is 1; expected true or false\n"),
                (solve(), ("machine",), ..., "machine is missing; expected text\n"),
                (solve(), ("tolerance",), -1, "tolerance is -1; expected a number of 0 or more, or null\n"),
                (solve(), ("stages",), [], "stages is an array of 0; expected a list of stages\n"),
                (solve(), ("stages",), ..., "stages is missing; expected a list of stages\n"),
                (solve(), ("stages", 0, "steps"), 0, "stages[0].steps is 0; expected a whole number from 1 to "),
                (solve(), ("stages", 0, "levels"), [64, 16], "stages[0].levels are not those of 'steps' and 'coarsening'\n"),
                (solve(), ("stages", 0, "levels", 1), 17, "stages[0].levels are not those of 'steps' and 'coarsening'\n"),
                (solve(), ("stages", 0, "coarsening", 1), 1, "stages[0].coarsening[1] is 1; expected a whole number from 2 to "),
                (solve(), ("stages", 0, "residuals", 2), "small", "stages[0].residuals[2] is 'small'; expected a number of 0 or more, or null\n"),
                (solve(), ("stages", 0, "status"), None, "stages[0].status is null; expected text\n"),
                (depths(), ("depths",), [], "depths is an array of 0; expected a list of solves\n"),
                (depths(), ("depths", 1, "stages", 0, "shape", 0), 0, "depths[1].stages[0].shape[0] is 0; expected a whole number from 1 to "),
                (solve(stage(timeline=timeline())), ("stages", 0, "timeline", "spans", 1, "lane"), 2,
                 "stages[0].timeline.spans[1].lane is 2; expected a whole number from 0 to 1\n"),
                (solve(stage(timeline=timeline())), ("stages", 0, "timeline", "spans", 1, "level"), 3,
                 "stages[0].timeline.spans[1].level is 3; expected a whole number from 0 to 2\n"),
                (solve(stage(timeline=timeline())), ("stages", 0, "timeline", "spans", 3, "steps"), 13,
                 "stages[0].timeline.spans[3].steps is 13; expected a whole number from 1 to 12\n"),
                (solve(stage(timeline=timeline())), ("stages", 0, "timeline", "spans", 1, "end_ms"), 1,
                 "stages[0].timeline.spans[1] ends before it begins\n"),
                (analysis(), ("version",), 2, "version is 2; expected 1\n"),
                (analysis(), ("workloads",), [], "workloads is an array of 0; expected a list of workloads\n"),
                (analysis(), ("workloads", 1, "rows"), [], "workloads[1].rows is an array of 0; expected a list of rows\n"),
                (analysis(), ("workloads", 0, "rows", 1, "devices"), 1, "workloads[0].rows[1].devices are not more than in the row before\n"),
                (analysis(), ("workloads", 0, "serial", "modelled_ms"), 0, "workloads[0].serial.modelled_ms is 0; expected a number above 0\n"),
                (analysis(), ("workloads", 0, "captured", "computing_share"), 1.5,
                 "workloads[0].captured.computing_share is 1.5; expected a number from 0 to 1\n"),
                (analysis(), ("workloads", 0, "rows", 0, "multigrid", "setting", "coarse"), None,
                 "workloads[0].rows[0].multigrid.setting.coarse is null; expected text\n"),
                (training(), ("training",), [], "training is an array of 0; expected an object\n"),
                (training(), ("training", "epochs", 1, "top1"), 1.5, "training.epochs[1].top1 is 1.5; expected a number from 0 to 1\n"),
                (training(), ("training", "epochs", 0, "checks", 0, "output_error"), "x",
                 "training.epochs[0].checks[0].output_error is 'x'; expected a number of 0 or more, or null\n")):
            with self.subTest(path=path, value=value):
                self.assert_wrong(document, path, value, f"ucudnn report: 'report.json': {expected}")
        self.written(REPORT, "run.json")
        self.written(solve(), "solve.json")
        for names in (["run.json", "solve.json"], ["solve.json", "run.json"]):
            self.assert_refused(["report", *names], "ucudnn report: 'run.json' is no report of `ucudnn multigrid`, and 'solve.json' is one; "
                                "expected one kind on a page\n")
        self.assert_refused(["report", "solve.json", "--db", "m.db"],
                            "--db: a report of `ucudnn multigrid` has no kernels that are looked up\n")

    def test_mutated_reports_are_shown_or_refused_in_one_line(self):
        values = ["-1", "1e999", "null", "{}", "[]", "9223372036854775807", '"x"', "0", "1e9", "true"]
        texts = [json.dumps(document) for document in (solve(), depths(), training(), solve(stage(timeline=timeline())), analysis())]
        self.assert_shown_or_refused(mutations(texts * 30, 19, values, ":,[", ",}]"))


if __name__ == "__main__":
    unittest.main()
