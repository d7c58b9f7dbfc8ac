"""Tests programs that nvcc links, on the stand-in. nvcc links a section of GPU code into every program, even without
kernels, and by default a static CUDA runtime. Needs a machine with nvcc."""

import os
import shutil
import subprocess
import tempfile
import unittest

import program

NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")

# This program has no kernels.
PLAIN = r"""
#include <cuda_runtime.h>
int main() {
  void* memory = nullptr;
  return cudaMalloc(&memory, 1024) != cudaSuccess || cudaFree(memory) != cudaSuccess;
}
"""

# With an argument, this program launches a kernel twice. It prints the error of each launch, and then the device's
# error.
KERNEL = r"""
#include <cuda_runtime.h>
#include <cstdio>
template <class T> __global__ void Scale(T* x, T by) { x[threadIdx.x] *= by; }
int main(int argc, char**) {
  float* memory = nullptr;
  cudaMalloc(&memory, 1024);
  for (int i = 0; argc > 1 && i < 2; ++i) {
    Scale<<<1, 32>>>(memory, 2.0f);
    std::printf("%s ", cudaGetErrorName(cudaGetLastError()));
  }
  std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""

# With an argument, this program makes handles of cuBLASLt, which has kernels and its own copy of the CUDA runtime.
MULTIPLY = r"""
#include <cublasLt.h>
#include <cstdio>
int main(int argc, char**) {
  for (int i = 1; argc > 1 && i < 3; ++i) {
    cublasLtHandle_t handle = nullptr;
    std::puts(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS ? "made" : "failed");
  }
  return cublasLtGetVersion() == 0;
}
"""

# This program fills device memory with Thrust, which launches kernels, and with cuRAND, which has a stand-in.
FILL = r"""
#include <cstdio>
#include <curand.h>
#include <thrust/device_ptr.h>
#include <thrust/fill.h>
int main() {
  float* memory = nullptr;
  float numbers[4] = {};
  cudaMalloc(&memory, sizeof numbers);
  thrust::fill(thrust::device_ptr<float>(memory), thrust::device_ptr<float>(memory + 4), 2.0f);
  cudaMemcpy(numbers, memory, sizeof numbers, cudaMemcpyDeviceToHost);
  std::printf("%g %g\n", numbers[0], numbers[3]);
  curandGenerator_t generator;
  if (curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT) != CURAND_STATUS_SUCCESS) return 1;
  if (curandGenerateUniform(generator, memory, 4) != CURAND_STATUS_SUCCESS) return 2;
  cudaMemcpy(numbers, memory, sizeof numbers, cudaMemcpyDeviceToHost);
  return numbers[3] > 0 && numbers[3] <= 1 ? curandDestroyGenerator(generator) : 3;
}
"""


@unittest.skipIf(NVCC is None, "no nvcc")
class Nvcc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.realpath(tempfile.mkdtemp(prefix="ucudnn-nvcc-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def link(self, source, name, *options, **variables):
        with open(f"{self.folder}/{name}.cu", "w") as file:
            file.write(source)
        subprocess.run([NVCC, f"{name}.cu", "-o", name, *options], cwd=self.folder, env=os.environ | variables, check=True)
        return f"{self.folder}/{name}"

    def run_host(self, *words):
        return program.run(words, environment=program.without_settings("LD_"), timeout=60)

    def test_program_without_a_kernel(self):
        for options in ((), ("-rdc=true",)):
            result = self.run_host(self.link(PLAIN, "plain", "-cudart", "shared", *options))
            self.assertEqual((0, ""), (result.returncode, result.stderr))

    def test_default_runtime_is_refused_and_the_advice_helps(self):
        result = self.run_host(self.link(PLAIN, "static"))
        self.assertEqual(2, result.returncode)
        self.assertIn("NVCC_APPEND_FLAGS='-cudart shared'", result.stderr)
        result = self.run_host(self.link(PLAIN, "static", NVCC_APPEND_FLAGS="-cudart shared"))
        self.assertEqual((0, ""), (result.returncode, result.stderr))

    def test_kernel_that_is_never_launched(self):
        result = self.run_host(self.link(KERNEL, "kernel", "-cudart", "shared"))
        self.assertEqual(("cudaSuccess\n", "", 0), (result.stdout, result.stderr, result.returncode))

    def test_launch_of_a_kernel_is_an_error_that_names_it_once(self):
        result = self.run_host(self.link(KERNEL, "launch", "-cudart", "shared"), "launch")
        self.assertEqual(("cudaErrorNotSupported cudaErrorNotSupported cudaSuccess\n", 0),
                         (result.stdout, result.returncode))
        self.assertEqual("hostgpu: the kernel void Scale<float>(float*, float) cannot run: the CPU stand-in runs no device "
                         "code; its launches return cudaErrorNotSupported\n", result.stderr)

    def test_library_with_a_runtime_of_its_own(self):
        multiply = self.link(MULTIPLY, "multiply", "-cudart", "shared", "-lcublasLt")
        result = self.run_host(multiply)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        result = self.run_host(multiply, "call")
        self.assertEqual(("failed\nfailed\n", 0), (result.stdout, result.returncode), result.stderr)
        self.assertEqual(1, result.stderr.count("\n"), result.stderr)
        self.assertRegex(result.stderr, r"^hostgpu: \S*libcublasLt\S* has a CUDA runtime of its own")

    def test_preparing_tensors_with_thrust_and_curand(self):
        result = self.run_host(self.link(FILL, "fill", "-cudart", "shared", "-lcurand"))
        self.assertEqual(("2 2\n", "", 0), (result.stdout, result.stderr, result.returncode))


if __name__ == "__main__":
    unittest.main()
