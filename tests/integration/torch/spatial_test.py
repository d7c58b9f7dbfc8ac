"""Tests the parts of ucudnn.spatial that need no torch: grids, layouts, geometry, routes of convolutions by backend,
and refusals. Also tests libucudnn's answers, if UCUDNN_TEST_LIBRARY names it."""
import ast
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import time
import types
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from plain_geometry import geometries  # noqa: E402
from ucudnn.spatial import backends, geometry, vouched  # noqa: E402
from ucudnn.spatial.errors import NotSupported, names_step  # noqa: E402
from ucudnn.spatial.grid import Grid, divided, owned, stripes  # noqa: E402
from ucudnn.spatial.layout import Extents, Layout  # noqa: E402
from ucudnn.spatial.waiting import Waiting, late, patience  # noqa: E402


class Grids(unittest.TestCase):
    def test_last_axis_runs_fastest(self):
        grid = Grid("n2h2w3")
        self.assertEqual(12, grid.ranks)
        self.assertEqual((1, (0, 1, 0)), grid.place_of(9))
        for rank in range(12):
            self.assertEqual(rank, grid.rank_of(*grid.place_of(rank)))

    def test_lines_are_those_who_differ_along_their_axes_alone(self):
        lines = Grid("n2h2w2").lines()
        self.assertEqual([[0, 2], [1, 3], [4, 6], [5, 7]], lines[(1,)])
        self.assertEqual([[0, 1], [2, 3], [4, 5], [6, 7]], lines[(2,)])
        self.assertEqual([[0, 1, 2, 3], [4, 5, 6, 7]], lines[(1, 2)])

    def test_a_mesh_is_a_grid_by_its_names_in_their_order(self):
        self.assertEqual(Grid("n2h3"), Grid.of_mesh(("n", "h"), (2, 3), range(6)))
        self.assertEqual(Grid("h2"), Grid("n1h2"))
        self.assertNotEqual(Grid("h2w3"), Grid("h3w2"))
        for names, ranks in ((("h", "n"), range(6)), (("x", "y"), range(6)), (("n", "h"), (0, 2, 4, 1, 3, 5)), ((), ()),
                             (None, ())):
            with self.assertRaisesRegex(ValueError, "spatial grid", msg=names):
                Grid.of_mesh(names, (2, 3), ranks)

    def test_what_is_no_grid_is_refused(self):
        for text in ("", "h", "h0", "h4 ", "x2", "h2h2", "4h"):
            with self.assertRaises(ValueError, msg=text):
                Grid(text)

    def test_first_stripes_are_the_larger_ones(self):
        self.assertEqual((4, 3, 3), divided(10, 3))
        self.assertEqual([(0, 4), (4, 7), (7, 10)], owned((4, 3, 3)))

    def test_stripes_of_multiples_leave_the_rest_to_the_last(self):
        self.assertEqual((26, 26, 24, 23), stripes(1, 99, 4, multiple=2))
        self.assertEqual((64, 64, 32, 32), stripes(1, 192, 4, multiple=32))
        self.assertEqual((2, 1), stripes(1, 3, 2))
        with self.assertRaisesRegex(NotSupported, "h: 15 rows are not 4 stripes of multiples of 5"):
            stripes(1, 15, 4, multiple=5)


class Layouts(unittest.TestCase):
    """A layout has 8 rows, in two stripes of 4 unless a test says otherwise. Shapes are the whole tensor's."""

    def layout(self, rows=(4, 4), part=0):
        return Layout([(), (), ((1, rows[part]),), ()], {1: rows})

    def test_positions_are_flattened_and_come_back(self):
        for rows in ((4, 4), (7, 1), (1, 7)):
            for part in (0, 1):
                layout = self.layout(rows, part)
                flat = layout.reshaped((2, 3, 8, 8), (2, 3, 64))
                self.assertEqual(((), (), ((1, rows[part]), (None, 8))), flat.dims)
                swapped = flat.permuted((0, 2, 1)).reshaped((2, 64, 3), (2, 64, 3, 1))
                self.assertEqual(((1, rows[part]), (None, 8)), swapped.dims[1])
                self.assertEqual(layout, flat.reshaped((2, 3, 64), (2, 3, 8, 8)))

    def test_channels_are_split_beside_a_cut_dimension(self):
        self.assertEqual(((), (), (), ((1, 4),), ()), self.layout().reshaped((2, 6, 8, 8), (2, 2, 3, 8, 8)).dims)

    def test_an_extent_of_one_beside_a_cut_dimension_takes_nothing_of_it(self):
        for rows in ((4, 4), (7, 1)):
            for part in (0, 1):
                layout, own = self.layout(rows, part), ((1, rows[part]),)
                self.assertEqual(((), (), (), own, ()), layout.reshaped((2, 3, 8, 8), (2, 3, 1, 8, 8)).dims)
                self.assertEqual(((), (), own, (), ()), layout.reshaped((2, 3, 8, 8), (2, 3, 8, 1, 8)).dims)

    def test_rows_are_taken_apart_where_a_shape_says_so_and_each_part_has_whole_groups(self):
        found = self.layout().reshaped((2, 3, 8, 8), (2, 3, 4, 2, 8), rows=(2,))
        self.assertEqual(((), (), ((1, 2),), (), ()), found.dims)
        self.assertEqual((2, 2), tuple(found.extents[1]))
        with self.assertRaisesRegex(NotSupported, "not multiples of 2"):
            self.layout((7, 1)).reshaped((2, 3, 8, 8), (2, 3, 4, 2, 8), rows=(2,))
        with self.assertRaisesRegex(NotSupported, "not multiples of 4; 2 such groups are fewer than 4 ranks"):
            self.layout((2, 2, 2, 2)).reshaped((2, 3, 8, 8), (2, 3, 2, 4, 8), rows=(2,))

    def test_positions_taken_apart_are_refused(self):
        with self.assertRaises(NotSupported):
            self.layout().reshaped((2, 3, 8, 8), (2, 3, 4, 16))
        with self.assertRaises(NotSupported):
            self.layout().reshaped((2, 3, 8, 8), (3, 128), rows=(0,))

    def test_flattened_images_are_one_however_they_came_together(self):
        once, twice = self.layout().reshaped((2, 3, 8, 8), (6, 8, 8)), self.layout().reshaped((2, 3, 8, 8), (2, 3, 64))
        once = once.reshaped((6, 8, 8), (48, 8))
        twice = twice.reshaped((2, 3, 64), (6, 64)).reshaped((6, 64), (48, 8), rows=(0,))
        self.assertEqual((((None, 6), (1, 4)), ()), once.dims)
        self.assertEqual(once, twice)


class Sizes(unittest.TestCase):
    """If a stride is refused, the message names sizes that work."""

    def after(self, *totals, parts=2):
        """Returns the Extents of an image that had the heights `totals` on its way through a network, in equal
        stripes."""
        rows = [tuple(total // parts for _ in range(parts)) for total in totals]
        extents = Extents(rows[0], rows[0])
        for each in rows[1:]:
            extents = extents.followed_by(each)
        return extents

    def test_resnet_at_224_names_256(self):
        for extents, multiple in ((self.after(224, 112, 56, 28, 14), 32), (self.after(224, 112, 56, 28, parts=4), 16)):
            self.assertIn(f"multiply to {multiple}", extents.next_size(2))
            self.assertIn("is 256", extents.next_size(2))
            self.assertIn(f"of 224, shard(..., multiple={multiple})", extents.next_size(2))

    def test_what_was_enlarged_has_fewer_strides(self):
        self.assertIn("multiply to 4, and the next size that they divide in 2 equal stripes is 40",
                      self.after(36, 18, 36, 18).next_size(2))

    def test_strides_before_are_kept(self):
        self.assertIn("multiply to 6", self.after(20, 10, 20).next_size(3))

    def test_stripes_of_multiples_are_named_where_there_are_enough_of_them(self):
        self.assertNotIn("shard", self.after(20, 10).next_size(4))

    def test_padding_does_not_count(self):
        padded = Extents((10, 10), (10, 10)).followed_by((11, 11), 1)
        self.assertIn("multiply to 4, and the next size that they divide in 2 equal stripes is 24", padded.next_size(4))
        dims = [(), (), ((1, 11),)]
        self.assertIn("is 24", Layout(dims, {1: padded}, {1: (1, 1)}).extents[1].next_size(4))
        self.assertEqual("", Layout(dims, {1: padded}).extents[1].next_size(4))

    def test_nothing_is_said_where_it_is_not_known(self):
        self.assertEqual("", Extents((7, 7)).next_size(2))
        self.assertEqual("", Extents((7, 9, 4), (14, 14, 12)).next_size(2))


class Windows(unittest.TestCase):
    def test_same_padding_reads_one_row_of_each_neighbour(self):
        for each in geometries():
            read = geometry.windows(each, 1, geometry.Window(3), (4, 4, 4), 1, 1)
            self.assertEqual(((4, 4, 4), ((-1, 5), (3, 9), (7, 13))), (read.outputs, read.reads))
            self.assertTrue(read.is_own_call)
            self.assertEqual(((0, 5), (3, 9), (7, 12)), read.needed)

    def test_a_stride_reads_before_alone(self):
        for each in geometries():
            read = geometry.windows(each, 1, geometry.Window(3, 2), (4, 4), 1, 1)
            self.assertEqual(((2, 2), ((-1, 4), (3, 8))), (read.outputs, read.reads))

    def test_padding_behind_alone_is_seen_in_a_mirror(self):
        """The geometry of F.pad(0, 1) followed by a filter of 3 with stride 2 and without padding."""
        for each in geometries():
            read = geometry.windows(each, 1, geometry.Window(3, 2), (4, 4), 0, 1)
            self.assertEqual(((2, 2), ((0, 5), (4, 9))), (read.outputs, read.reads))
            self.assertEqual(((0, 5), (4, 8)), read.needed)

    def test_an_even_window_with_same_padding_reads_as_it_is_padded(self):
        for each in geometries():
            for front, back in ((1, 2), (2, 1), (0, 3), (3, 0)):
                read = geometry.windows(each, 1, geometry.Window(4), (4, 3, 4), front, back)
                self.assertEqual(((4, 3, 4), ((-front, 4 + back), (4 - front, 7 + back), (7 - front, 11 + back))),
                                 (read.outputs, read.reads))
                self.assertEqual(((0, 4 + back), (4 - front, 7 + back), (7 - front, 11)), read.needed)
            self.assertEqual((4, 3), geometry.windows(each, 1, geometry.Window(2, dilation=3), (4, 3), 1, 2).outputs)

    def test_windows_with_little_padding_leave_less_to_the_last_part(self):
        for each in geometries():
            for window, pad, outputs, reads in (
                    (geometry.Window(3), 0, (16, 14), ((0, 18), (16, 32))),
                    (geometry.Window(11, 4), 2, (4, 3), ((-2, 21), (14, 33))),
                    (geometry.Window(4), 1, (16, 15), ((-1, 18), (15, 33))),
                    (geometry.Window(3, 2), 0, (8, 7), ((0, 17), (16, 31))),
                    (geometry.Window(3, dilation=4), 0, (16, 8), ((0, 24), (16, 32)))):
                read = geometry.windows(each, 1, window, (16, 16), pad, pad)
                self.assertEqual((outputs, reads, False), (read.outputs, read.reads, read.is_own_call), str(window))

    def test_windows_that_leave_nothing_to_the_last_part_are_refused(self):
        for each in geometries():
            for window, pads in ((geometry.Window(5), (0, 0)), (geometry.Window(4), (0, 0)), (geometry.Window(3), (2, 2)),
                                 (geometry.Window(4), (2, 3)), (geometry.Window(1), (1, 0))):
                with self.assertRaises(NotSupported, msg=str(window)):
                    geometry.windows(each, 1, window, (16, 3), *pads)
            with self.assertRaisesRegex(NotSupported, "leave none to the last of 4 parts, of 1 rows: use larger images"):
                geometry.windows(each, 1, geometry.Window(3, 2), (2, 2, 2, 1), 0, 0)

    def test_an_odd_stripe_under_a_stride_names_its_extent(self):
        for each in geometries():
            with self.assertRaisesRegex(NotSupported, "h: .*extent 7.*stride 2"):
                geometry.windows(each, 1, geometry.Window(3, 2), (7, 7), 1, 1)
            # The message names the stride, although the padding is wrong as well.
            with self.assertRaisesRegex(NotSupported, "h: .*extent 7.*stride 2"):
                geometry.windows(each, 1, geometry.Window(3, 2), (7, 7), 0, 0)

    def test_random_windows_read_what_one_device_reads(self):
        for each in geometries():
            exact = sum(self.compare(each, geometry.Window(k, s), extents, front, back)
                        for k in range(1, 6) for s in range(1, 4) for front in range(4) for back in range(4)
                        for extents in ((6, 12, 6), (6, 6, 5), (12, 6, 1)))
            self.assertGreater(exact, 200)

    def compare(self, each, window, extents, front, back):
        try:
            read = geometry.windows(each, 1, window, extents, front, back)
        except NotSupported:
            return False
        total = sum(extents)
        self.assertEqual((total + front + back - window.extent) // window.stride + 1, sum(read.outputs))
        self.assertGreaterEqual(min(read.outputs), 1)
        for (first, last), (begin, end), needed, own in zip(owned(read.outputs), read.reads, read.needed, owned(extents)):
            self.assertEqual((first * window.stride - front, (last - 1) * window.stride - front + window.extent), (begin, end))
            self.assertEqual((min(own[0], max(begin, 0)), max(own[1], min(end, total))), needed)
        return True

    def test_transposed_convolutions_give_a_stride_of_rows_for_each(self):
        for each in geometries():
            self.assertEqual(((8, 8), ((0, 4), (4, 8))),
                             geometry.transposed_windows(each, 1, geometry.Window(2, 2), (4, 4), 0))
            self.assertEqual(((8, 8), ((0, 5), (3, 8))),
                             geometry.transposed_windows(each, 1, geometry.Window(4, 2, 1), (4, 4), 0))
            self.assertEqual(((7, 8), ((0, 5), (3, 8))),
                             geometry.transposed_windows(each, 1, geometry.Window(3, 2, 1), (4, 4), 0))
            self.assertEqual(((9, 9), ((0, 5), (3, 8))),
                             geometry.transposed_windows(each, 1, geometry.Window(4, 2), (4, 4), 0))


class Bindings(unittest.TestCase):
    """Tests calls of libucudnn's functions, in a separate process, and the errors that the module raises if they
    fail."""

    PROGRAM = """
from ucudnn.spatial.geometry import Library, Window
library = Library()
library.sum_nothing()
library.split_thread(False)
library.split_thread(True)
print(library.rows(0, Window(3, pad=1), (4, 4), 0).needed)
"""

    def refusing(self, status, why):
        """Returns a Library whose functions return `status`, with `why` as the last error."""
        library = geometry.Library.__new__(geometry.Library)
        library.library = types.SimpleNamespace(
            _name="libucudnn.so.1", ucudnnSpatialSetReduce=lambda sums: status,
            ucudnnSpatialEnableThread=lambda split: status, ucudnnGetLastError=lambda: why.encode())
        return library

    def test_the_library_takes_what_it_is_told_with_a_grid_and_without(self):
        path = os.environ.get("UCUDNN_TEST_LIBRARY")
        if not path:
            self.skipTest("UCUDNN_TEST_LIBRARY names no libucudnn")
        stand_in = pathlib.Path(path).resolve().parent / "ucudnn/host/libcudnn.so.9"
        rest = {key: value for key, value in os.environ.items() if key not in ("UCUDNN_SPATIAL", "RANK", "WORLD_SIZE")}
        rest |= {"UCUDNN_LIBRARY": path, "UCUDNN_REAL_CUDNN": str(stand_in), "PYTHONPATH": os.path.join(ROOT, "python")}
        for variables in ({}, {"UCUDNN_SPATIAL": "h2", "RANK": "0", "WORLD_SIZE": "2"}):
            with self.subTest(variables):
                result = subprocess.run([sys.executable, "-B", "-c", self.PROGRAM], env=rest | variables, capture_output=True,
                                        text=True)
                self.assertEqual((0, "(0, 5)\n"), (result.returncode, result.stdout), result.stderr)

    def test_a_library_that_has_summed_before_is_an_error_with_its_reason(self):
        library = self.refusing(3000, "ucudnnSpatialSetReduce: a gradient of a split convolution has run before")
        with self.assertRaisesRegex(NotSupported, r"ucudnnSpatialSetReduce\(none\).*3000.*a gradient .* has run before"):
            library.sum_nothing()

    def test_a_thread_that_cannot_be_taken_out_is_an_error(self):
        for split in (False, True):
            with self.assertRaisesRegex(NotSupported, "ucudnnSpatialEnableThread fails with status 1001"):
                self.refusing(1001, "no real cuDNN 9 was found").split_thread(split)

    def test_an_older_library_is_named(self):
        library = self.refusing(0, "")
        del library.library.ucudnnSpatialSetReduce
        with self.assertRaisesRegex(NotSupported, "libucudnn.so.1 has no ucudnnSpatialSetReduce: it is older"):
            library.sum_nothing()


class Backends(unittest.TestCase):
    def test_calls_of_cudnn_stay_where_ucudnn_can_exchange_under_them(self):
        for backend in ("Cudnn", "CudnnTranspose"):
            self.assertEqual("ucudnn", backends.route(backend, is_cuda=True))
            self.assertEqual("exchange", backends.route(backend, is_cuda=True, is_aligned=False))

    def test_other_kernels_run_on_rows_that_were_fetched(self):
        for backend in ("CudaDepthwise2d", "CudaDepthwise3d", "Slow2d", "Slow3d", "SlowTranspose2d", "SlowTranspose3d",
                        "SlowDilated2d", "SlowDilated3d", "Mkldnn", "NnpackSpatial", "Winograd3x3Depthwise"):
            for is_cuda in (False, True):
                self.assertEqual("exchange", backends.route(backend, is_cuda))

    def test_what_is_not_known_is_refused(self):
        for backend in ("Miopen", "MiopenDepthwise", "MiopenTranspose", "Mps", "SomethingNew"):
            self.assertEqual("refuse", backends.route(backend, is_cuda=True))

    def test_without_a_gpu_nothing_is_cudnns(self):
        for backend in ("???", "MkldnnTranspose", "SomethingNew"):  # torch calls oneDNN's transposed convolutions "???"
            self.assertEqual("exchange", backends.route(backend, is_cuda=False))

    def test_nothing_to_compute_is_nothing_to_exchange(self):
        self.assertEqual("local", backends.route("Empty"))


class Verdicts(unittest.TestCase):
    def test_every_unknown_module_is_listed(self):
        found = vouched.verdict([("", "program.Net", False), ("a", "torch.nn.modules.conv.Conv2d", False),
                                 ("b", "torch.nn.modules.rnn.LSTM", False), ("c", "torch.nn.modules.batchnorm.SyncBatchNorm",
                                                                             False)])
        self.assertEqual(["", "b", "c"], [path for path, _, _ in found])
        for name in ("program.Net", "LSTM: recurrent", "use BatchNorm"):
            self.assertIn(name, vouched.message(found))

    def test_a_class_is_trusted_by_its_full_or_its_own_name(self):
        for trust in (["Net"], ["program.Net"]):
            self.assertEqual([], vouched.verdict([("", "program.Net", False)], trust))

    def test_others_code_was_read_in_the_releases_that_the_tests_run(self):
        setup = pathlib.Path(ROOT, "tools/setup").read_text()
        for package, (version, _) in vouched.READ.items():
            self.assertIn(f" {package}=={version} ", setup)

    def test_a_release_that_nobody_read_is_told(self):
        names = ["torchvision.models.resnet.ResNet", "torch.nn.modules.conv.Conv2d"]
        for installed, expected in (("0.29.2", []), ("0.24.1+cpu", []), ("0.29.10", ["torchvision"]),
                                    ("1.0a1", ["torchvision"])):
            with mock.patch("importlib.metadata.version", lambda _: installed):
                self.assertEqual(expected, [package for package, _, _ in vouched.newer(names)], installed)
        self.assertEqual([], vouched.newer(["program.Net"]))

    def test_a_wrapper_is_never_trusted(self):
        name = "torch.nn.parallel.distributed.DistributedDataParallel"
        [(_, _, why)] = vouched.verdict([("", name, False)], [name])
        self.assertIn("convert the model inside of it first", why)

    def test_a_library_that_cannot_be_loaded_says_what_to_set(self):
        with self.assertRaisesRegex(OSError, "/nowhere/libucudnn.so.1 cannot be loaded .*UCUDNN_LIBRARY"):
            geometry.Library("/nowhere/libucudnn.so.1")

    def test_a_subclass_of_a_known_layer_is_not_known(self):
        self.assertIsNotNone(vouched.reason("program.Conv2d"))

    def test_what_draws_in_training_is_named(self):
        for name in ("torch.nn.modules.dropout.Dropout", "torch.nn.modules.activation.RReLU"):
            self.assertIsNone(vouched.reason(name, is_drawing=False))
            self.assertIn("not equal to one process", vouched.reason(name, is_drawing=True))


class Store(dict):
    """Has the functions that Waiting calls on torch.distributed's stores."""
    set = dict.__setitem__

    def check(self, keys):
        return all(key in self for key in keys)


class Waits(unittest.TestCase):
    def waiting(self, rank, store, seconds=0.1):
        return Waiting(rank, 3, store, "test", seconds)

    def failed(self, rank, store, members, after):
        """Returns the message of a wait for `members` that failed after `after` seconds."""
        waiting = self.waiting(rank, store)
        self.addCleanup(waiting.close)
        wait = waiting.begin("rows", members)
        wait.began -= after
        return waiting.why(wait)

    def test_time_is_in_seconds_above_0(self):
        self.assertEqual(2.5, patience(" 2.5 "))
        for text in ("0", "-1", "soon", "10s", "inf", "nan", "1e9", ""):
            with self.assertRaisesRegex(ValueError, "UCUDNN_SPATIAL_TIMEOUT", msg=text):
                patience(text)

    def test_who_is_late_is_found_behind_those_who_wait(self):
        self.assertEqual([1], late(0, {0: [1]}))
        self.assertEqual([2], late(0, {0: [1], 1: [0, 2]}))
        self.assertEqual([2, 3], late(0, {0: [1, 3], 1: [0, 2]}))
        self.assertEqual([], late(0, {0: [1], 1: [0]}))

    def test_each_rank_says_who_did_not_come(self):
        store = Store()
        self.assertEqual("rank 1 did not come", self.failed(0, store, [1], after=0.1))
        self.assertEqual("rank 1 did not come", self.failed(2, store, [0, 1], after=0.04))
        self.assertEqual("rank 1 came too late, ranks [0, 2] had waited for it", self.failed(1, store, [0, 2], after=0))

    def test_ranks_that_wait_for_each_other_are_told_so(self):
        store = Store()
        self.failed(0, store, [1], after=0.1)
        self.assertIn("rank 0 waited for something else meanwhile (rank 0 for rows; rank 1 for rows)",
                      self.failed(1, store, [0], after=0.1))

    def test_nobody_is_named_where_all_fail_at_once(self):
        self.assertEqual("", self.failed(0, Store(), [1], after=0))

    def test_a_store_that_ended_is_no_error(self):
        class Ended(Store):
            def check(self, keys):
                raise RuntimeError("Broken pipe")
        self.assertEqual("rank 1 did not come", self.failed(0, Ended(), [1], after=0.1))

    def test_a_long_wait_is_told_to_the_others_until_it_ends(self):
        store = Store()
        waiting = self.waiting(0, store)
        self.addCleanup(waiting.close)
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            waiting.begin("rows", [1])
            self.until(lambda: "rank 1 did not come yet" in told.getvalue())
            self.assertIn("[1]", store["test/waits/0"])
            waiting.end()
            self.until(lambda: store["test/waits/0"] == "")
        self.assertRegex(told.getvalue(), r"\Aucudnn.spatial: rank 0 has waited 0\.[0-9] s for rows with rank 1: .*\n\Z")

    def test_the_thread_that_looks_ends_with_close(self):
        waiting = self.waiting(0, Store())
        waiting.begin("rows", [1])
        thread = waiting._thread
        self.assertTrue(thread.is_alive())
        waiting.close()
        self.assertFalse(thread.is_alive())

    def until(self, happened):
        ends = time.monotonic() + 10
        while not happened():
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.005)


class Importing(unittest.TestCase):
    def run_python(self, program):
        return subprocess.run([sys.executable, "-B", "-c", program], env=os.environ | {
            "PYTHONPATH": os.path.join(ROOT, "python")}, capture_output=True, text=True)

    def test_torch_is_not_imported_before_it_is_needed(self):
        result = self.run_python("import sys, ucudnn, ucudnn.spatial; assert 'torch' not in sys.modules; print(ucudnn.COMMAND)")
        self.assertEqual(0, result.returncode, result.stderr)

    def test_what_needs_torch_says_so_where_there_is_none(self):
        result = self.run_python("import sys; sys.modules['torch'] = None\n"
                                 "from ucudnn import spatial\nspatial.NotSupported, spatial.RankLost\nspatial.shard")
        self.assertRegex(result.stderr, r"\nImportError: ucudnn\.spatial\.shard needs torch, and this Python \(.+\) has none")

    def test_what_another_module_lacks_is_no_word_about_torch(self):
        result = self.run_python("import sys; sys.modules['ucudnn.spatial.vouched'] = None\n"
                                 "from ucudnn.spatial import verdict")
        self.assertNotIn("needs torch", result.stderr)
        self.assertIn("ModuleNotFoundError", result.stderr)


class Refusals(unittest.TestCase):
    def test_a_refusal_says_what_to_do_instead(self):
        """A refusal by a rule may lack a next step, because Stripe.__torch_function__ adds one. Every other refusal
        must name a next step, or include a text that is made elsewhere and names one."""
        def text(node):
            if isinstance(node, ast.Constant):
                return str(node.value)
            is_made = getattr(node, "id", "") in ("why", "what", "way", "step", "message")
            return "; use " if is_made else "".join(map(text, ast.iter_child_nodes(node)))
        for name in ("cells", "conversion", "copies", "doors", "grid", "reduce", "stripe"):
            tree = ast.parse(pathlib.Path(ROOT, "python/ucudnn/spatial", f"{name}.py").read_text())
            tree.body = [each for each in tree.body if getattr(each, "name", "") != "_answer"]  # calls the rules
            for node in ast.walk(tree):
                called = getattr(getattr(node, "func", None), "id", "")
                if called in ("NotSupported", "same"):
                    said = text(node.args[0]) if called == "NotSupported" else f": {text(node.args[1])}"
                    with self.subTest(f"{name}.py:{node.lineno}"):
                        self.assertTrue(names_step(said), ast.unparse(node))
        for found in (vouched.COMPILED, vouched.TRACED, vouched.message([])):
            self.assertTrue(names_step(found), found)


if __name__ == "__main__":
    unittest.main()
