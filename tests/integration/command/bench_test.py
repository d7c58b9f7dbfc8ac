"""Tests what `ucudnn bench` measures, stores and refuses, on the CPU stand-in."""

import json
import math
import os
import subprocess
import unittest
from fractions import Fraction

from command import COMMAND, FolderTest, measurements

LAYERS = """name,n,c,h,w,k,r,s,pad_h,pad_w
small,5,4,9,9,8,3,3,1,1
strided,4,3,15,15,8,5,5,2,2
"""
SMALL = "4,9,9,8,3,3,1,1"

# This cuDNN doubles results of cudnnConvolutionForward for fewer than 5 images. The first layer in LAYERS has 5 images,
# so only its pieces are wrong.
WRONG_CUDNN = r"""
#include <dlfcn.h>
int cudnnGetTensor4dDescriptor(void*, int*, int*, int*, int*, int*, int*, int*, int*, int*);
int cudnnConvolutionForward(void* handle, const void* alpha, void* x_descriptor, const void* x, void* w_descriptor,
                            const void* w, void* convolution, int algorithm, void* workspace, unsigned long bytes,
                            const void* beta, void* y_descriptor, void* y) {
  int (*real)(void*, const void*, void*, const void*, void*, const void*, void*, int, void*, unsigned long,
                 const void*, void*, void*) = dlsym(RTLD_NEXT, "cudnnConvolutionForward");
  int type, n, c, h, w_, strides[4];
  cudnnGetTensor4dDescriptor(x_descriptor, &type, &n, &c, &h, &w_, strides, strides + 1, strides + 2, strides + 3);
  const float twice = 2;
  return real(handle, n < 5 ? &twice : alpha, x_descriptor, x, w_descriptor, w, convolution, algorithm, workspace,
                 bytes, beta, y_descriptor, y);
}
"""

# In this cuDNN, every cudnnConvolutionBackwardFilter of images with 64 rows takes 50 ms longer. Tiles have fewer rows,
# so they are not delayed.
SLOW_CUDNN = r"""
#include <dlfcn.h>
#include <unistd.h>
int cudnnGetTensor4dDescriptor(void*, int*, int*, int*, int*, int*, int*, int*, int*, int*);
int cudnnConvolutionBackwardFilter(void* handle, const void* alpha, void* x_descriptor, const void* x, void* y_descriptor,
                                   const void* y, void* convolution, int algorithm, void* workspace, unsigned long bytes,
                                   const void* beta, void* w_descriptor, void* w) {
  int (*real)(void*, const void*, void*, const void*, void*, const void*, void*, int, void*, unsigned long,
                 const void*, void*, void*) = dlsym(RTLD_NEXT, "cudnnConvolutionBackwardFilter");
  int type, n, c, h, w_, strides[4];
  cudnnGetTensor4dDescriptor(x_descriptor, &type, &n, &c, &h, &w_, strides, strides + 1, strides + 2, strides + 3);
  if (h == 64) usleep(50000);
  return real(handle, alpha, x_descriptor, x, y_descriptor, y, convolution, algorithm, workspace, bytes, beta, w_descriptor, w);
}
"""


class Bench(FolderTest):
    def setUp(self):
        super().setUp()
        self.layers = self.write("layers.csv", LAYERS)

    def words(self, *words):
        return ("bench", "--layers", self.layers, "--host", "--db", self.store, *words)

    def bench(self, *words, **variables):
        return self.printed_json(*self.words("--json", *words), **variables)

    def test_cold_measures_and_warm_measures_nothing(self):
        cold = self.bench()
        self.assertGreater(cold["measured"], 0)
        warm = self.bench()
        self.assertEqual(0, warm["measured"])
        self.assertEqual(cold["kernels"], warm["kernels"])

    def engines_in_store(self):
        return {row["engine"].split(":")[0] for row in self.rows_in_store()} - {"sum"}

    def test_engines_are_measured_as_asked_and_caught_up_with(self):
        legacy = self.bench("--engines", "legacy")
        self.assertEqual("legacy", legacy["engines"])
        self.assertEqual({"legacy"}, self.engines_in_store())
        both = self.bench()
        self.assertEqual("both", both["engines"])
        self.assertGreater(both["measured"], 0)
        self.assertEqual({"legacy", "graph"}, self.engines_in_store())
        self.assertEqual(0, self.bench()["measured"])
        for kernel in both["kernels"]:
            self.assertTrue(kernel["undivided"]["engine"].startswith("legacy:"), kernel)
            # best_undivided separates the gain of a better engine from the gain of division.
            self.assertLessEqual(kernel["best_undivided"]["time_ms"], kernel["undivided"]["time_ms"])
            if len(kernel["divided"]["plan"]) == 1 and kernel["divided"]["plan"][0]["count"] == 1:
                self.assertEqual(kernel["best_undivided"]["time_ms"], kernel["divided"]["time_ms"])
            self.assertTrue(kernel["divided"]["verified"], kernel)

    def test_graph_engines_alone_divide_what_legacy_algorithms_run_whole(self):
        graph = self.bench("--engines", "graph", "--policy", "powerOfTwo")
        for row in self.rows_in_store():
            if row["engine"].startswith("legacy:"):
                self.assertIn(row["micro_batch"], (4, 5), row)
        self.assertIn("graph", self.engines_in_store())
        self.assertEqual(6, len(graph["kernels"]))

    def test_devices_measure_in_parallel_what_one_does(self):
        policy = ("--ops", "forward,backward_data,backward_filter", "--policy", "powerOfTwo", "--engines", "legacy")
        self.bench(*policy)
        rows = self.untimed_rows()
        self.store += ".parallel"
        result = self.run_command(*self.words("--json", *policy, "--devices", "1,0,2,5"), HOSTGPU_DEVICES="3")
        self.assertEqual((0, "ucudnn bench: device 5 is left out: there are devices 0 to 2\n"),
                         (result.returncode, result.stderr))
        report = json.loads(result.stdout)
        self.assertEqual(3, report["devices"])
        self.assertEqual(rows, self.untimed_rows())
        self.assertEqual(len(rows), report["measured"])
        self.assertEqual([(layer, op) for layer in ("small", "strided") for op in ("forward", "backward_data", "backward_filter")],
                         [(kernel["name"], kernel["op"]) for kernel in report["kernels"]])
        again = self.printed_json(*self.words("--json", *policy, "--devices", "all"), HOSTGPU_DEVICES="2")
        self.assertEqual((0, 2), (again["measured"], again["devices"]))

    def test_layer_that_no_device_can_measure_is_the_layers_own_error(self):
        self.write("layers.csv", LAYERS + "huge,64,64,256,256,64,3,3,1,1\n")
        self.store = "none"
        words = self.words("--ops", "forward", "--policy", "undivided", "--engines", "legacy")
        for devices in ("0", "0,1"):
            result = self.ended(1, *words, "--devices", devices, HOSTGPU_DEVICES="2", HOSTGPU_MEMORY="256MiB")
            self.assertEqual(1, result.stderr.count("\n"), result.stderr)
            self.assertIn("ucudnn bench: huge: ", result.stderr)

    def test_terminal_sees_progress_and_the_time_left(self):
        self.store = "none"
        for devices in ("0", "0,1"):
            seen = self.on_terminal(*self.words("--devices", devices, "--policy", "undivided"), stdout=subprocess.DEVNULL,
                                    HOSTGPU_DEVICES="2")
            several = " on 2 devices" if devices == "0,1" else ""
            self.assertRegex(seen, rf"\r\x1b\[Kmeasuring 1/6{several}: (small|strided) \w+\r")
            self.assertRegex(seen, rf"\r\x1b\[Kmeasuring 6/6{several}: (small|strided) \w+, about \d+ (s|min) left\r")
            self.assertTrue(seen.endswith("\r\x1b[K"), seen)

    def untimed_rows(self):
        timed = ("piece_ms", "samples", "verified")
        return sorted(json.dumps({key: row[key] for key in row if key not in timed}) for row in self.rows_in_store())

    def test_another_limit_is_another_choice_from_the_same_measurements(self):
        # For different limits, policy auto measures different sizes and different graph engines, since it leaves out
        # engines that cannot win within the limit. With these options, the measurements are the same for all limits.
        choice = ("--policy", "powerOfTwo", "--engines", "legacy")
        self.assertGreater(self.bench(*choice)["measured"], 0)
        self.assertEqual(0, self.bench(*choice, "--workspace-limit", "0")["measured"])

    def report(self, *kernels):
        """Writes a report with kernels of 4 images. Each of `kernels` is (operation, values that replace values of
        `columns`)."""
        columns = {"n": 4, "c": 4, "h": 9, "w": 9, "k": 8, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1, "align": 16}
        plan = [{"engine": "legacy:0", "micro_batch": 4, "count": 1, "workspace_bytes": 0, "piece_ms": None}]
        listed = [{"op": op, "problem": columns | changes, "calls": 1, "workspace_bytes": 0, "plan": plan} for op, changes in kernels]
        return self.write("report.json", {"format": "ucudnn-report", "version": 2, "device": "any", "kernels": listed})

    def test_kernels_of_a_report_are_measured_once_each(self):
        trace = self.report(("forward", {}), ("backward_data", {"k": 6}), ("forward", {}), ("forward", {"align": 4}))

        def kernels(*words):
            report = self.printed_json("bench", "--trace", trace, "--host", "--json", "--db", self.store, *words)
            return [(one["name"], one["op"], *(one["problem"].get(k) for k in ("n", "k", "align"))) for one in report["kernels"]]

        self.assertEqual([("kernel 1", "forward", 4, 8, 16), ("kernel 2", "backward_data", 4, 6, 16), ("kernel 4", "forward", 4, 8, 4)],
                         kernels())
        self.assertEqual([("kernel 2", "backward_data", 6, 6, 16)], kernels("--ops", "backward_data", "--batch", "6"))

    def test_every_layer_appears_once_per_operation(self):
        kernels = self.bench("--ops", "backward_filter,forward")["kernels"]
        self.assertEqual([(layer, op) for layer in ("small", "strided") for op in ("backward_filter", "forward")],
                         [(kernel["name"], kernel["op"]) for kernel in kernels])

    def test_divisions_cover_the_mini_batch_within_the_limit(self):
        limit = 32 << 10
        for kernel in self.bench("--policy", "all", "--workspace-limit", "32KiB")["kernels"]:
            plan = kernel["divided"]["plan"]
            self.assertEqual(kernel["problem"]["n"], self.images(kernel["problem"], plan))
            self.assertLessEqual(max(piece["workspace_bytes"] for piece in plan), limit)
            self.assertLessEqual(kernel["divided"]["time_ms"], kernel["undivided"]["time_ms"] * (1 + 1e-9))

    def images(self, problem, plan):
        """Returns how many images a plan computes. A tile counts as its fraction of the image. REQUIRES: outputs are as
        large as images."""
        return sum(run["micro_batch"] * run["count"] *
                   math.prod(Fraction(length, problem[axis]) for axis, length in run.get("tile", {}).items()) for run in plan)

    def divided_by_hand(self):
        """Makes a store in which pieces of the first layer's forward pass are the fastest. Writes layers.csv with only
        this layer."""
        rows = [("legacy:1", 5, 9, 8 << 20), ("legacy:0", 5, 9, 0)]
        rows += [(engine, n, 1, 2 << 20 if engine == "legacy:1" else 0)
                 for engine in ("legacy:0", "legacy:1") for n in (1, 2, 4)]
        self.measure(SMALL, rows)
        self.write("layers.csv", "\n".join(LAYERS.splitlines()[:2]) + "\n")

    def test_divisions_are_compared_so_that_runs_find_them_verified(self):
        self.divided_by_hand()
        kernel, = self.bench("--ops", "forward", "--policy", "powerOfTwo", "--engines", "legacy")["kernels"]
        self.assertTrue(kernel["divided"]["verified"])
        pieces = {(piece["engine"], piece["micro_batch"]) for piece in kernel["divided"]["plan"]}
        self.assertGreater(sum(piece["count"] for piece in kernel["divided"]["plan"]), 1)
        self.assertEqual(pieces, {(row["engine"], row["micro_batch"]) for row in self.rows_in_store() if row["verified"]})

    def cudnn_with(self, source):
        """Builds a cuDNN that has the functions in `source` and passes all other calls to the stand-in. Returns the
        variables that make a process use it."""
        host = os.path.join(os.path.dirname(os.path.dirname(COMMAND)), "lib/ucudnn/host")
        # The new cuDNN calls the stand-in under the name librealdnn.so. It is linked with an empty library of this
        # name, so that no symbol versions are required. The empty library is then replaced by a copy of the stand-in
        # whose soname is changed.
        real = self.build_library("", "librealdnn.so")
        built = self.build(source, "other_cudnn.so", "-D_GNU_SOURCE", "-shared",
                           f"-Wl,-soname,libcudnn.so.9,-rpath,{self.folder},--no-as-needed", real)
        with open(f"{host}/libcudnn.so.9", "rb") as file:
            self.write(real, file.read().replace(b"libcudnn.so.9\0", b"librealdnn.so\0"))
        return {"UCUDNN_REAL_CUDNN": built, "LD_LIBRARY_PATH": host}

    def image_by_hand(self):
        """Makes a store in which the fastest engine exceeds the limit. legacy:0 fits the limit, but takes 1000 times as
        long. SLOW_CUDNN makes undivided legacy:0 slow as well, so tiles also win when ucudnn times them on the whole
        tensors."""
        self.write("layers.csv", "name,n,c,h,w,k,r,s,pad_h,pad_w\nimage,1,32,64,64,32,3,3,1,1\n")
        self.measure("32,64,64,32,3,3,1,1", [("legacy:0", 1, 1000, 0), ("legacy:1", 1, 1, 8 << 20)], "backward_filter")

    def test_tiles_of_a_single_image_bring_its_fastest_engine_under_the_limit(self):
        self.image_by_hand()
        words = ("bench", "--layers", self.layers, "--db", self.store, "--ops", "backward_filter", "--workspace-limit", "512KiB")
        slow = self.cudnn_with(SLOW_CUDNN)
        kernel, = self.printed_json(*words, "--json", **slow)["kernels"]
        plan = kernel["divided"]["plan"]
        self.assertEqual((1, True), (self.images(kernel["problem"], plan), kernel["divided"]["verified"]))
        self.assertEqual(("h-", "h+"), (plan[0]["border"], plan[-1]["border"]))
        self.assertTrue(all(run["workspace_bytes"] <= 512 << 10 for run in plan), plan)
        # Edge tiles have padding on one side only, which descriptors of the legacy API cannot express.
        self.assertTrue(all(run["engine"].startswith("graph:") for run in (plan[0], plan[-1])), plan)
        self.assertEqual(kernel["divided"]["time_ms"], sum(run["piece_ms"] * run["count"] for run in plan))
        again = self.printed_json(*words, "--json", **slow)
        self.assertEqual((0, kernel), (again["measured"], again["kernels"][0]))
        table = self.run_command(*words, **slow).stdout
        self.assertRegex(table.splitlines()[-1], r" h \d+x\d+ \+ 2 edges +graph:")
        # The exported rows of the plan's tiles are verified. Edge tiles have separate rows.
        tiles = [row for row in self.exported() if row["verified"] == "1"]
        pads = {(row["pad_h"], row["pad_h_post"] or row["pad_h"]) for row in tiles}
        self.assertEqual({("1", "0"), ("0", "0"), ("0", "1")}, pads)
        # Each of these options rules tiles out.
        for policy in (("--policy", "undivided"), ("--engines", "legacy"), ("--tiles", "off")):
            kernel, = self.printed_json(*words, "--json", *policy, **slow)["kernels"]
            self.assertEqual("legacy:0", kernel["divided"]["plan"][0]["engine"])

    def test_division_that_computes_something_else_is_told_of(self):
        self.divided_by_hand()
        result = self.ended(1, "bench", "--layers", self.layers, "--ops", "forward", "--policy", "powerOfTwo", "--json",
                            "--engines", "legacy", "--db", self.store, **self.cudnn_with(WRONG_CUDNN))
        self.assertIn("ucudnn bench: small forward: a division is wrong and not used: 4 + 1: ", result.stderr)
        kernel, = json.loads(result.stdout)["kernels"]
        if kernel["divided"]:
            self.assertEqual([5], [piece["micro_batch"] for piece in kernel["divided"]["plan"]])
        self.assertEqual([], [row for row in self.rows_in_store() if row["verified"]])

    def kernels_of(self, net, batch):
        return self.printed_json("bench", "--net", net, "--batch", batch, "--ops", "forward", "--policy", "undivided",
                                 "--host", "--json", "--db", self.store)["kernels"]

    def test_network_gives_its_layers(self):
        kernels = self.kernels_of("alexnet", "1")
        self.assertEqual(["conv1", "conv2", "conv3", "conv4", "conv5"], [kernel["name"] for kernel in kernels])
        self.assertEqual([64, 192, 384, 256, 256], [kernel["problem"]["k"] for kernel in kernels])

    def test_network_file_gives_its_layers(self):
        nodes = [{"name": "data", "op": "input", "channels": 4, "extents": [9, 9]},
                 {"name": "conv", "op": "convolution", "inputs": ["data"], "filters": 8, "window": [3, 3],
                  "extra_pad": [1, 0]},
                 {"name": "up", "op": "transposed_convolution", "inputs": ["conv"], "filters": 4, "window": [2, 2],
                  "stride": [2, 2]}]
        kernels = self.kernels_of(self.write("net.json", {"format": "ucudnn-net", "version": 1, "nodes": nodes}), "2")
        self.assertEqual([("conv", "forward", 10, 9), ("up", "backward_data", 16, 14)],
                         [(k["name"], k["op"], k["problem"]["h"], k["problem"]["w"]) for k in kernels])

    def test_batch_takes_the_place_of_the_files(self):
        self.assertEqual({7}, {kernel["problem"]["n"] for kernel in self.bench("--batch", "7", "--ops", "forward")["kernels"]})

    def test_undivided_policy_measures_the_whole_batch_only(self):
        for kernel in self.bench("--policy", "undivided")["kernels"]:
            self.assertEqual(1, len(kernel["divided"]["plan"]))

    def test_cliff_runs_each_kernel_in_one_byte_less(self):
        report = self.bench("--cliff", "--policy", "all")
        self.assertEqual(("ucudnn-cliff", 2), (report["format"], report["version"]))
        self.assertEqual(6, len(report["kernels"]))
        sums = {"best": 0, "real": 0, "ucudnn": 0}
        for kernel in report["kernels"]:
            best = kernel["best"]
            self.assertEqual([(kernel["problem"]["n"], 1)], [(p["micro_batch"], p["count"]) for p in best["plan"]])
            self.assertEqual(kernel["limit_bytes"], best["workspace_bytes"] - 1 if best["workspace_bytes"] else None)
            for who in ("real", "ucudnn"):
                under = kernel[who]
                self.assertEqual(kernel["limit_bytes"] is None, under is None)
                sums[who] += (under or best)["run_ms"]
                if under is None:
                    continue
                self.assertGreater(under["run_ms"], 0)
                self.assertLessEqual(under["workspace_bytes"], kernel["limit_bytes"])
                self.assertEqual(kernel["problem"]["n"], self.images(kernel["problem"], under["plan"]), under["plan"])
                self.assertAlmostEqual(under["planned_ms"], sum(p["piece_ms"] * p["count"] for p in under["plan"]))
            if kernel["real"]:
                self.assertEqual(1, kernel["real"]["plan"][0]["count"])
                # The real library's plan is undivided and comes from the same measurements, so ucudnn could choose this
                # plan, too.
                self.assertLessEqual(kernel["ucudnn"]["planned_ms"], kernel["real"]["planned_ms"] * (1 + 1e-9))
            sums["best"] += best["run_ms"]
        total = report["total"]
        for who, ms in sums.items():
            self.assertAlmostEqual(ms, total[f"{who}_ms"])
        self.assertAlmostEqual(sums["real"] / sums["best"], total["real_ratio"])
        self.assertAlmostEqual(sums["ucudnn"] / sums["best"], total["ucudnn_ratio"])
        self.assertGreater(report["measured"], 0)
        # A second run with --cliff finds all measurements in the store.
        self.assertEqual(0, self.bench("--cliff", "--policy", "all")["measured"])

    def test_cliff_counts_grids_as_divisions(self):
        """If the store has rows for several grids of tiles, ucudnn runs the fastest grid that fits within the limit."""
        self.image_by_hand()
        limit = 512 << 10
        # With option --host, the command would use the stand-in in place of the cuDNN with SLOW_CUDNN's functions.
        cliff = ("bench", "--layers", self.layers, "--db", self.store, "--cliff", "--ops", "backward_filter")
        words = (*cliff, "--workspace-limit", "512KiB")
        slow = self.cudnn_with(SLOW_CUDNN)
        kernel, = self.printed_json(*words, "--json", **slow)["kernels"]
        self.assertEqual((8 << 20, limit), (kernel["best"]["workspace_bytes"], kernel["limit_bytes"]))
        self.assertEqual(("legacy:0", 1000), (kernel["real"]["plan"][0]["engine"], kernel["real"]["planned_ms"]))
        self.assertGreater(kernel["real"]["run_ms"], 50)
        plan = kernel["ucudnn"]["plan"]
        self.assertEqual((1, "h-", "h+"), (self.images(kernel["problem"], plan), plan[0]["border"], plan[-1]["border"]))
        self.assertLess(kernel["ucudnn"]["run_ms"], 1000)
        engines = {run["engine"] for run in plan}
        least = {}  # {(rows computed, (padding above, below)): least time}
        for row in self.exported():
            pads = (int(row["pad_h"]), int(row["pad_h_post"] or row["pad_h"]))
            if row["engine"] in engines and int(row["workspace_bytes"]) <= limit:
                kind = (int(row["h"]) - 2 + sum(pads), pads)
                least[kind] = min(float(row["time_ms"]), least.get(kind, math.inf))
        sums = {parts: sum(count * least.get((64 // parts, pads), math.inf)
                           for count, pads in ((1, (1, 0)), (parts - 2, (0, 0)), (1, (0, 1))) if count)
                for parts in (2, 4, 8, 16, 32, 64)}
        self.assertGreater(sum(math.isfinite(ms) for ms in sums.values()), 1)
        self.assertAlmostEqual(min(sums.values()), kernel["ucudnn"]["planned_ms"])
        self.assertEqual(sum(run["count"] for run in plan), min(sums, key=sums.get))
        self.assertRegex(self.run_command(*words, **slow).stdout,
                         r"within 512 KiB: .*\n(.*\n)*image +backward_filter +8 MiB .* h \d+x\d+ \+ 2 edges\n")
        whole, = self.printed_json(*words, "--json", "--tiles", "off", **slow)["kernels"]
        self.assertEqual(whole["real"]["plan"], whole["ucudnn"]["plan"])
        fits, = self.printed_json(*cliff, "--json", "--workspace-limit", "8MiB", **slow)["kernels"]
        self.assertEqual((None, None, None), (fits["limit_bytes"], fits["real"], fits["ucudnn"]))

    def measure(self, shape, rows, op="forward"):
        """Stores the times and workspaces in `rows` for a kernel's engines on the stand-in. A stored workspace may be
        larger than the engine's real need, but not smaller."""
        report = self.printed_json("bench", "--layers", self.layers, "--host", "--json", "--db", "platform.db")
        self.import_rows(measurements(shape, rows, op, f"{report['cudnn']},{report['driver']},{report['device']}"))

    def cliff_from(self, rows):
        """Stores `rows` as measurements of the first layer. Returns the line that --cliff prints for this layer."""
        self.measure(SMALL, rows)
        text = self.output(*self.words("--cliff", "--ops", "forward", "--policy", "powerOfTwo"))
        return next(line for line in text.splitlines() if line.startswith("small"))

    def test_cliff_divides_where_undivided_is_slower(self):
        line = self.cliff_from([("legacy:1", 5, 1, 8 << 20), ("legacy:0", 5, 9, 0), ("legacy:1", 4, 0.8, 4 << 20),
                                ("legacy:1", 2, 0.5, 3 << 20), ("legacy:1", 1, 0.3, 2 << 20)])
        self.assertRegex(line, r"^small +forward +8 MiB +.* 4 \+ 1$")
        self.assertEqual(2, line.count("x "), line)

    def test_cliff_of_an_engine_without_workspace_is_none(self):
        line = self.cliff_from([("legacy:1", 5, 9, 8 << 20), ("legacy:0", 5, 1, 0), ("legacy:0", 4, 3, 0),
                                ("legacy:0", 2, 5, 0), ("legacy:0", 1, 3, 0)])
        self.assertRegex(line, r"^small +forward +0 B .*no cliff")

    def test_table_names_what_was_measured(self):
        self.store = "none"
        lines = self.output(*self.words("--ops", "forward")).splitlines()
        self.assertIn("stand-in", lines[0])
        self.assertEqual(["small", "strided"], [line.split()[0] for line in lines[3:]])

    def test_table_tells_the_gains_of_a_better_engine_and_of_division_apart(self):
        self.divided_by_hand()
        self.assertRegex(self.output(*self.words("--ops", "forward", "--policy", "powerOfTwo", "--engines", "legacy")),
                         r"\nsmall +forward +9 +9 +2 +1\.00x +4\.50x +(0 B|2 MiB) +4 \+ 1 +IMPLICIT_\w+ \(legacy:[01]\)")


if __name__ == "__main__":
    unittest.main()
