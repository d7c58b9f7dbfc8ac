"""Tests layer-parallel multigrid on a GPU. All ways of running blocks concurrently come near the output of serial
propagation, and their residuals are equal up to rounding. Convergence does not depend on depth. In every precision, the
error of a solve is no larger than rounding explains. Training on ranks that share the device is equal to the bit to
training on one rank, and close to training on the host. Records the time of each way and of serial propagation."""

import itertools
import json
import unittest

import machine

WAYS = ("streams", "grouped")
LAUNCHES = ("each", "graph")
DEPTHS = (64, 256) if machine.HOST else (64, 256, 1024, 4093)
# Residuals may differ by this fraction, since states in single precision are rounded by 2^-24 = 6e-8 at every step.
ROUNDING = 1e-5


def words_of(*options):
    host = ["--host"] if machine.HOST else []
    coarse = [] if "--coarse" in options else ["--coarse", "inject"]  # the default operator would depend on the device
    return [machine.UCUDNN, "multigrid", "kirby-3m", "--backend", "cudnn", *host, "--json", *coarse, *options]


def solve(*options):
    return json.loads(machine.run(words_of(*options), machine.environment(), machine.seconds_left()))


def only(document):
    """Returns the only solve of a document."""
    return document["solves"][0] if "solves" in document else document


def serial_seconds(layers):
    """Returns the seconds of serial propagation, by the kind of launch."""
    return {launch: solve("--layers", layers, "--levels", "1", "--launch", launch)["ways"]["streams"] for launch in LAUNCHES}


class Multigrid(unittest.TestCase):
    def test_all_ways_come_to_the_same_states(self):
        for depth in DEPTHS:
            residuals = {}
            for way, launch in itertools.product(WAYS, LAUNCHES):
                with self.subTest(depth=depth, way=way, launch=launch):
                    solved = only(solve("--layers", str(depth), "--way", way, "--launch", launch, "--cycles", "4", "--check", "once"))
                    self.assertEqual("fp32", solved.get("precision", "fp32"))
                    residuals[f"{way}, {launch}"] = solved["residuals"]
                    # The bound allows for the error that remains after four cycles and for rounding in single precision.
                    self.assertLess(solved["output_error"], 1e-3)
            for way, of_way in residuals.items():
                for cycle, (one, other) in enumerate(zip(residuals["streams, each"], of_way)):
                    with self.subTest(depth=depth, way=way, cycle=cycle):
                        self.assertLess(abs(one - other), ROUNDING * max(residuals["streams, each"]) * depth ** 0.5)

    def test_convergence_does_not_depend_on_depth(self):
        """Tests what figure 4 of the paper shows, down to a tolerance that single precision reaches."""
        cycles = {}
        histories = {}
        for depth in DEPTHS:
            solved = only(solve("--layers", str(depth), "--way", "grouped", "--norm", "relative", "--tolerance", "1e-5"))
            self.assertIn(solved["status"], ("converged", "direct"))
            cycles[depth] = solved["cycles"]
            histories[str(depth)] = solved["residuals"]
        machine.record("residuals, relative to the largest state", histories)
        self.assertLessEqual(max(cycles.values()) - min(cycles.values()), 2, cycles)

    def test_the_fastest_way_is_measured(self):
        """Records the times of a cycle at each depth, call by call and as one graph. Also records the time of serial
        propagation, with which the paper compares."""
        for depth in DEPTHS:
            cycles = {}
            for launch in LAUNCHES:
                solved = solve("--layers", str(depth), "--launch", launch)
                self.assertEqual(set(WAYS), set(solved["ways"]))
                self.assertEqual(min(solved["ways"], key=solved["ways"].get), solved["way"])
                cycles |= {f"{way}, {launch}": seconds for way, seconds in solved["ways"].items()}
            machine.record(f"seconds of a cycle, {depth} layers", cycles)
            machine.record(f"seconds of serial propagation, {depth} layers", serial_seconds(str(depth)))

    def test_two_cycles_beside_serial_propagation(self):
        """Records the times of two cycles and of serial propagation. There are two goals: the time of serial propagation in one
        graph, and half its time without a graph. The fastest of all ways and coarse operators is compared with both goals."""
        layers = str(DEPTHS[-1])
        serial = serial_seconds(layers)
        cycles = {f"{coarse}, {way}": 2 * seconds for coarse in ("inject", "sum")
                  for way, seconds in solve("--layers", layers, "--coarse", coarse)["ways"].items()}
        fastest = min(cycles, key=cycles.get)
        machine.record(f"seconds of two cycles, {layers} layers", {"serial": serial, **cycles})
        machine.record(f"two cycles beside serial propagation, {layers} layers", {
            "fastest": fastest, "times as fast as plain serial": serial["each"] / cycles[fastest],
            "times as fast as serial as one graph": serial["graph"] / cycles[fastest]})

    def test_how_many_blocks_run_at_once(self):
        """Records the average number of streams that run a block at the same time, by events of the device, as in
        figure 5 of the paper. Also records how many blocks one call runs with "grouped": all blocks of a level."""
        shown = {}
        for streams in (1, 64):
            stage = only(solve("--layers", str(DEPTHS[-1]), "--way", "streams", "--streams", str(streams), "--timeline"))["stages"][0]
            timeline = stage["timeline"]
            self.assertEqual(streams, timeline["lanes"])
            self.assertTrue(0 < timeline["concurrency"] <= timeline["lanes"])
            shown[str(streams)] = {key: timeline[key] for key in ("ms", "concurrency", "lanes")}
        blocks = stage["levels"][0] // stage["coarsening"][0]
        machine.record(f"streams that run a block on average, {DEPTHS[-1]} layers", {**shown, "blocks of a grouped call": blocks})

    def test_every_precision_solves_as_well_as_it_rounds(self):
        errors = {}
        for precision, roundoff in (("fp32", 2 ** -24), ("tf32", 2 ** -11), ("fp16", 2 ** -11), ("bf16", 2 ** -8)):
            for way in ("streams", "grouped"):
                with self.subTest(precision=precision, way=way):
                    solved = only(solve("--layers", "64", "--way", way, "--precision", precision, "--cycles", "8", "--check", "once"))
                    errors[f"{precision}, {way}"] = solved["output_error"]
                    # 64 layers are 8 blocks of 8. For these, 8 cycles are exact apart from rounding at each layer.
                    self.assertLess(solved["output_error"], 2 * 64 * roundoff)
        machine.record("error of the output at 64 layers, against serial propagation in the same precision", errors)

    def test_the_coarse_operator_fits_the_device(self):
        """Without --coarse, the operator is "sum" if single layers do not fill the device. Records the number of cycles to one
        tolerance, with this operator and with "inject"."""
        words = words_of("--layers", "256", "--norm", "relative", "--tolerance", "1e-5", "--way", "grouped", "--coarse", "inject")
        chosen = {}
        for name, own in (("inject", words), ("chosen", words[:-2])):
            solved = only(json.loads(machine.run(own, machine.environment(), machine.seconds_left())))
            self.assertIn(solved["status"], ("converged", "direct"))
            chosen[name] = {key: solved[key] for key in ("coarse", "cycles", "seconds")}
        self.assertIn(chosen["chosen"]["coarse"], ("inject", "sum"))
        machine.record("256 layers, relative tolerance 1e-5", chosen)

    TRAINING = ("--layers", "16", "--coarsening", "4", "--train", str(machine.ROOT / "tests/unit/planner/digits"), "--examples", "96",
                "--epochs", "1")

    def test_ranks_that_share_the_device_change_no_bit(self):
        """Trains on one rank; on four threads, which exchange states by peer copies; and on four processes, which exchange them
        by shared memory."""
        words = words_of(*self.TRAINING, "--way", "streams")
        run = [machine.UCUDNN, "run", "--off", "--ranks", "4", "--"]
        epochs = {}
        for name, own in (("one", words), ("threads", [*words, "--devices", "4"]), ("processes", [*run, *words])):
            document = json.loads(machine.run(own, machine.environment(), machine.seconds_left()))
            self.assertEqual(1 if name == "one" else 4, document["devices"])
            epochs[name] = document["training"]["epochs"][0]
        machine.record("an epoch of training on four ranks that share a device",
                       {name: {key: epoch[key] for key in ("loss", "top1", "seconds")} for name, epoch in epochs.items()})
        for name in ("threads", "processes"):
            for key in ("loss", "top1"):
                self.assertEqual(epochs["one"][key], epochs[name][key], f"{name}, {key}")

    def test_training_on_the_device_is_training_on_the_host(self):
        """Also records how long each way takes to train 256 layers."""
        def epoch(way, *layers):
            return solve(*(layers or self.TRAINING[:2]), *self.TRAINING[2:], "--way", way)["training"]["epochs"][0]
        words = self.TRAINING
        epochs = {way: epoch(way) for way in ("streams", "grouped")}
        host = json.loads(machine.run([machine.UCUDNN, "multigrid", "kirby-3m", "--json", *words], machine.environment(),
                                      machine.seconds_left()))["training"]["epochs"][0]
        machine.record("an epoch of training", {way: {key: one[key] for key in ("loss", "seconds")}
                                                for way, one in {**epochs, "host": host}.items()})
        machine.record("seconds of an epoch of 256 layers", {
            way: epoch(way, "--layers", "256")["seconds"] for way in ("streams", "grouped")})
        for way, one in epochs.items():
            with self.subTest(way=way):
                self.assertLess(abs(one["loss"] / host["loss"] - 1), 1e-4)


if __name__ == "__main__":
    machine.main()
