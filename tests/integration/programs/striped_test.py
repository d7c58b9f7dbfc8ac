"""Tests programs whose processes hold stripes of each image, under `ucudnn run --ranks`. The processes together must
print what one process with the whole image prints. A call that cannot be exact is an error on all processes."""

import concurrent.futures
import os
import tempfile
import unittest

import program

STRIPED_CNN = os.environ["UCUDNN_TEST_STRIPED_CNN"]
STRIPED_API = os.environ["UCUDNN_TEST_STRIPED_API"]
STRIPED_HEAD = os.environ["UCUDNN_TEST_STRIPED_HEAD"]
STRIPED_POOLS = os.environ["UCUDNN_TEST_STRIPED_POOLS"]
TRAIN_CNN = os.environ["UCUDNN_TEST_TRAIN_CNN"]
FRONTEND_STEP = os.environ["UCUDNN_TEST_FRONTEND_STEP"]
FRONTEND_WHOLE = os.environ["UCUDNN_TEST_FRONTEND_WHOLE"]
HEIGHT = "32"


def run(*options, words=(STRIPED_CNN, HEIGHT, "4"), **variables):
    # Processes that measure take turns through locks in XDG_RUNTIME_DIR. This run has its own XDG_RUNTIME_DIR, so it
    # does not wait for other processes.
    with tempfile.TemporaryDirectory() as folder:
        return program.run(words, options, program.of_ranks(**program.PATIENT | variables, XDG_RUNTIME_DIR=folder), timeout=120)


def on_ranks(ranks, *options, **more):
    """Runs the program on `ranks` ranks, which hold stripes of each image."""
    return run("--ranks", str(ranks), "--spatial", f"h{ranks}", *options, **more)


def lines(result):
    return sorted(result.stdout.splitlines())


# The allowed relative difference between ranks and one process, which add fp64 numbers in different orders.
# Cancellation enlarges such differences; they were at most 1e-10 in cases that were examined. A missing row would
# change the first digits.
NOISE = 1e-8


def numbers(result):
    return sorted((name, float(number)) for name, number in (line.split(": ") for line in result.stdout.splitlines()))


class Striped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.whole = run()
        assert cls.whole.returncode == 0, cls.whole.stderr
        assert len(lines(cls.whole)) == 50

    def assert_like_the_whole(self, result):
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual(lines(self.whole), lines(result))

    def assert_near(self, whole, result):
        expected = dict(numbers(whole))
        self.assertEqual(set(expected), {name for name, _ in numbers(result)})
        for name, number in numbers(result):
            self.assertLessEqual(abs(number - expected[name]), NOISE * max(1, abs(number)), name)

    def assert_refused(self, result, *words):
        self.assertNotEqual(0, result.returncode)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertEqual("", result.stdout)

    def test_ranks_together_print_what_one_process_prints(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.assert_like_the_whole(on_ranks(ranks))

    def test_groups_have_images_of_their_own_and_may_end_apart(self):
        script = f'exec {STRIPED_CNN} {HEIGHT} $((RANK < 2 ? 4 : 500))'
        result = run("--ranks", "4", "--spatial", "n2h2", words=("bash", "-c", script), UCUDNN_SPATIAL_TRANSPORT="loopback")
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        self.assertEqual(50, len(lines(result)))
        # The program cuts 32 rows into 4 stripes, one for each rank. The first group has two ranks, so its images have
        # rows 0 to 15.
        self.assertLessEqual(set(lines(run(words=(STRIPED_CNN, "16", "4")))), set(lines(result)))

    def test_each_ranks_own_calls_are_divided_as_always(self):
        self.assert_like_the_whole(on_ranks(2, "--workspace-limit", "192KiB"))

    def test_what_one_budget_holds_and_exchanges_take_stays_within_the_total(self):
        total = 1 << 20
        with tempfile.TemporaryDirectory() as folder:
            self.assert_like_the_whole(on_ranks(2, "--total-workspace", "1MiB", UCUDNN_REPORT=f"{folder}/%p.json"))
            reports = program.reports(folder)
        self.assertEqual(2, len(reports))
        for report in reports:
            held, exchanged = report["total_workspace"], report["spatial"]["owned_workspace_bytes"]
            self.assertGreater(exchanged, 0)
            self.assertLessEqual(exchanged, total // 4)
            self.assertLessEqual(held["total_workspace_bytes"] + exchanged, total)

    def test_every_transport_gives_the_same(self):
        for transport in ("nccl", "loopback"):
            with self.subTest(transport=transport):
                result = on_ranks(2, UCUDNN_SPATIAL_TRANSPORT=transport)
                self.assert_like_the_whole(result)
                self.assertNotIn("error", result.stderr)  # on a busy machine there may be warnings about late ranks

    def test_reports_tell_what_was_exchanged_and_what_that_took(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assert_like_the_whole(on_ranks(2, UCUDNN_REPORT=f"{folder}/%p.json"))
            told = [report["spatial"] for report in program.reports(folder)]
            for name in os.listdir(folder):
                program.command("report", f"{folder}/{name}")
        self.assertEqual([("h2", 0, 2, 64), ("h2", 1, 2, 64)],
                         sorted((one["grid"], one["rank"], one["ranks"], one["calls"]) for one in told))
        # Each rank counts the bytes that it sends and receives. With two ranks, one rank sends what the other receives,
        # so both counts are equal.
        self.assertEqual(told[0]["exchanged_bytes"], told[1]["exchanged_bytes"])
        for one in told:
            self.assertGreater(one["exchanged_bytes"], 0)
            self.assertGreater(one["owned_workspace_bytes"], 0)

    def test_reports_tell_of_each_kernel_its_verdict_bytes_and_times(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                self.assert_like_the_whole(on_ranks(ranks, UCUDNN_REPORT=f"{folder}/%p.json"))
                told = [report["spatial"] for report in program.reports(folder)]
                tracks = sorted((track for one in told for track in one["tracks"]), key=lambda track: track["rank"])
                self.assertEqual(list(range(ranks)), [track["rank"] for track in tracks])
                for one in told:
                    self.assertEqual([], one["refused"])
                    self.assert_whole_track(one, one["tracks"][0])
                # In each of 4 steps, the first layer (3x3) receives one row from each neighbour: 12 fp64 numbers of 8
                # bytes, for 3 channels and 3 images.
                row = 12 * 8 * 3 * 3 * 4
                self.assertEqual([row] + [2 * row] * (ranks - 2) + [row], [track["kernels"][0]["received_bytes"] for track in tracks])
                for kernels in zip(*(track["kernels"] for track in tracks), strict=True):
                    self.assertEqual(1, len({kernel["common"] for kernel in kernels}))
                    self.assertEqual(sum(kernel["sent_bytes"] for kernel in kernels), sum(kernel["received_bytes"] for kernel in kernels))
                self.assert_page(folder, ranks)

    def test_reports_tell_of_pools_and_norms(self):
        # number: the bytes of an fp64 number. numbers: the bytes of one number for each of 2 images and 4 channels.
        steps, number, numbers = 4, 8, 2 * 4 * 8
        kinds = [("convolution", "forward"), ("batch normalisation", "forward"), ("max pooling", "forward"),
                 ("batch normalisation", "forward"), ("average pooling without padding", "forward"),
                 ("average pooling with padding", "forward"), ("convolution", "forward"), ("convolution", "backward_filter"),
                 ("convolution", "backward_data"), ("average pooling with padding", "backward_data"),
                 ("average pooling without padding", "backward_data"), ("batch normalisation", "backward_data"),
                 ("max pooling", "backward_data"), ("batch normalisation", "backward_data"), ("convolution", "backward_filter"),
                 ("convolution", "backward_data")]
        for ranks in (2, 4):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                result = on_ranks(ranks, words=(STRIPED_POOLS, str(steps)),
                             UCUDNN_SPATIAL_ONE="replicated", UCUDNN_REPORT=f"{folder}/%p.json")
                self.assertEqual(0, result.returncode, result.stderr)
                tracks = [report["spatial"]["tracks"][0] for report in program.reports(folder)]
                self.assertEqual(list(range(ranks)), sorted(track["rank"] for track in tracks))
                for track in tracks:
                    self.assertEqual(kinds, [(kernel["kind"], kernel["op"]) for kernel in track["kernels"]])
                    above, below = track["rank"] > 0, track["rank"] < ranks - 1
                    # From each other rank, a rank receives two sums for each of 4 channels (batch normalisation), or
                    # one sum for each of 2 images and 4 channels (global average). In both cases these are `numbers`
                    # bytes.
                    told = steps * (ranks - 1) * numbers
                    row = steps * 32 * numbers  # bytes of a row of 32 columns, over all steps
                    received = {("batch normalisation", "forward"): told, ("batch normalisation", "backward_data"): told,
                                ("average pooling with padding", "forward"): told, ("max pooling", "forward"): above * row,
                                # From below, a rank receives one row of dy, which has half as many columns as x. It
                                # also receives the 2 rows of x from below that the window of that row covers.
                                ("max pooling", "backward_data"): above * row + below * (row // 2 + 2 * row)}
                    for kernel in track["kernels"]:
                        self.assert_pool_or_norm(kernel, steps, received, steps * number * (above + below))
                for kernels in zip(*(track["kernels"] for track in tracks), strict=True):
                    self.assertEqual(1, len({kernel["common"] for kernel in kernels}))
                    self.assertEqual(sum(kernel["sent_bytes"] for kernel in kernels), sum(kernel["received_bytes"] for kernel in kernels))
                self.assert_page(folder, ranks, *(f">{at}: {kind} " for at, (kind, _) in enumerate(kinds, 1) if kind != "convolution"))

    def assert_pool_or_norm(self, kernel, steps, received, most_beside):
        kind, least = (kernel["kind"], kernel["op"]), kernel["least_received_bytes"]
        self.assertEqual(("transparent", "", steps), (kernel["verdict"], kernel["reason"], kernel["calls"]))
        if kind[0] != "convolution":
            self.assertEqual((received.get(kind, 0), 0), (least, kernel["summed_bytes"]), kind)
        # A failed rank fills its rows with NaN, which a maximum may hide. So each message of max pooling has one more
        # number, which says whether the rank failed.
        self.assertEqual(kind[0] == "max pooling" and least > 0, kernel["received_bytes"] > least, kind)
        self.assertLessEqual(kernel["received_bytes"] - least, most_beside)
        self.assertEqual(1, kernel["times"]["calls"])  # only the second step is timed
        self.assertEqual(kernel["sent_bytes"] + kernel["received_bytes"] > 0, kernel["times"]["exchange_ms"] > 0, kind)

    def assert_whole_track(self, told, track):
        kernels = track["kernels"]
        self.assertEqual("nccl", track["transport"])  # the transport that is chosen if each rank has its own device
        self.assertRegex(track["library"], r"^NCCL \d+\.\d+\.\d+, /.*libnccl\.so\.2$")
        self.assertEqual(told["calls"], track["calls"])
        self.assertEqual(64, sum(kernel["calls"] for kernel in kernels))
        self.assertEqual(told["exchanged_bytes"], sum(kernel["sent_bytes"] + kernel["received_bytes"] for kernel in kernels))
        for kernel in kernels:
            self.assertEqual(("transparent", ""), (kernel["verdict"], kernel["reason"]))
            self.assertEqual(kernel["least_sent_bytes"], kernel["sent_bytes"])
            self.assertEqual(kernel["least_received_bytes"], kernel["received_bytes"])
            exchanges = kernel["kind"] == "convolution" and kernel["problem"]["r"] > 1
            self.assertEqual(exchanges, kernel["received_bytes"] > 0, kernel["common"])
            self.assertEqual(kernel["op"] == "backward_filter", kernel["summed_bytes"] > 0)
            times = kernel["times"]
            self.assertEqual(1, times["calls"])  # only the second of the four steps is timed
            for name in ("exposed_ms", "hidden_ms", "exposed_sum_ms"):
                self.assertGreaterEqual(times[name], 0)
            self.assertGreater(times["call_ms"], 0)
            self.assertEqual(exchanges, times["exchange_ms"] > 0)
            self.assertEqual(kernel["summed_bytes"] > 0, times["sum_ms"] > 0)
        step = track["step"]
        self.assertEqual((2, 16), (step["number"], len(step["calls"])))
        self.assertEqual({"call", "own", "exchange", "await_exchange", "sum", "await_sum"},
                         {name for call in step["calls"] for name, _, _ in call["spans"]})

    def assert_page(self, folder, ranks, *texts):
        files = [f"{folder}/{name}" for name in os.listdir(folder)]
        page = program.command("report", *files)
        for rank in range(ranks):
            self.assertIn(f">rank {rank}</th>", page)  # a column of the table
            self.assertGreaterEqual(page.count(f">rank {rank}</text>"), 2)  # a track, and a part of the grid
        for text in texts:
            self.assertIn(text, page)
        self.assertNotIn("There is no report here", page)
        self.assertIn("There is no report here of rank" if ranks == 2 else "There is no report here of ranks",
                      program.command("report", files[0]))

    def test_reports_tell_why_a_kernel_is_refused(self):
        # 8 rows on 4 ranks become one row on each rank after the layer with stride 2. ucudnn cannot know whether such a
        # row is a stripe or a copy, so it refuses the following 3x3 layer.
        with tempfile.TemporaryDirectory() as folder:
            script = f'UCUDNN_REPORT={folder}/$1.json RANK=$1 WORLD_SIZE=4 LOCAL_RANK=0 exec {STRIPED_CNN} 8 1'
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                results = list(pool.map(lambda rank: run(words=("bash", "-c", script, "sh", str(rank)), UCUDNN_SPATIAL="h4",
                                                         UCUDNN_RENDEZVOUS=f"file:{folder}/meeting"), range(4)))
            for rank, result in enumerate(results):
                self.assertEqual(1, result.returncode, result.stderr)
                kernels = program.read(f"{folder}/{rank}.json")["spatial"]["tracks"][0]["kernels"]
                refused = [kernel for kernel in kernels if kernel["verdict"] == "refused"]
                self.assertEqual([("forward", 3)], [(kernel["op"], kernel["problem"]["r"]) for kernel in refused])
                self.assertIn("UCUDNN_SPATIAL_ONE", refused[0]["reason"])
                self.assertEqual((1, 0, None), (refused[0]["calls"], refused[0]["sent_bytes"], refused[0]["times"]))
                self.assertEqual("transparent", kernels[0]["verdict"])

    def test_reports_tell_what_was_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            result = on_ranks(2, words=(FRONTEND_WHOLE, "4"), UCUDNN_REPORT=f"{folder}/%p.json")
            self.assert_refused(result, "operations before the convolution")
            refused = [one for report in program.reports(folder) for one in report["spatial"]["refused"]]
            self.assertGreater(len(refused), 0)
            for one in refused:
                self.assertIn("is not split", one["what"])
                self.assertGreater(one["count"], 0)

    def test_a_call_more_on_one_rank_is_an_error_on_all(self):
        script = f'exec {STRIPED_CNN} {HEIGHT} $((4 + RANK))'
        result = on_ranks(2, words=("bash", "-c", script))
        self.assertEqual(1, result.returncode)
        self.assertIn("rank 0 ended after split call 64, but rank 1 makes call", result.stderr)

    def test_a_rank_that_dies_ends_the_job(self):
        script = f'[ $RANK = 1 ] && {{ sleep 0.5; kill -KILL $$; }}; exec {STRIPED_CNN} {HEIGHT} 4'
        self.assert_refused(on_ranks(2, words=("bash", "-c", script)), "rank 1")

    def test_a_rank_that_does_not_come_is_waited_for_until_the_timeout(self):
        script = f'[ $RANK = 1 ] && exec sleep 6; exec {STRIPED_CNN} {HEIGHT} 4'
        result = on_ranks(2, words=("bash", "-c", script), UCUDNN_SPATIAL_TIMEOUT="2")
        self.assert_refused(result, "rank 0 has waited", "for rank 1")

    def test_plans_of_the_graph_api_give_what_plain_loops_over_the_whole_image_give(self):
        # 3-D images have 5 rows, so their stripes have unequal heights. frontend_step declares that a fused and a plain
        # gradient read the same dy. Its steps alternate the order of these two gradients.
        results, steps = 8, 5
        for kind, axes, ranks in (("fp32", "2", 3), ("fp16", "3", 2), ("bf16", "2", 2)):
            with self.subTest(kind=kind, axes=axes, ranks=ranks):
                result = on_ranks(ranks, words=(FRONTEND_STEP, kind, axes, "4", str(steps)), UCUDNN_SPATIAL_REDUCE="all")
                self.assertEqual(0, result.returncode, result.stderr)
                self.assertEqual(results * steps * ranks, result.stdout.count(" exact"))
                checksums = {line.split()[2] for line in lines(result) if line.startswith("backward_filter")}
                self.assertEqual(1, len(checksums), "every rank has the sum")

    def test_a_program_takes_its_own_calls_out_and_says_what_is_whole(self):
        result = on_ranks(2, words=(STRIPED_API,), UCUDNN_SPATIAL_TRANSPORT="loopback")
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        own = ["rank 0: an evaluation is exact"] * 3
        said = ("a stripe again is", "a stripe is", "the geometry is", "rows beside a stripe are", "a whole picture is",
                "a picture that its descriptor calls whole is", "a thread's own picture is",
                "a whole picture pooled and normalised is", "what its descriptor calls whole, pooled and normalised, is")
        every = [f"rank {rank}: {what} exact" for rank in (0, 1) for what in said]
        self.assertEqual(sorted(own + every), lines(result))

    def test_split_layers_that_meet_copies_have_the_gradients_of_the_whole(self):
        whole = run(words=(STRIPED_HEAD,))
        self.assertEqual(0, whole.returncode, whole.stderr)
        self.assertEqual(4 + 8, len(lines(whole)))
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                result = on_ranks(ranks, words=(STRIPED_HEAD,), UCUDNN_SPATIAL_ONE="replicated")
                self.assertEqual(0, result.returncode, result.stderr)
                self.assertEqual(4 * ranks + 8, len(lines(result)))
                self.assertEqual(set(lines(whole)), set(lines(result)))

    def test_pools_and_norms_are_those_of_the_whole(self):
        whole = run(words=(STRIPED_POOLS,))
        self.assertEqual(0, whole.returncode, whole.stderr)
        self.assertEqual(11 + 32, len(lines(whole)))
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                result = on_ranks(ranks, words=(STRIPED_POOLS,), UCUDNN_SPATIAL_ONE="replicated")
                self.assertEqual((0, ""), (result.returncode, result.stderr))
                self.assertEqual(11 * ranks + 32, len(lines(result)))
                self.assert_near(whole, result)

    def test_steps_in_a_graph_are_those_of_the_whole(self):
        whole = run(words=(STRIPED_POOLS, "4"))
        self.assertEqual(0, whole.returncode, whole.stderr)
        self.assertNotEqual(lines(run(words=(STRIPED_POOLS,))), lines(whole))
        self.assert_near(whole, run(words=(STRIPED_POOLS, "4", "graph")))
        for ranks, transport in ((2, "nccl"), (4, "nccl"), (2, "loopback"), (4, "loopback")):
            with self.subTest(ranks=ranks, transport=transport):
                result = on_ranks(ranks, words=(STRIPED_POOLS, "4", "graph"),
                             UCUDNN_SPATIAL_ONE="replicated", UCUDNN_SPATIAL_TRANSPORT=transport)
                self.assertEqual(0, result.returncode, result.stderr)
                self.assertNotIn("error", result.stderr)
                self.assert_near(whole, result)

    def test_global_pooling_is_refused_until_the_program_says_so(self):
        result = on_ranks(2, words=(STRIPED_POOLS,))
        self.assertNotEqual(0, result.returncode)
        for word in ("average pooling with padding", "the window covers the stripe of every rank", "UCUDNN_SPATIAL_ONE=replicated"):
            self.assertIn(word, result.stderr)

    def test_ranks_may_be_threads_of_one_process(self):
        for kind, transport, devices in (("handles", "loopback", ()), ("devices", "peer", ("--devices", "3"))):
            for ranks in (2, 3):
                with self.subTest(kind=kind, ranks=ranks):
                    result = run(*devices, "--spatial", f"h{ranks}", words=(STRIPED_API, kind, str(ranks)),
                                 UCUDNN_SPATIAL_TRANSPORT=transport)
                    self.assertEqual((0, f"{ranks} ranks on threads exact\n"), (result.returncode, result.stdout), result.stderr)
                    if kind == "handles":
                        self.assertIn("a cuDNN handle belongs to no rank: ucudnnSpatialJoin says to which", result.stderr)
                        self.assertIn("each rank of one process has a thread of its own", result.stderr)

    def test_without_a_grid_what_a_program_says_of_stripes_has_no_effect(self):
        result = run(words=(STRIPED_API,))
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        self.assertIn("ucudnnSpatialGetCell: this process is no rank", result.stdout)
        self.assertEqual(12, result.stdout.count(" exact"))

    def test_of_plans_the_program_says_who_sums_gradients(self):
        result = on_ranks(2, words=(FRONTEND_STEP, "fp32", "2", "4"))
        self.assertNotEqual(0, result.returncode)
        self.assertIn("UCUDNN_SPATIAL_REDUCE=all sums it over ranks here, none leaves that to the program", result.stderr)

    def test_what_is_not_split_is_refused_by_name(self):
        # The last convolution has no padding and covers the whole image, so stripes would give another result.
        self.assert_refused(on_ranks(2, words=(TRAIN_CNN, "fp32", "nchw", "norm", "8", "1")), "cannot be split")
        # ucudnn splits graphs that are pointwise, or that consist of one convolution with pointwise operations after
        # it. The graphs of FRONTEND_WHOLE are of neither kind.
        self.assert_refused(on_ranks(2, words=(FRONTEND_WHOLE, "4")), "operations before the convolution",
                            "a convolution of the graph API that ucudnn cannot read is not split")

    def test_no_setting_leads_back_to_the_local_call(self):
        # These variables make the process a rank, as a launcher other than `ucudnn run` does.
        rank = ("env", "UCUDNN_SPATIAL=h2", "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500")
        for setting in ("UCUDNN_MODE=off", "UCUDNN_MODE=observe", "UCUDNN_SPATIAL_AGREE=maybe", "UCUDNN_SPATIAL_AGRE=each"):
            with self.subTest(setting=setting):
                self.assert_refused(run(words=(*rank, setting, STRIPED_CNN, HEIGHT, "1")), setting.partition("=")[0],
                                    "NOT_SUPPORTED")


if __name__ == "__main__":
    unittest.main()
