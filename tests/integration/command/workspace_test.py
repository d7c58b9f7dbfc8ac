"""Tests what `ucudnn workspace` plans from measurements, and what it refuses. Only FromARecordedStore uses a device,
the CPU stand-in."""

import contextlib
import itertools
import json
import os
import shutil
import sqlite3
import unittest

from command import COMMAND, MIB, ROOT, CommandTest, measurements

LAYERS = "name,n,c,h,w,k,r,s,pad_h,pad_w\na,4,4,9,9,8,3,3,1,1\nb,4,4,15,15,8,5,5,2,2\n"
# {layer: [(engine, micro_batch, time_ms, workspace bytes)]}. Times are integers, so their sums are exact.
ROWS = {
    "a": [("legacy:0", 4, 40, 0), ("legacy:0", 1, 11, 0), ("legacy:1", 4, 10, 8 * MIB), ("legacy:1", 2, 6, 4 * MIB),
          ("legacy:1", 1, 5, 2 * MIB)],
    "b": [("legacy:0", 4, 90, 0), ("legacy:6", 4, 30, 6 * MIB), ("legacy:6", 2, 20, 3 * MIB)],
}
SHAPES = {"a": "4,9,9,8,3,3,1,1", "b": "4,15,15,8,5,5,2,2"}


def csv(rows, device="Toy", align="16", cudnn=91900, op="forward"):
    lines = ["name,c,h,w,k,r,s,pad_h,pad_w,op,engine,micro_batch,time_ms,workspace_bytes,deterministic,align,cudnn,driver,device"]
    for layer, measured in rows.items():
        lines += [f"{layer},{SHAPES[layer]},{op},{engine},{size},{time},{bytes_},{int(engine != 'legacy:1')},{align},"
                  f"{cudnn},13000,{device}" for engine, size, time, bytes_ in measured]
    return "\n".join(lines) + "\n"


def front(measured, n=4):
    """Returns the Pareto-optimal (workspace, time) pairs of all compositions of n images, without duplicates. It
    enumerates all compositions."""
    points = set()
    for pieces in range(1, n + 1):
        for chosen in itertools.combinations_with_replacement(measured, pieces):
            if sum(size for _, size, _, _ in chosen) == n:
                points.add((max(row[3] for row in chosen), sum(row[2] for row in chosen)))
    return sorted(p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points))


def least_time(lanes, budget, disjoint):
    """Returns the least total time of kernels a and b, by enumeration. `lanes`: {kernel: set of its lanes}. A kernel
    can have a segment of its own for each of its lanes. Unless `disjoint`, kernels with a common lane can also share
    one segment for each lane that either of them has; all these segments have the same size."""
    def within(layer, size):
        return min(time for bytes_, time in front(ROWS[layer]) if bytes_ <= size)
    sizes = {layer: [bytes_ for bytes_, _ in front(ROWS[layer])] for layer in ROWS}
    best = min(within("a", a) + within("b", b) for a in sizes["a"] for b in sizes["b"]
               if a * len(lanes["a"]) + b * len(lanes["b"]) <= budget)
    if disjoint or not lanes["a"] & lanes["b"]:
        return best
    count = len(lanes["a"] | lanes["b"])
    return min([best] + [within("a", size) + within("b", size) for size in sizes["a"] + sizes["b"]
                         if size * count <= budget])


class Workspace(CommandTest):
    def setUp(self):
        super().setUp()
        self.layers, self.is_measured = self.write("layers.csv", LAYERS), False

    def measure(self, text, store=None):
        self.is_measured = True
        self.import_rows(text, store)

    def db(self):
        """Returns the store. Fills it with ROWS unless the test has imported other rows."""
        if not self.is_measured:
            self.measure(csv(ROWS))
        return self.store

    def words(self, *words, ops="forward"):
        return ["workspace", "--layers", self.layers, "--ops", ops, "--db", self.db(), *words]

    def plan(self, *words, ops="forward", **variables):
        return self.printed_json(*self.words("--json", *words, ops=ops), **variables)

    def chosen(self, report):
        return [(kernel["chosen"]["workspace_bytes"], kernel["chosen"]["time_ms"]) for kernel in report["kernels"]]

    def test_desirable_sets_are_what_no_composition_beats(self):
        report = self.plan()
        self.assertEqual(("ucudnn-workspace-table", 2, "Toy", 91900), tuple(report[k] for k in ("format", "version", "device", "cudnn")))
        for kernel in report["kernels"]:
            points = [(one["workspace_bytes"], one["time_ms"]) for one in kernel["desirable_set"]]
            self.assertEqual(front(ROWS[kernel["name"]]), points)
            for one in kernel["desirable_set"]:
                self.assertEqual(4, sum(piece["micro_batch"] * piece["count"] for piece in one["plan"]))
                self.assertEqual(one["time_ms"], sum(piece["piece_ms"] * piece["count"] for piece in one["plan"]))

    def test_without_a_budget_each_kernel_is_the_fastest_within_its_own_limit(self):
        report = self.plan("--workspace-limit", "5MiB")
        self.assertEqual([(4 * MIB, 12), (3 * MIB, 40)], self.chosen(report))
        self.assertEqual((5 * MIB, 52, 4 * MIB, True, None), tuple(
            report[k] for k in ("limit_bytes", "total_time_ms", "total_workspace_bytes", "optimal", "solver")))
        self.assertEqual(7 * MIB, self.plan("--workspace-limit", "5MiB", "--division", "disjoint")["total_workspace_bytes"])
        self.assertEqual([(0, 40), (0, 90)], self.chosen(self.plan("--workspace-limit", "0")))
        self.assertIsNone(self.plan()["limit_bytes"])

    def test_budget_is_spent_where_it_saves_most(self):
        for budget in (*range(1, 16), 100):
            report = self.plan("--total-workspace", f"{budget}MiB", "--division", "disjoint")
            best = min((one[1] + other[1], one[0] + other[0]) for one in front(ROWS["a"]) for other in front(ROWS["b"])
                       if one[0] + other[0] <= budget * MIB)
            self.assertEqual(best, (report["total_time_ms"], report["total_workspace_bytes"]))
            self.assertEqual((budget * MIB, "disjoint", "exact", True),
                             tuple(report[k] for k in ("total_bytes", "division", "solver", "optimal")))
            self.assertNotIn("limit_bytes", report)

    def test_shared_budget_serves_each_kernel_alone_and_is_the_default_offline(self):
        shared = self.plan("--total-workspace", "6MiB", "--division", "shared")
        self.assertEqual(([(4 * MIB, 12), (6 * MIB, 30)], 6 * MIB), (self.chosen(shared), shared["total_workspace_bytes"]))
        concurrent = self.plan("--total-workspace", "6MiB")
        self.assertEqual("concurrent", concurrent["division"])
        self.assertEqual(shared["kernels"], concurrent["kernels"])

    def trace(self, lanes, batch=4, **changes):
        """Returns kernels a and b as a report has them, each with its lanes if `lanes` has any for it."""
        columns = ("c", "h", "w", "k", "r", "s", "pad_h", "pad_w")
        kernels = []
        for layer, shape in SHAPES.items():
            problem = {"n": batch} | {column: int(value) for column, value in zip(columns, shape.split(","))}
            kernel = {"op": "forward", "problem": problem, "api": "legacy", "calls": 2, "limit_bytes": None,
                      "workspace_bytes": 0, "owned_workspace_bytes": 0, "undivided": None, "reason": "", "plan": [
                          {"engine": "legacy:0", "micro_batch": batch, "count": 1, "workspace_bytes": 0, "piece_ms": 1}]}
            kernels.append(kernel | ({"lanes": lanes[layer]} if layer in lanes else {}) | changes)
        return kernels

    def trace_words(self, kernels, *words):
        path = self.write("trace.json", {"format": "ucudnn-report", "version": 2, "device": "Toy", "kernels": kernels})
        return ["workspace", "--trace", path, "--db", self.db(), *words]

    def plan_trace(self, kernels, *words):
        return self.printed_json(*self.trace_words(kernels, "--json", "-o", "plan.json", *words)), self.load("plan.json")

    def test_a_trace_is_divided_for_the_lanes_that_it_names(self):
        for lanes in ({"a": [0, 1], "b": [0, 1]}, {"a": [0], "b": [1]}, {"a": [0, 1], "b": [1]}, {"a": [2], "b": [0, 1, 63]},
                        {"a": [0, 1], "b": [1, 2]}):
            sets = {layer: set(numbers) for layer, numbers in lanes.items()}
            for division in ("disjoint", "shared", "concurrent"):
                for budget in (1, 3, 4, 6, 8, 9, 12, 18, 24, 40):
                    with self.subTest(lanes=lanes, division=division, budget=budget):
                        report, file = self.plan_trace(self.trace(lanes), "--total-workspace", f"{budget}MiB",
                                                       "--division", division)
                        self.assertEqual(least_time(sets, budget * MIB, division == "disjoint"), report["total_time_ms"])
                        # A run reserves one copy of a segment for each of its lanes.
                        segments = {}
                        for kernel, planned in zip(file["kernels"], report["kernels"]):
                            self.assertEqual(kernel["segment"], planned["segment"])
                            self.assertEqual(kernel.get("lanes"), planned.get("lanes"))
                            size, copies = segments.get(kernel["segment"], (0, kernel.get("lanes", 1)))
                            self.assertEqual(copies, kernel.get("lanes", 1))
                            segments[kernel["segment"]] = max(size, planned["chosen"]["workspace_bytes"]), copies
                        self.assertEqual(sum(size * copies for size, copies in segments.values()), report["total_workspace_bytes"])
                        self.assertLessEqual(report["total_workspace_bytes"], budget * MIB)
                        for layer, kernel in zip(sets, file["kernels"]):
                            self.assertGreaterEqual(kernel.get("lanes", 1), len(sets[layer]))

    def test_one_lane_is_planned_as_if_none_were_named(self):
        for words in (("--total-workspace", "6MiB"), ("--total-workspace", "9MiB", "--division", "disjoint"),
                      ("--workspace-limit", "5MiB")):
            plain = self.plan_trace(self.trace({}), *words)
            for lanes in ({"a": [0], "b": [0]}, {"a": [7], "b": []}, {"a": [], "b": []}):
                self.assertEqual(plain, self.plan_trace(self.trace(lanes), *words))

    def test_equal_kernels_run_on_the_lanes_of_all(self):
        both = self.plan_trace(self.trace({"a": [0, 1], "b": [0, 1]}), "--total-workspace", "9MiB")
        for other in (4, 2):
            kernels = self.trace({"a": [0], "b": [0]}) + self.trace({"a": [1], "b": [1]}, batch=other)
            report, _ = self.plan_trace(kernels, "--total-workspace", "9MiB", "--batch", "4")
            self.assertEqual(both[0]["total_workspace_bytes"], report["total_workspace_bytes"])
            self.assertEqual([2, 2], [kernel["lanes"] for kernel in report["kernels"]])

    def test_on_several_lanes_what_a_kernel_cannot_do_without_comes_first(self):
        self.measure(csv({"a": ROWS["a"][2:], "b": ROWS["b"]}))
        for lanes, budget, times in (({"a": [0], "b": [1]}, 5, [20, 40]), ({"a": [0, 1], "b": [1]}, 4, [20, 90])):
            report, _ = self.plan_trace(self.trace(lanes), "--total-workspace", f"{budget}MiB")
            self.assertEqual(times, [kernel["chosen"]["time_ms"] for kernel in report["kernels"]])
            self.assert_refused(self.trace_words(self.trace(lanes), "--total-workspace", "1MiB"),
                                "--total-workspace '1 MiB': ", f"{(len(lanes['a']) * 2 - 1) * MIB} bytes are missing",
                                "kernel 1 forward\n")

    def test_variables_mean_what_the_options_mean(self):
        self.assertEqual(self.plan("--total-workspace", "6MiB", "--division", "disjoint"),
                         self.plan(UCUDNN_TOTAL_WORKSPACE="6MiB", UCUDNN_DIVISION="disjoint"))

    def test_a_budget_and_a_limit_hold_both(self):
        report = self.plan("--total-workspace", "12MiB", "--workspace-limit", "4MiB", "--division", "disjoint")
        self.assertEqual([(4 * MIB, 12), (3 * MIB, 40)], self.chosen(report))
        self.assertEqual((12 * MIB, 4 * MIB), (report["total_bytes"], report["limit_bytes"]))

    def test_policy_says_which_sizes_count(self):
        self.measure(csv({"a": ROWS["a"] + [("legacy:1", 3, 1, 0)], "b": ROWS["b"]}))
        times = {policy: self.plan("--policy", policy)["kernels"][0]["chosen"]["time_ms"]
                 for policy in ("auto", "all", "powerOfTwo", "undivided")}
        self.assertEqual({"auto": 6, "all": 6, "powerOfTwo": 10, "undivided": 10}, times)

    def test_deterministic_engines_alone_where_asked(self):
        self.assertEqual([(0, 40), (6 * MIB, 30)], self.chosen(self.plan("--deterministic")))

    def test_16_bit_filter_gradients_stay_undivided(self):
        rows = csv(ROWS, op="backward_filter").replace(",op,", ",dtype,op,").replace(",backward_filter,", ",fp16,backward_filter,")
        self.measure(rows)
        self.layers = self.write("half.csv", LAYERS.replace("pad_w\n", "pad_w,dtype\n").replace("1,1\n", "1,1,fp16\n")
                                 .replace("2,2\n", "2,2,fp16\n"))
        report = self.plan("--workspace-limit", "5MiB", ops="backward_filter")
        self.assertEqual([[4], [4]], [[p["micro_batch"] for p in k["chosen"]["plan"]] for k in report["kernels"]])

    def test_rows_without_alignment_are_used_and_a_runs_own_rows_come_first(self):
        self.measure(csv(ROWS, align=""))
        self.assertEqual([10, 30], [time for _, time in self.chosen(self.plan())])
        self.measure(csv({"a": [("legacy:1", 4, 77, 0)]}))
        self.assertEqual([77, 30], [time for _, time in self.chosen(self.plan())])

    def test_engines_of_the_graph_api_make_a_plan_of_their_own(self):
        graph = [("graph:38[k2=1]", 4, 3, 0), ("graph:38[k2=1]", 2, 1, 0)]
        self.measure(csv({"a": ROWS["a"], "b": graph}))
        self.measure(csv({"a": graph}))
        self.assertEqual([("legacy", 10), ("graph", 2)],
                         [(kernel["api"], kernel["chosen"]["time_ms"]) for kernel in self.plan()["kernels"]])

    def test_newest_platform_that_has_all_kernels_counts(self):
        self.measure(csv(ROWS, cudnn=91000))
        self.measure(csv({"a": [("legacy:0", 4, 1, 0)]}, cudnn=92000))
        self.assertEqual((91000, [10, 30]), (self.plan()["cudnn"], [time for _, time in self.chosen(self.plan())]))

    def test_device_is_named_where_there_are_several(self):
        self.measure(csv(ROWS))
        self.measure(csv({"a": [("legacy:0", 4, 1, 0)], "b": [("legacy:0", 4, 2, 0)]}, device="Other"))
        self.assert_refused(self.words(), "--device NAME", "'Other', 'Toy'")
        self.assert_refused(self.words("--device", "Third"), "--device 'Third'", "'Other', 'Toy'")
        self.assertEqual([1, 2], [time for _, time in self.chosen(self.plan("--device", "Other"))])

    def test_plan_file_holds_what_was_chosen(self):
        for division, segments in (("disjoint", [0, 1]), ("shared", [0, 0])):
            report = self.plan("--total-workspace", "9MiB", "--division", division, "-o", "plan.json")
            plan = self.load("plan.json")
            self.assertEqual(("ucudnn-workspace-plan", 2, 91900, "Toy", 9 * MIB, division),
                             tuple(plan[k] for k in ("format", "version", "cudnn", "device", "total_bytes", "division")))
            self.assertEqual([kernel["chosen"]["plan"] for kernel in report["kernels"]], [k["plan"] for k in plan["kernels"]])
            self.assertEqual(segments, [kernel["segment"] for kernel in plan["kernels"]])
            self.assertEqual([("forward", "legacy", [], 4, 16)] * 2, [
                (k["op"], k["api"], k["order_after"], k["problem"]["n"], k["problem"]["align"]) for k in plan["kernels"]])
        self.plan("--workspace-limit", "5MiB", "-o", "plan.json")
        plan = self.load("plan.json")
        self.assertEqual((5 * MIB, [None, None]), (plan["limit_bytes"], [k["segment"] for k in plan["kernels"]]))

    def tiles_of_an_image(self, time, bytes_, sizes=(2,)):
        """Returns rows for all kinds of tiles of 1x4x16x16 -> 8, 3x3 pad 1x1, cut along h into each number of parts in
        `sizes`. As in stores, a tile's strides are the strides inside tensors with one more row."""
        lines = ["c,h,w,k,r,s,pad_h,pad_w,pad_h_post,x_strides,y_strides,op,engine,micro_batch,time_ms,workspace_bytes,"
                 "deterministic,align,cudnn,driver,device"]
        for parts in sizes:
            rows = 16 // parts
            for before, behind in {(1, 0), (0, 1)} | ({(0, 0)} if parts > 2 else set()):
                read = rows + 2 - before - behind
                strides = [":".join(map(str, (1 + (channels - 1) * (own + 1) * 16 + own * 16 - 1, (own + 1) * 16, 16, 1)))
                           for channels, own in ((4, read), (8, rows))]
                lines.append(f"4,{read},16,8,3,3,{before},1,{behind},{strides[0]},{strides[1]},forward,graph:62,1,{time},"
                             f"{bytes_},1,16,91900,13000,Toy")
        return "\n".join(lines) + "\n"

    def image(self, rows):
        self.layers = self.write("image.csv", "name,n,c,h,w,k,r,s,pad_h,pad_w\nimage,1,4,16,16,8,3,3,1,1\n")
        self.measure(measurements("4,16,16,8,3,3,1,1", [(engine, 1, time, bytes_) for engine, time, bytes_ in rows],
                                  platform="91900,13000,Toy"))

    def test_tiles_that_were_measured_may_be_chosen(self):
        self.image([("graph:0", 40, 0), ("graph:62", 8, 6 * MIB)])
        self.measure(self.tiles_of_an_image(5, 2 * MIB, sizes=(2,)))
        self.measure(self.tiles_of_an_image(4, MIB, sizes=(4,)))
        kernel = self.plan()["kernels"][0]
        self.assertEqual([(0, 40), (MIB, 16), (2 * MIB, 10), (6 * MIB, 8)],
                         [(one["workspace_bytes"], one["time_ms"]) for one in kernel["desirable_set"]])
        self.assertNotIn("tile", kernel["chosen"]["plan"][0])
        report = self.plan("--workspace-limit", "1MiB", "-o", "tiles.json")
        tile = {"engine": "graph:62", "workspace_bytes": MIB, "piece_ms": 4, "micro_batch": 1, "tile": {"h": 4}}
        self.assertEqual([{**tile, "border": "h-", "count": 1}, {**tile, "count": 2}, {**tile, "border": "h+", "count": 1}],
                         report["kernels"][0]["chosen"]["plan"])
        self.assertEqual(report["kernels"][0]["chosen"]["plan"], self.load("tiles.json")["kernels"][0]["plan"])
        self.assertIn("h 2x4 + 2 edges\n", self.run_command(*self.words("--workspace-limit", "1MiB")).stdout)
        # `ucudnn report` checks the table and makes a page of it.
        self.write("table.json", report)
        self.assertIn("h 2x4 + 2 edges", self.output("report", "table.json"))

    def test_tiles_share_a_budget(self):
        self.image([("graph:0", 40, 0), ("graph:62", 9, 6 * MIB)])
        self.layers = self.write("images.csv", "name,n,c,h,w,k,r,s,pad_h,pad_w\nimage,1,4,16,16,8,3,3,1,1\n"
                                               "a,4,4,9,9,8,3,3,1,1\n")
        self.measure(csv({"a": ROWS["a"]}))
        self.measure(self.tiles_of_an_image(5, 2 * MIB))
        # 10 MiB hold 8 MiB for layer a's fastest engine and 2 MiB for the image's tiles.
        report = self.plan("--total-workspace", "10MiB", "--division", "disjoint")
        self.assertEqual([(2 * MIB, 10), (8 * MIB, 10)], self.chosen(report))

    def test_tiles_of_which_a_kind_is_unknown_are_none(self):
        self.image([("graph:0", 40, 0)])
        rows = self.tiles_of_an_image(5, 0).splitlines()
        self.measure("\n".join(rows[:2]) + "\n")
        self.assertEqual([(0, 40)], self.chosen(self.plan()))
        self.measure("\n".join(rows[:1] + rows[2:]) + "\n")
        self.assertEqual([(0, 10)], self.chosen(self.plan()))
        self.assertEqual([(0, 40)], self.chosen(self.plan("--policy", "undivided")))
        # The tiles run on an engine of the graph API. A measurement does not record whether that engine is exact enough
        # to replace a legacy engine, so the undivided legacy engine is chosen.
        self.image([("legacy:0", 30, 0)])
        self.assertEqual([(0, 30)], self.chosen(self.plan()))

    def test_what_was_written_before_tiles_is_read_and_written_as_it_was(self):
        """A store and a report of a version without tiles must give the plan that this version made
        (tests/support/before_tiles), byte for byte."""
        older = f"{ROOT}/tests/support/before_tiles"
        rows = f"{self.folder}/rows.db"
        self.output("cache", "import", f"{older}/rows.csv", "--db", rows)
        with open(f"{older}/store.sql", encoding="utf-8") as sql, contextlib.closing(sqlite3.connect(self.store)) as store:
            store.executescript(sql.read())
        with open(f"{older}/plan.json", encoding="utf-8") as plan:
            plan = plan.read()
        for store in (rows, self.store):
            self.output("workspace", "--trace", f"{older}/report.json", "--db", store, "--policy", "powerOfTwo", "-o", "plan.json")
            self.assertEqual(plan, self.read("plan.json"))
        self.assert_has(self.output("report", f"{older}/report.json"), "No kernel is cut into tiles.", "divided into 4 micro-batches")

    TWINS = LAYERS.replace("b,", "twin,4,4,9,9,8,3,3,1,1\nb,")

    def test_layers_of_one_shape_are_one_kernel(self):
        """Layers of one shape have one plan and one segment, as in a run. The time counts once for each layer."""
        self.layers = self.write("twins.csv", self.TWINS)
        fronts = {name: front(rows) for name, rows in ROWS.items()}
        for budget in range(1, 16):
            report = self.plan("--total-workspace", f"{budget}MiB", "--division", "disjoint", "-o", "plan.json")
            best = min((2 * one[1] + other[1], one[0] + other[0]) for one in fronts["a"] for other in fronts["b"]
                       if one[0] + other[0] <= budget * MIB)
            self.assertEqual(best, (report["total_time_ms"], report["total_workspace_bytes"]), budget)
            a, twin, _ = report["kernels"]
            self.assertEqual((["a", "twin", "b"], [0, 0, 1]),
                             tuple([kernel[key] for kernel in report["kernels"]] for key in ("name", "segment")))
            self.assertEqual(a["chosen"], twin["chosen"])
            kernels = self.load("plan.json")["kernels"]
            self.assertEqual([0, 0, 1], [kernel["segment"] for kernel in kernels])
            self.assertEqual([kernel["chosen"]["plan"] for kernel in report["kernels"]], [kernel["plan"] for kernel in kernels])
        # Without a budget, the total counts the workspace of each layer.
        report = self.plan("--workspace-limit", "5MiB", "--division", "disjoint")
        self.assertEqual((11 * MIB, [None] * 3), (report["total_workspace_bytes"], [k["segment"] for k in report["kernels"]]))

    def test_the_fastest_undivided_engine_within_the_limit_stands_beside_each_plan(self):
        undivided = lambda report: [(one["engine"], one["workspace_bytes"], one["time_ms"]) if one else None
                                    for one in (kernel["undivided"] for kernel in report["kernels"])]
        slow, fast = [("legacy:0", 0, 40), ("legacy:0", 0, 90)], [("legacy:1", 8 * MIB, 10), ("legacy:6", 6 * MIB, 30)]
        for words, limit, expected in (
                ((), None, fast), (("--workspace-limit", "8MiB"), 8 * MIB, fast),
                (("--workspace-limit", "7MiB"), 7 * MIB, [slow[0], fast[1]]), (("--workspace-limit", "0"), 0, slow),
                # Undivided engines may use the whole budget. With disjoint segments, they may only use an equal share
                # of it.
                (("--total-workspace", "8MiB"), 8 * MIB, fast),
                (("--total-workspace", "8MiB", "--division", "disjoint"), 4 * MIB, slow),
                (("--total-workspace", "13MiB", "--division", "disjoint"), 13 * MIB // 2, [slow[0], fast[1]]),
                (("--total-workspace", "13MiB", "--division", "disjoint", "--workspace-limit", "5MiB"), 5 * MIB, slow)):
            report = self.plan(*words)
            self.assertEqual((limit, expected), (report["undivided_limit_bytes"], undivided(report)), words)
        self.measure(csv({"a": [("legacy:1", 2, 6, 4 * MIB)], "b": ROWS["b"]}, device="No whole"))
        self.assertEqual([None, fast[1]], undivided(self.plan("--device", "No whole")))

    def test_stores_that_disagree_are_told_of_and_the_first_counts(self):
        self.measure(csv(ROWS), "first")
        self.measure(csv({"a": [("legacy:0", 4, 40, 0), ("legacy:1", 4, 1, 8 * MIB)], "b": [("legacy:6", 4, 30, 7 * MIB)]}),
                     "second")
        line = "ucudnn workspace: 2 rows differ from the first store's, which count\n"
        for self.store, line, times in (("first:second", line, [10, 30]), ("second:first", line, [1, 30]),
                                        ("first:first", "", [10, 30])):
            result = self.run_command(*self.words("--json"))
            self.assertEqual((0, line), (result.returncode, result.stderr))
            self.assertEqual(times, [time for _, time in self.chosen(json.loads(result.stdout))])

    def test_table_names_kernels_choices_and_totals(self):
        text = self.output(*self.words("--total-workspace", "9MiB", "--division", "disjoint", "--desirable-set"))
        self.assertIn("Toy, cuDNN 9.19.0, policy auto, workspace limit none, 9 MiB for all, disjoint, solver exact\n", text)
        lines = [line.split() for line in text.splitlines()]
        self.assert_has(lines, ["a", "forward", "20", "2", "MiB", "4", "x", "1"], ["b", "forward", "30", "6", "MiB", "4"],
                        [">", "desirable", "30", "6", "MiB", "4"])
        self.assertEqual(["total", "50", "8", "MiB"], lines[-1])

    def test_budget_that_cannot_be_is_one_line(self):
        self.measure(csv({"a": [("legacy:1", 4, 10, 8 * MIB)], "b": ROWS["b"]}))
        self.assert_refused(self.words("--total-workspace", "7MiB"), f"'7 MiB': {MIB} bytes are missing, for a forward")
        self.assert_refused(self.words("--total-workspace", "7MiB", "--division", "disjoint"), "for a forward")
        self.assert_refused(self.words("--workspace-limit", "7MiB"), "'7 MiB': too little for a forward", str(8 * MIB))
        self.assertNotIn("caller, auto", self.run_command("workspace", "--help").stdout)

    def test_kernels_without_measurements_are_named(self):
        self.measure(csv({"a": ROWS["a"], "b": [("legacy:0", 3, 1, 0)]}))
        self.assert_refused(self.words(), "b forward", "on Toy with cuDNN 9.19.0", "`ucudnn bench`")
        self.assert_refused(self.words(ops="forward,backward_data,backward_filter"),
                            "b forward", "a backward_data", "and 2 more")

    def test_glpk_missing_is_one_line_and_the_exact_solver(self):
        words = self.words("--json", "--total-workspace", "9MiB", "--division", "disjoint")
        exact, glpk = self.output(*words), self.run_command(*words, "--solver", "glpk")
        self.assertEqual((0, exact, 1), (glpk.returncode, glpk.stdout, glpk.stderr.count("\n")), glpk.stderr)
        self.assertIn("the exact solver takes the place of glpk", glpk.stderr)

    @unittest.skipUnless("UCUDNN_TEST_GLPK" in os.environ, "built without GLPK")
    def test_glpk_finds_the_same_total(self):
        plugin = f"{os.path.dirname(self.drop_in)}/libucudnn_glpk.so"
        shutil.copy(os.environ["UCUDNN_TEST_GLPK"], plugin)
        self.addCleanup(os.remove, plugin)
        for budget in range(1, 16):
            words = ("--total-workspace", f"{budget}MiB", "--division", "disjoint")
            exact, glpk = self.plan(*words), self.plan(*words, "--solver", "glpk")
            self.assertEqual(("exact", "glpk"), (exact["solver"], glpk["solver"]))
            self.assertEqual(exact["total_time_ms"], glpk["total_time_ms"])
            self.assertLessEqual(glpk["total_workspace_bytes"], budget * MIB)


class FromARecordedStore(CommandTest):
    """Measures on the stand-in, exports the store, imports it into another store, and plans from that store."""

    def test_plans_are_the_same_bit_for_bit(self):
        self.write("layers.csv", Workspace.TWINS)
        bare, self.command = self.command, COMMAND
        self.output("bench", "--layers", "layers.csv", "--host", "--policy", "all", "--db", "recorded.db", "--json")
        self.command = bare
        self.exported("recorded.db")
        self.output("cache", "import", "out/of/rows.csv", "--db", "elsewhere.db")
        for budget in ([], ["--workspace-limit", "16KiB"], ["--total-workspace", "100KiB"],
                       ["--total-workspace", "100KiB", "--division", "disjoint"]):
            for form in (["--json", "-o", "plan.json"], ["--desirable-set"]):
                outputs = []
                for store in ("recorded.db", "elsewhere.db"):
                    outputs.append(self.output("workspace", "--layers", "layers.csv", "--db", store, *budget, *form))
                    if "-o" in form:
                        outputs[-1] += self.read("plan.json")
                self.assertEqual(outputs[0], outputs[1])


if __name__ == "__main__":
    unittest.main()
