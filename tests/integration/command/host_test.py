"""`ucudnn run --host`: programs that the stand-ins cannot serve are named with the reason before they start."""

import json
import os
import subprocess
import unittest

from command import CommandTest

MAIN = "int main(void) { return 0; }"
# nvcc puts these into everything that it links, with kernels or without.
FATBIN = "".join(f'__attribute__((section("{section}"))) int section{i} = 1;\n' for i, section in enumerate(
    (".nv_fatbin", ".nvFatBinSegment", "__nv_relfatbin", "__nv_module_id")))
# A program with kernels calls this for each of them.
KERNEL = "void __cudaRegisterFunction(void);\nvoid never_called(void) { __cudaRegisterFunction(); }\n"
# The read-only data of a linked-in CUDA runtime holds this.
STATIC_CUDART = 'const char* volatile mark = "/cudart.shm.%x.%x.%llx";\n'


class Host(CommandTest):
    def library(self, soname, source="int something;", folder="libraries", options=()):
        os.makedirs(f"{self.folder}/{folder}", exist_ok=True)
        return self.build(source, f"{self.folder}/{folder}/{soname}", "-shared", f"-Wl,-soname,{soname}", *options)

    def linked(self, name, *libraries):
        return self.build(MAIN, f"{self.folder}/{name}", "-Wl,--no-as-needed", *libraries)

    def assert_host_refuses(self, program, *expected, **variables):
        self.assert_refused(["run", "--host", "--", program], "ucudnn run: --host cannot run", program, *expected, **variables)
        self.assertEqual(0, self.run_command("run", "--", program, LD_LIBRARY_PATH=f"{self.folder}/libraries").returncode)

    def test_cuda_12_runtime(self):
        self.assert_host_refuses(self.linked("cuda12", self.library("libcudart.so.12")), "it needs libcudart.so.12 (CUDA 12)")

    def test_cudnn_8(self):
        self.assert_host_refuses(self.linked("cudnn8", self.library("libcudnn.so.8")), "it needs libcudnn.so.8 (cuDNN 8)")

    def test_cuda_12_behind_a_library_with_a_run_path(self):
        self.library("libcudart.so.12", folder="hidden")
        for kind in ("--enable-new-dtags", "--disable-new-dtags"):
            inner = self.library("libinner.so", options=(
                f"-Wl,{kind}", "-Wl,-rpath,$ORIGIN/../hidden", "-Wl,--no-as-needed",
                f"{self.folder}/hidden/libcudart.so.12"))
            program = self.linked("indirect", f"-Wl,-rpath,{self.folder}/libraries", inner)
            self.assert_host_refuses(program, "libinner.so needs libcudart.so.12 (CUDA 12)")

    def assert_starts(self, program, *notes, **variables):
        """Expects that the program starts without a message. The doctor, which tells more, has exactly these notes about it."""
        self.output("run", "--host", "--", program, **variables)
        findings = json.loads(self.run_command("doctor", "--json", "--host", "--", program, **variables).stdout)["findings"]
        told = [finding["what"] for finding in findings if " of its own" in finding["what"]]
        self.assertEqual(list(notes), told)

    def runtime(self):
        """Returns a CUDA runtime to link with; the loader takes the stand-in of its name instead."""
        return self.library("libcudart.so.13", "void __cudaRegisterFunction(void) {}", "toolkit")

    def test_gpu_code_without_a_kernel(self):
        self.assert_starts(self.build(FATBIN + MAIN, f"{self.folder}/no-kernel"))

    def test_kernels_of_the_program_are_its_launches_matter(self):
        program = self.build(FATBIN + KERNEL + MAIN, f"{self.folder}/kernels", "-Wl,-z,lazy", self.runtime())
        self.assert_starts(program, f"{program} has GPU kernels of its own")

    def test_kernels_of_a_library_found_through_ld_library_path(self):
        kernels = self.library("libkernels.so", FATBIN + KERNEL, options=("-Wl,-z,lazy", self.runtime()))
        program = self.linked("through-path", kernels, "-Wl,--allow-shlib-undefined")
        self.assert_starts(program, f"{kernels} has GPU kernels of its own", LD_LIBRARY_PATH=f"{self.folder}/libraries")

    def test_library_with_a_runtime_of_its_own(self):
        """NVIDIA's libraries have one: nobody can link them otherwise, and the program may never call them."""
        library = self.library("libcublasLt.so.13", FATBIN + STATIC_CUDART)
        program = self.linked("multiplying", library, f"-Wl,-rpath,{self.folder}/libraries")
        self.assert_starts(program, f"{library} has a CUDA runtime of its own")

    def test_static_cudart_also_when_stripped(self):
        program = self.build(STATIC_CUDART + MAIN, f"{self.folder}/static-cudart")
        self.assert_host_refuses(program, "static cudart", "NVCC_APPEND_FLAGS='-cudart shared'")
        subprocess.run(["strip", program], check=True)
        self.assert_host_refuses(program, "static cudart")

    def test_static_cudart_mark_across_a_read_boundary(self):
        for shift in range(0, 32, 5):
            source = f'const char filler[(1 << 20) - {shift}] = {{1}};\nconst char mark[] = "/cudart.shm.%x";\n' + MAIN
            self.assert_host_refuses(self.build(source, f"{self.folder}/boundary"), "static cudart")

    def test_static_executable(self):
        program = self.build(MAIN, f"{self.folder}/static", "-static")
        self.assert_refused(["run", "--host", "--", program], "static executable")

    def test_real_libraries_the_stand_ins_replace_are_not_looked_into(self):
        real = self.library("libcudnn.so.9", FATBIN + STATIC_CUDART, options=(
            "-Wl,--no-as-needed", self.library("libcudart.so.12", folder="hidden")))
        program = self.linked("ordinary", f"-Wl,--disable-new-dtags,-rpath,{self.folder}/libraries", real,
                              self.library("libcudart.so.13", FATBIN))
        self.output("run", "--host", "--", program)

    def test_missing_library_is_left_to_the_loader_to_report(self):
        path = self.library("libgone.so")
        program = self.linked("incomplete", path)
        os.remove(path)
        result = self.run_command("run", "--host", "--", program)
        self.assertEqual(127, result.returncode)
        self.assertIn("libgone.so", result.stderr)


if __name__ == "__main__":
    unittest.main()
