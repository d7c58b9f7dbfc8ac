"""Tests that the drop-in exports every cuDNN function that the recorded frameworks import or look up, under cuDNN's
version node. If an imported function were missing, a framework would not start. If a looked-up function were missing,
the framework would report an error of cuDNN. `record` makes the lists; loader_forward_test tests that exports are
forwarded."""

import os
import pathlib
import subprocess
import unittest

DROP_IN = os.environ["UCUDNN_TEST_DROP_IN"]
NM = os.environ["UCUDNN_TEST_NM"]
LISTS = sorted((pathlib.Path(__file__).parent / "lists").glob("*.txt"))


def exports():
    output = subprocess.run([NM, "-D", "--defined-only", "--format=just-symbols", DROP_IN], check=True, capture_output=True,
                            text=True).stdout
    return {name.removesuffix("@@libcudnn.so.9") for name in output.split() if name.endswith("@@libcudnn.so.9")}


class Frameworks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.exports = exports()
        cls.lists = {}
        for path in LISTS:
            lines = path.read_text().splitlines()
            names = {"import": set(), "lookup": set(), "absent": set()}
            for line in lines:
                if not line.startswith("#"):
                    use, name = line.split()
                    names[use].add(name)
            cls.lists[path.name] = ([line for line in lines if line.startswith("#")], names)

    def test_every_function_is_forwarded(self):
        for name, (_, names) in self.lists.items():
            for use in "import", "lookup":
                self.assertEqual(set(), names[use] - self.exports, f"{name}: {use}")

    def test_what_no_cudnn_9_has_is_not_claimed(self):
        """A list says which names were absent from cuDNN 9. If the drop-in exports such a name, the list is older than
        exports.txt; run `record` again."""
        for name, (_, names) in self.lists.items():
            self.assertEqual(set(), names["absent"] & self.exports, name)

    def test_convolutions_are_among_what_frameworks_use(self):
        """The list of each framework has the functions with which it convolves, so `record` read the right library."""
        ways = {"torch": ("import", {"cudnnBackendExecute", "cudnnConvolutionForward", "cudnnCreate"}),
                "jax-cuda12-pjrt": ("lookup", {"cudnnBackendExecute", "cudnnCreate"}),
                "jax-cuda13-pjrt": ("lookup", {"cudnnBackendExecute", "cudnnCreate"}),
                "tensorflow": ("lookup", {"cudnnBackendExecute", "cudnnCreate"}),
                "onnxruntime-gpu": ("lookup", {"cudnnBackendExecute", "cudnnCreate"}),
                "nvidia-cudnn-frontend": ("lookup", {"cudnnBackendExecute", "cudnnCreate"})}
        for package, (use, functions) in ways.items():
            found = [names[use] for name, (_, names) in self.lists.items() if name.startswith(f"{package}-")]
            self.assertTrue(any(functions <= names for names in found), f"{package}: {len(found)} lists")

    def test_lists_say_where_they_come_from(self):
        for name, (header, _) in self.lists.items():
            self.assertEqual(3, len(header), name)
            self.assertRegex(header[0], r"^# [a-z0-9-]+ \d+(\.\d+)+: \S+$")
            self.assertRegex(header[1], r"^# \S+\.whl sha256 [0-9a-f]{64}$")


if __name__ == "__main__":
    unittest.main()
