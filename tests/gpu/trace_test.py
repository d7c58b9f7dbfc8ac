"""Tests the tracer of cuDNN calls. It needs the real cuDNN but no GPU, since a name is written before the call fails."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import machine
import trace_calls

TRACER = machine.BUILD / "tests/gpu/trace/libcudnn.so.9"
AS_FRAMEWORKS_LOAD = """
import ctypes
cudnn = ctypes.CDLL("libcudnn.so.9")
descriptor = ctypes.c_void_p()
print(cudnn.cudnnCreateTensorDescriptor(ctypes.byref(descriptor)))
for _ in range(3):
    print(cudnn.cudnnSetTensor4dDescriptor(descriptor, 0, 0, 1, 2, 3, 4))
cudnn.cudnnGetErrorString.restype = ctypes.c_char_p
print(cudnn.cudnnGetErrorString(0).decode(), cudnn.cudnnDestroyTensorDescriptor(descriptor))
"""


def traced(words, environment):
    """Runs a program under the tracer. Returns its exit code, its output and the names of its cuDNN calls."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace")
        environment = environment | {"LD_PRELOAD": str(TRACER), "UCUDNN_TRACE": str(trace)}
        result = subprocess.run([str(w) for w in words], env=environment, capture_output=True, text=True, timeout=60)
        return result.returncode, result.stdout, trace.read_text().split() if trace.exists() else []


class Trace(unittest.TestCase):
    def test_calls_of_a_linked_program_are_named_in_order(self):
        code, output, calls = traced([machine.BUILD / "tests/alexnet_step", "1", "1"], machine.environment())
        self.assertEqual("cudnnCreate", calls[0])
        if machine.gpu() is None:
            self.assertEqual((1, ["cudnnCreate", "cudnnGetErrorString"]), (code, calls), output)
        else:
            self.assertEqual((0, "cudnnDestroy"), (code, calls[-1]), output)

    def test_calls_through_dlopen_are_traced_and_still_answered(self):
        code, output, calls = traced([sys.executable, "-c", AS_FRAMEWORKS_LOAD], machine.environment())
        self.assertEqual((0, ["0"] * 4 + ["CUDNN_STATUS_SUCCESS", "0"]), (code, output.split()))
        self.assertEqual(["cudnnCreateTensorDescriptor", *["cudnnSetTensor4dDescriptor"] * 3, "cudnnGetErrorString",
                          "cudnnDestroyTensorDescriptor"], calls)

    def test_process_without_cudnn_leaves_no_trace(self):
        code, _, calls = traced(["true"], dict(os.environ))
        self.assertEqual((0, []), (code, calls))

    def test_loops_are_written_once(self):
        calls = ["a", *["b", "c"] * 3, "b", "d", "d"]
        self.assertEqual("a\n3 x b, c\nb\n2 x d\n", trace_calls.text(calls))
        self.assertEqual(calls, trace_calls.expand(trace_calls.text(calls)))


if __name__ == "__main__":
    unittest.main()
