"""Tests `ucudnn multigrid` on several devices, as threads and as processes: results are the same as on one device. Also
tests what the other processes do when a process dies, and what is refused."""

import json
import pathlib
import re
import socket
import subprocess
import unittest

from command import COMMAND, clean_environment
from multigrid_command import DIGITS, MultigridTest, chain_arrays, few_digits, safetensors

NET = ("kirby-3m", "--layers", "21", "--coarsening", "3")
TRAINED = ("kirby-3m", "--layers", "10", "--coarsening", "3", "--train", "few", "--epochs", "1")
# Each row is (words for all ranks, options that only the last rank gets). Each of these options must be equal on all
# ranks, so each is refused.
SHARED = (
    (NET, {"--weights": "other.safetensors", "--seed": "1", "--frozen-norms": None, "--time": "2", "--step": "2", "--cycles": "3",
           "--tolerance": "1", "--norm": "relative", "--levels": "2", "--relaxation": "F",
           "--coarse": "sum", "--start": "nested", "--skip-first-down": None, "--storage": "c-points", "--backend": "cudnn",
           "--batch": "2", "--check": "once", "--method": "partitioned", "--train": "few"}),
    (NET[:1], {"--layers": "10", "--depths": "4,8", "--coarsening": "4"}),
    (("chain", "--weights", "chain.safetensors"), {"--activation": "tanh"}),
    ((*NET, "--backend", "cudnn"), {"--host": None}),
    ((*NET, "--backend", "cudnn", "--host"),
     {"--way": "streams", "--launch": "each", "--precision": "tf32", "--streams": "4", "--workspace-limit": "1MiB"}),
    (TRAINED[:-2], {"--epochs": "2", "--examples": "4", "--rate": "1", "--momentum": "0", "--repeat": "2",
                    "--backward-cycles": "3", "--data-parallel": "2"}))
# Options that need not be equal on all ranks: they may differ, are refused with several ranks, or compute nothing
# (--help).
OWN_OPTIONS = {"--help", "--threads", "--timeline", "--json", "--report", "--analyse", "--machine", "--devices"}
# Keys of a document that describe the run and not its results.
OWN = ("machine", "threads", "launch", "devices", "state_bytes", "seconds", "serial_seconds")


def computed(document):
    """Returns a copy of a document without the keys in OWN, at any depth."""
    if isinstance(document, list):
        return [computed(value) for value in document]
    if not isinstance(document, dict):
        return document
    return {key: computed(value) for key, value in document.items() if key not in OWN}


class MultigridRanks(MultigridTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.command = COMMAND  # COMMAND is installed with the stand-ins
        few_digits(f"{cls.folder}/few", 8, 8)

    def start(self, size, *words, first=(), last=(), **variables):
        """Starts `size` processes with the variables that torchrun sets. The first process also gets the words in
        `first`, and the last process the words in `last`."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        processes = []
        for rank in range(size):
            environment = clean_environment(
                RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port), **variables)
            own = last if rank + 1 == size else () if rank else first
            process = subprocess.Popen([self.command, "multigrid", *words, *own], env=environment, cwd=self.folder,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            processes.append(process)
        return processes

    def same_on_devices(self, numbers, *words):
        """Expects that the number of devices changes no bit of the results. Returns the document for one device and the
        document for the last of `numbers`."""
        alone = self.document(*words)
        self.assertEqual(1, alone["devices"])
        for devices in numbers:
            together = self.document(*words, "--devices", str(devices))
            self.assertEqual(devices, together["devices"])
            self.assertEqual(computed(alone), computed(together), devices)
        return alone, together

    def test_the_number_of_devices_changes_no_bit(self):
        self.same_on_devices((2, 3, 5), *NET, "--cycles", "3", "--check", "once", "--batch", "2")
        words = (*TRAINED, "--batch", "4", "--check", "every:2")
        alone, _ = self.same_on_devices((3,), *words)
        self.assertEqual(1, len(alone["training"]["epochs"][0]["checks"]))
        alone, together = self.same_on_devices((3,), *words, "--backend", "cudnn", "--host", "--way", "streams")
        self.assertTrue(alone["machine"].endswith("blocks run: streams, cycles as graphs"))
        self.assertTrue(together["machine"].endswith("3 devices (threads of this process), blocks run: streams, states go by peer"))
        chosen = self.document(*NET, "--backend", "cudnn", "--host", "--devices", "2")
        self.assertEqual({"streams", "grouped"}, set(chosen["ways"]))

    def ends(self, processes, seconds=240):
        """Waits for each process. Yields (exit code, stdout, stderr)."""
        for process in processes:
            output, errors = process.communicate(timeout=seconds)
            yield process.returncode, output, errors

    def document_of_processes(self, size, *words, **variables):
        (code, output, errors), *others = self.ends(self.start(size, *words, "--json", **variables))
        self.assertEqual([(0, ""), *[(0, "", "")] * (size - 1)], [(code, errors), *others])
        document = json.loads(output)
        self.assertEqual((size, True), (document["devices"], "(processes)" in document["machine"]))
        return document

    def test_processes_are_devices(self):
        words = (*TRAINED, "--batch", "4")
        self.assertEqual(computed(self.document(*words)), computed(self.document_of_processes(3, *words)))

    def test_states_of_devices_go_by_every_transport(self):
        words = (*TRAINED, "--batch", "4", "--backend", "cudnn", "--host")
        for way in ("streams", "grouped"):
            alone = self.document(*words, "--way", way)
            for size, transport in ((2, "loopback"), (3, "loopback"), (3, "nccl")):
                document = self.document_of_processes(size, *words, "--way", way, HOSTGPU_DEVICES="3", UCUDNN_SPATIAL_TRANSPORT=transport)
                self.assertIn(f"cycles as graphs, states go by {transport}", document["machine"])
                if way == "streams":
                    self.assertEqual(computed(alone), computed(document), transport)
                else:  # "grouped" calls have fewer blocks on each rank, for which cuDNN may choose another engine
                    loss, expected = (one["training"]["epochs"][0]["loss"] for one in (document, alone))
                    self.assertAlmostEqual(1, loss / expected, delta=1e-5)

    def test_run_starts_processes_on_one_machine(self):
        document = self.printed_json("run", "--off", "--ranks", "2", "--", self.command, "multigrid", *NET, "--json")
        self.assertEqual(2, document["devices"])
        self.assertEqual(computed(self.document(*NET)), computed(document))

    def test_partitioned_is_serial_propagation(self):
        serial = self.document(*NET, "--levels", "1")
        partitioned = self.document(*NET, "--method", "partitioned", "--devices", "3", "--check", "once")
        self.assertEqual(("partitioned", "serial", 0), tuple(partitioned[key] for key in ("method", "status", "output_error")))
        self.assertEqual(serial["stages"][0]["largest_state"], partitioned["stages"][0]["largest_state"])

    def test_replicas_train_on_mini_batches_of_their_own(self):
        for backend, delta in (((), 1e-12), (("--backend", "cudnn", "--host", "--way", "streams"), 1e-6)):
            words = (*TRAINED, "--levels", "1", *backend)
            replicas = self.document(*words, "--batch", "2", "--devices", "2", "--data-parallel", "2")
            together = self.document(*words, "--batch", "4")
            self.assertEqual((2, 2), (replicas["devices"], replicas["training"]["replicas"]))
            self.assertAlmostEqual(together["training"]["epochs"][0]["loss"], replicas["training"]["epochs"][0]["loss"], delta=delta)

    def test_says_which_device_has_which_layers(self):
        text = self.multigrid(*NET, "--devices", "3", "--threads", "3")
        self.assertIn("\ndouble precision on the host, 3 devices (threads of this process), each with 1 thread\n", text)
        self.assertRegex(text, r"\ndevices begin at layers 0, \d+ and \d+(; \d of 2 levels are distributed, the others on the "
                                        r"first device)?\n")

    def test_a_killed_process_is_named_by_all_others(self):
        for words in ((), ("--backend", "cudnn", "--host", "--way", "streams", "--launch", "graph")):
            with self.subTest(words=words):
                processes = self.start(3, *NET, "--train", DIGITS, "--epochs", "100", "--examples", "64", *words)
                for line in processes[0].stdout:
                    if "loss" in line:
                        break
                processes[2].kill()
                for code, _, errors in self.ends(processes[:2], 30):
                    self.assertRegex(errors, r"\Aucudnn multigrid: rank 2 died or ended \(.*\n\Z")
                    self.assertEqual(1, code)

    def test_every_option_is_shared_or_a_ranks_own(self):
        text = self.run_command("multigrid", "--help").stdout
        options = set(re.findall(r"^  (?:-\w, *)?(--[\w-]+)", text, re.MULTILINE))
        self.assertEqual(options, OWN_OPTIONS.union(*(shared for _, shared in SHARED)))

    def test_processes_with_other_options_are_refused(self):
        for words, shared in SHARED:
            for option, value in shared.items():
                with self.subTest(option):
                    for code, output, errors in self.ends(self.start(2, *words, last=(option, value) if value else (option,))):
                        self.assertRegex(errors, r"\Aucudnn multigrid: ranks differ in .*: rank 1 has .*, rank 0 has .*\n\Z")
                        self.assertEqual((2, ""), (code, output))

    def test_weights_are_the_same_by_their_contents(self):
        """Ranks may read different files, as long as these hold the same weights."""
        for name, first in (("one", 1), ("copy", 1), ("other", 2)):
            safetensors(f"{self.folder}/{name}.safetensors", chain_arrays(21, first))
        words = ("chain", "--coarsening", "3", "--time", "1", "--json")
        for name, expected in (("copy", 0), ("other", 2)):
            for code, _, errors in self.ends(self.start(2, *words, first=("--weights", "one.safetensors"),
                                                        last=("--weights", f"{name}.safetensors"))):
                self.assertEqual(expected, code, errors)
                if code:
                    self.assertRegex(errors, r"\Aucudnn multigrid: ranks differ in --weights: rank 1 has '\w{16}', rank 0 has '\w{16}'\n\Z")

    def test_digits_are_the_same_by_their_contents(self):
        for name in ("copy", "other"):
            few_digits(f"{self.folder}/{name}", 8, 8)
        labels = pathlib.Path(self.folder, "other", "train-labels-idx1-ubyte")
        data = labels.read_bytes()
        labels.write_bytes(data[:-1] + bytes([9 - data[-1]]))
        words = (*NET, "--epochs", "1", "--batch", "4")
        for name, expected in (("copy", 0), ("other", 2)):
            for code, _, errors in self.ends(self.start(2, *words, first=("--train", "few"), last=("--train", name))):
                self.assertEqual(expected, code, errors)
                if code:
                    self.assertRegex(errors, r"\Aucudnn multigrid: ranks differ in --train: rank 1 has '\w{16}', rank 0 has '\w{16}'\n\Z")

    def test_networks_of_files_are_the_same_by_their_contents(self):
        self.run_command("net", "resnet18-v2", "-o", f"{self.folder}/one.json")
        text = pathlib.Path(self.folder, "one.json").read_text()
        pathlib.Path(self.folder, "other.json").write_text(text.replace("resnet18-v2", "another"))
        for code, _, errors in self.ends(self.start(2, first=("one.json",), last=("other.json",))):
            self.assertEqual(2, code, errors)
            self.assertRegex(errors, r"\Aucudnn multigrid: ranks differ in NET: rank 1 has '\w{16}', rank 0 has '\w{16}'\n\Z")

    def test_what_is_refused(self):
        self.refused((*NET, "--backend", "cudnn", "--host", "--devices", "2", "--launch", "graph"), "ranks whose exchanges go between the "
                     "devices of one process cannot be captured in a CUDA graph; ranks that are processes can")
        self.refused((*NET, "--devices", "2"), "WORLD_SIZE=3 processes, and --devices and --data-parallel ask for 2; expected numbers "
                     "that fit", RANK="0", WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")


if __name__ == "__main__":
    unittest.main()
