"""Tests other people's programs on the stand-in, with and without limits. These are the convolution samples
of NVIDIA's cudnn-frontend and the convolution benchmark of Baidu's DeepBench. If a kernel exceeds the limit,
the report must say why. Needs nvcc, and the sources in the folders UCUDNN_TEST_STRANGERS_CUDNN_FRONTEND,
UCUDNN_TEST_STRANGERS_CATCH2 (version 3) and UCUDNN_TEST_STRANGERS_DEEPBENCH."""

import os
import shutil
import subprocess
import tempfile
import unittest

import program

FRONTEND, CATCH2, DEEPBENCH = (os.environ.get(f"UCUDNN_TEST_STRANGERS_{name}")
                               for name in ("CUDNN_FRONTEND", "CATCH2", "DEEPBENCH"))
TOOLKIT = os.environ.get("CUDA_PATH", "/usr/local/cuda")
LIMITS = ((), ("--workspace-limit", "1MiB"), ("--workspace-limit", "0"))
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive", "UCUDNN_TUNE_SECONDS": "1:20"}
# Excludes a benchmark that takes minutes, and a test with tensors of 4 GiB.
SAMPLES = '[conv]~[benchmark]~"Convolution fprop large",[dgrad],[wgrad]'
# DeepBench has a class that calls this function, which cuDNN 9 removed. The benchmark does not use the class.
REMOVED = """#include <cudnn.h>
template <class... A> cudnnStatus_t cudnnSetRNNDescriptor(A...) { return CUDNN_STATUS_NOT_SUPPORTED; }
"""


def words_of(kernel):
    """Returns the text with which a report's `fallbacks` entry about the kernel begins."""
    problem = kernel["problem"]

    def extents(*names):
        return "x".join(str(problem[name]) for name in names if name in problem)

    return (f"{kernel['op']} {problem['n']}x{problem['c']}x{extents('d', 'h', 'w')} -> {problem['k']}, "
            f"{extents('t', 'r', 's')} pad {extents('pad_d', 'pad_h', 'pad_w')} ")


class Strangers(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="ucudnn-strangers-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def ends_right(self, *words):
        for i, limit in enumerate(LIMITS):
            with self.subTest(program=words, limit=limit):
                path = f"{self.folder}/report-{i}.json"
                subprocess.run([program.COMMAND, "run", "--host", "--device-memory", "16GiB", "--db", "none", "--report", path,
                                *limit, "--", *words], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
                if limit:
                    self.excess_is_told(path)

    def excess_is_told(self, path):
        if not os.path.exists(path):
            return  # a program without convolutions that ucudnn plans writes no report
        report = program.read(path)
        os.remove(path)
        told = [fallback["kernel"] for fallback in report["fallbacks"]]
        for kernel in report["kernels"]:
            if kernel["workspace_bytes"] > kernel["limit_bytes"]:
                self.assertTrue(any(words.startswith(words_of(kernel)) for words in told), kernel)

    @unittest.skipUnless(FRONTEND and CATCH2, "no sources of cudnn-frontend and Catch2")
    def test_cudnn_frontend(self):
        subprocess.run(["cmake", "-S", FRONTEND, "-B", self.folder, f"-DFETCHCONTENT_SOURCE_DIR_CATCH2={CATCH2}",
                        "-DCUDNN_FRONTEND_BUILD_TESTS=OFF"], check=True)
        subprocess.run(["cmake", "--build", self.folder, "--target", "samples"], check=True)
        self.ends_right(f"{self.folder}/bin/samples", SAMPLES)

    @unittest.skipUnless(DEEPBENCH, "no sources of DeepBench")
    def test_deepbench(self):
        code = shutil.copytree(f"{DEEPBENCH}/code", f"{self.folder}/code")
        with open(f"{code}/nvidia/conv_bench.cu") as file:
            text = file.read().replace("num_repeats = 300", "num_repeats = 1")
        with open(f"{code}/nvidia/conv_bench.cu", "w") as file:
            file.write(text)
        with open(f"{self.folder}/removed.h", "w") as file:
            file.write(REMOVED)
        flags = f"-cudart shared -std=c++17 -include {self.folder}/removed.h -I{TOOLKIT}/include/cccl"
        subprocess.run(["make", "conv", f"CUDA_PATH={TOOLKIT}", f"CUDNN_PATH={TOOLKIT}", "ARCH=sm_80"],
                       cwd=f"{code}/nvidia", env=os.environ | {"NVCC_APPEND_FLAGS": flags}, check=True)
        for arguments in ("train float", "train half", "inference float", "inference half", "inference int8"):
            self.ends_right(f"{code}/nvidia/bin/conv_bench", *arguments.split())


if __name__ == "__main__":
    unittest.main()
