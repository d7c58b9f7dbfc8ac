"""Tests `ucudnn run`: the environment of the program that it starts, the libraries that it preloads, and programs that
cannot start or that the stand-ins of --host do not support. `run` always preloads the drop-in. It adds the dlsym hook
only if a part of the program opens cuDNN by its path."""

import json
import os
import shutil
import subprocess
import sys
import unittest

from command import PRINT_ENVIRONMENT, CommandTest

MAIN = "int main(void) { return 0; }"
# nvcc puts these sections into everything that it links, even without kernels.
FATBIN = "".join(f'__attribute__((section("{section}"))) int section{i} = 1;\n' for i, section in enumerate(
    (".nv_fatbin", ".nvFatBinSegment", "__nv_relfatbin", "__nv_module_id")))
# A program with kernels calls __cudaRegisterFunction for each of them.
KERNEL = "void __cudaRegisterFunction(void);\nvoid never_called(void) { __cudaRegisterFunction(); }\n"
# A static CUDA runtime has this string in its read-only data.
STATIC_CUDART = 'const char* volatile mark = "/cudart.shm.%x.%x.%llx";\n'
# A program or library with this string may open cuDNN by its path.
PATH = '\n__attribute__((used)) const char path[] = "/opt/cuda/lib64/libcudnn.so.9";'


class Run(CommandTest):
    def test_drop_in_is_preloaded_and_nothing_else_changes(self):
        plain = self.environment_of("run", "--off", "--", self.program)
        seen = self.environment_of("run", "--", self.program)
        self.assertEqual(self.drop_in, seen.pop("LD_PRELOAD"))
        self.assertEqual("off", plain.pop("UCUDNN_MODE"))
        self.assertEqual(plain, seen)

    def test_arguments_and_exit_code_are_the_programs(self):
        result = self.ended(7, "run", "--", self.program, "--policy")
        self.assertEqual([f"argument={self.program}", "argument=--policy"],
                         [line for line in result.stdout.splitlines() if line.startswith("argument=")])

    def test_second_separator_is_the_programs(self):
        result = self.run_command("run", "--", self.program, "a", "--", "b")
        self.assertIn("argument=--\nargument=b\n", result.stdout)

    def test_options_become_variables(self):
        self.write("b.db", "")
        seen = self.environment_of("run", "--policy", "all", "--workspace-limit", "64 MiB", "--db", "a.db:b.db",
                                   "--deterministic", "--report", "r-%p.json", "--", self.program)
        self.assertEqual({"UCUDNN_BATCH_SIZE_POLICY": "all", "UCUDNN_WORKSPACE_LIMIT": "64 MiB",
                          "UCUDNN_DATABASE": "a.db:b.db", "UCUDNN_DETERMINISTIC": "1", "UCUDNN_REPORT": "r-%p.json"},
                         {k: v for k, v in seen.items() if k.startswith("UCUDNN_")})

    def test_option_wins_over_the_variable(self):
        seen = self.environment_of("run", "--policy", "all", "--", self.program, UCUDNN_BATCH_SIZE_POLICY="undivided",
                                   UCUDNN_LOG="debug")
        self.assertEqual("all", seen["UCUDNN_BATCH_SIZE_POLICY"])
        self.assertEqual("debug", seen["UCUDNN_LOG"])

    def test_what_was_preloaded_stays_behind_the_drop_in(self):
        other = self.build("int other;", "other.so", "-shared")
        seen = self.environment_of("run", "--", self.program, LD_PRELOAD=other)
        self.assertEqual(f"{self.drop_in}:{other}", seen["LD_PRELOAD"])

    def test_program_is_looked_for_in_path(self):
        seen = self.environment_of("run", "--", "program", PATH=f"/nonexistent:{self.folder}")
        self.assertEqual("program", seen["argument"])

    def test_scripts_run(self):
        script = self.write("script", f"#!/bin/sh\nexec {self.program}\n", 0o755)
        self.assertEqual(self.drop_in, self.environment_of("run", "--", script)["LD_PRELOAD"])

    def test_works_where_the_command_is_reached_by_a_link(self):
        os.symlink(self.command, f"{self.folder}/link")
        self.command = f"{self.folder}/link"
        self.assertEqual(self.drop_in, self.environment_of("run", "--", self.program)["LD_PRELOAD"])

    def test_host_puts_the_stand_ins_in_front(self):
        seen = self.environment_of("run", "--host", "--", self.program, LD_LIBRARY_PATH="/before",
                                   UCUDNN_REAL_CUDNN="/real/libcudnn.so.9")
        self.assertEqual(f"{self.host}:/before:{self.driver}", seen["LD_LIBRARY_PATH"])
        self.assertEqual([self.drop_in, f"{self.host}/libcuda.so.1", f"{self.host}/libcudart.so.13"],
                         seen["LD_PRELOAD"].split(":"))
        self.assertEqual(f"{self.host}/libcudnn.so.9", seen["UCUDNN_REAL_CUDNN"])
        self.assertNotIn("HOSTGPU_DEVICES", seen)
        self.assertNotIn("HOSTGPU_MEMORY", seen)

    def test_host_sets_devices_and_memory(self):
        seen = self.environment_of("run", "--host", "--devices", "4", "--device-memory", "2GiB", "--", self.program)
        self.assertEqual(("4", "2GiB"), (seen["HOSTGPU_DEVICES"], seen["HOSTGPU_MEMORY"]))

    def test_host_off_preloads_the_stand_in_cudnn_alone(self):
        seen = self.environment_of("run", "--host", "--off", "--", self.program)
        self.assertEqual([f"{self.host}/{name}" for name in ("libcudnn.so.9", "libcuda.so.1", "libcudart.so.13")],
                         seen["LD_PRELOAD"].split(":"))
        self.assertEqual("off", seen["UCUDNN_MODE"])


class Refused(CommandTest):
    def test_static_executable(self):
        program = self.build("int main(void) { return 0; }", "static", "-static")
        self.assert_refused(["run", "--", program], "static executable", "LD_PRELOAD")
        self.assert_refused(["run", "--host", "--", program], "static executable")
        self.ended(0, "run", "--off", "--", program)

    @unittest.skipUnless(os.getuid() == 0, "only root can make a program of another user's setuid")
    def test_setuid_program(self):
        program = shutil.copy(self.program, f"{self.folder}/setuid")
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        self.assert_refused(["run", "--", program], "setuid", "LD_PRELOAD")

    def image(self):
        with open(self.program, "rb") as file:
            return bytearray(file.read())

    def test_program_of_another_machine(self):
        image = self.image()
        image[18:20] = (183).to_bytes(2, "little")  # sets e_machine to AArch64
        self.assert_refused(["run", "--", self.write("foreign", image, 0o755)], "not a 64-bit x86 program", code=126)

    def test_damaged_program(self):
        for length in (5, 20, 64, 200, 700):
            program = self.write(f"cut-{length}", self.image()[:length], 0o755)
            self.assert_refused(["run", "--", program], f"cut-{length}", code=126)

    def test_program_headers_that_lie_never_crash_the_command(self):
        for offset in range(16, 64 + 56 * 13, 2):
            damaged = self.image()
            damaged[offset:offset + 2] = b"\xff\xff"
            # The damaged program may end in any way; the doctor must still print its report.
            result = self.run_command("doctor", "--json", "--", self.write("damaged", damaged, 0o755))
            self.assertIn(result.returncode, (0, 1), f"offset {offset}")
            self.assertEqual("ucudnn-doctor", json.loads(result.stdout)["format"], f"offset {offset}")

    def test_installation_without_the_drop_in(self):
        self.command = shutil.copy(self.command, self.write("bare/bin/ucudnn", ""))
        self.assert_refused(["run", "--", self.program], f"'{self.folder}/bare/lib/ucudnn/libcudnn.so.9' is missing")

    def test_installation_in_a_folder_ld_preload_cannot_name(self):
        self.command = shutil.copytree(f"{self.folder}/installed", f"{self.folder}/with space") + "/bin/ucudnn"
        self.assert_refused(["run", "--", self.program], "space or colon")


class Host(CommandTest):
    def library(self, soname, source="int something;", folder="libraries", options=()):
        return self.build_library(source, f"{folder}/{soname}", *options)

    def linked(self, name, *libraries):
        return self.build(MAIN, name, "-Wl,--no-as-needed", *libraries)

    def assert_host_refuses(self, program, *expected, **variables):
        self.assert_refused(["run", "--host", "--", program], "ucudnn run: --host cannot run", program, *expected, **variables)
        self.ended(0, "run", "--", program, LD_LIBRARY_PATH=f"{self.folder}/libraries")

    def test_cuda_12_runtime_and_cudnn_8(self):
        for library, of in (("libcudart.so.12", "CUDA 12"), ("libcudnn.so.8", "cuDNN 8")):
            self.assert_host_refuses(self.linked("old", self.library(library)), f"it needs {library} ({of})")

    def test_cuda_12_behind_a_library_with_a_run_path(self):
        self.library("libcudart.so.12", folder="hidden")
        for kind in ("--enable-new-dtags", "--disable-new-dtags"):
            inner = self.library("libinner.so", options=(
                f"-Wl,{kind}", "-Wl,-rpath,$ORIGIN/../hidden", "-Wl,--no-as-needed",
                f"{self.folder}/hidden/libcudart.so.12"))
            program = self.linked("indirect", f"-Wl,-rpath,{self.folder}/libraries", inner)
            self.assert_host_refuses(program, "libinner.so needs libcudart.so.12 (CUDA 12)")

    def assert_starts(self, program, *notes, **variables):
        """Expects that `run` starts the program without a message, and that the doctor has exactly `notes` as findings
        about GPU code or a CUDA runtime "of its own"."""
        self.output("run", "--host", "--", program, **variables)
        findings = json.loads(self.run_command("doctor", "--json", "--host", "--", program, **variables).stdout)["findings"]
        told = [finding["what"] for finding in findings if " of its own" in finding["what"]]
        self.assertEqual(list(notes), told)

    def test_gpu_code_without_a_kernel(self):
        self.assert_starts(self.build(FATBIN + MAIN, "no-kernel"))

    def test_kernels_of_the_program_and_of_a_library_found_through_ld_library_path(self):
        # When the program runs, the loader uses the stand-in of the same name instead of this library.
        runtime = self.library("libcudart.so.13", "void __cudaRegisterFunction(void) {}", "toolkit")
        program = self.build(FATBIN + KERNEL + MAIN, "kernels", "-Wl,-z,lazy", runtime)
        self.assert_starts(program, f"{program} has GPU kernels of its own")
        kernels = self.library("libkernels.so", FATBIN + KERNEL, options=("-Wl,-z,lazy", runtime))
        program = self.linked("through-path", kernels, "-Wl,--allow-shlib-undefined")
        self.assert_starts(program, f"{kernels} has GPU kernels of its own", LD_LIBRARY_PATH=f"{self.folder}/libraries")

    def test_library_with_a_runtime_of_its_own(self):
        """NVIDIA's libraries contain a static CUDA runtime, which users cannot change. A program that is linked with
        such a library may never call it. So `run` starts the program, and the doctor has a note."""
        library = self.library("libcublasLt.so.13", FATBIN + STATIC_CUDART)
        program = self.linked("multiplying", library, f"-Wl,-rpath,{self.folder}/libraries")
        self.assert_starts(program, f"{library} has a CUDA runtime of its own")

    def test_static_cudart_also_when_stripped(self):
        program = self.build(STATIC_CUDART + MAIN, "static-cudart")
        self.assert_host_refuses(program, "static cudart", "NVCC_APPEND_FLAGS='-cudart shared'")
        subprocess.run(["strip", program], check=True)
        self.assert_host_refuses(program, "static cudart")

    def test_static_cudart_mark_across_a_read_boundary(self):
        for shift in range(0, 32, 5):
            source = f'const char filler[(1 << 20) - {shift}] = {{1}};\nconst char mark[] = "/cudart.shm.%x";\n' + MAIN
            self.assert_host_refuses(self.build(source, "boundary"), "static cudart")

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
        self.assertIn("libgone.so", self.ended(127, "run", "--host", "--", program).stderr)


class Reach(CommandTest):
    def preloads(self, *words, **variables):
        return self.environment_of("run", *words, **variables)["LD_PRELOAD"]

    def both(self):
        return f"{self.drop_in}:{self.dlsym_hook}"

    def reason(self, *words, **variables):
        """Returns the doctor's fact "reached by" for the program."""
        report = json.loads(self.run_command("doctor", "--json", "--", *words, **variables).stdout)
        return next(fact["text"] for fact in report["facts"] if fact["name"] == "reached by")

    def script(self, name, text, mode=0o755):
        return self.write(name, text, mode)

    def python(self, name, *modules):
        """Makes a Python environment with the files `modules` in site-packages. Its python prints the environment
        variables, whatever its arguments are. Returns the path of this python."""
        prefix = f"{self.folder}/{name}"
        for module in modules:
            self.write(f"{prefix}/lib/python3.11/site-packages/{module}", "")
        os.makedirs(f"{prefix}/bin", exist_ok=True)
        os.link(self.program, f"{prefix}/bin/python3.11")
        for link in "python", "python3":
            os.symlink("python3.11", f"{prefix}/bin/{link}")
        return f"{prefix}/bin/python3"

    COMPILED = "cudnn/_compiled_module.cpython-311-x86_64-linux-gnu.so"

    def test_program_is_reached_by_the_drop_in_alone(self):
        self.assertEqual(self.drop_in, self.preloads("--", self.program))

    def test_program_with_a_path_to_cudnn_gets_the_hook(self):
        program = self.build(PRINT_ENVIRONMENT + PATH, "with_path")
        self.assertEqual(self.both(), self.preloads("--", program))
        self.assertEqual(self.drop_in, self.preloads("--dlsym", "off", "--", program))

    def test_program_whose_library_has_a_path_to_cudnn_gets_the_hook(self):
        library = self.build_library(PATH, "libwith_path.so")
        program = self.build(PRINT_ENVIRONMENT, "with_library", "-Wl,--no-as-needed", library, f"-Wl,-rpath,{self.folder}")
        self.assertEqual(self.both(), self.preloads("--", program))

    def test_python_with_the_cudnn_package_gets_the_hook(self):
        self.assertEqual(self.drop_in, self.preloads("--", self.python("plain", "torch/__init__.py")))
        self.assertEqual(self.both(), self.preloads("--", self.python("frontend", self.COMPILED)))
        # A package "cudnn" without the compiled module is not NVIDIA's.
        self.assertEqual(self.drop_in, self.preloads("--", self.python("namesake", "cudnn/__init__.py")))

    def test_script_of_such_a_python_gets_the_hook(self):
        python = self.python("scripted", self.COMPILED)
        path = f"{os.path.dirname(python)}:{os.environ['PATH']}"
        for first in f"#!{python}", "#!/usr/bin/env python3", "#!/usr/bin/env -S python3":
            script = self.script("train", first + "\n")
            self.assertEqual(self.both(), self.preloads("--", script, "argument", PATH=path), first)
            # A hundred more arguments that name Python files do not change what is preloaded.
            many = [self.script(f"given/{i}.py", "import torch\n") for i in range(100)]
            self.assertEqual(self.both(), self.preloads("--", script, *many, PATH=path), first)

    def launched(self, python, name):
        """Yields (command, environment variables) for the ways in which people start Python."""
        script = self.script(f"{name}/start.sh", f"#!/bin/sh\n# begins\nexec {python} \"$@\"\n")
        in_path = f"{os.path.dirname(python)}:{os.environ['PATH']}"
        activate = self.script(f"{name}/bin/activate", "PATH=unknown", 0o644)
        yield ["env", "A=b", python], {}
        yield ["nice", python], {}
        yield ["timeout", "20", python], {}
        yield ["env", "nice", "-n", "1", "timeout", "20", "python3"], {"PATH": in_path}
        yield ["bash", "-c", "exec python3 a b"], {"PATH": in_path}
        yield ["nice", "sh", "-c", f"cd /;{python}"], {}
        yield [script], {}
        yield ["nice", script, "a", "b"], {}
        yield ["sh", self.script(f"{name}/unmarked", f"A='{python}'; exec $A\n", 0o644)], {}
        yield [self.script(f"{name}/outer.sh", f"#!/usr/bin/env bash\n. {script}\n")], {}
        yield [self.script(f"{name}/venv.sh", f"#!/bin/sh\n: . {activate}\nexec {self.program}\n")], {}

    def test_python_behind_launchers_and_shell_scripts_is_found(self):
        with_package = self.python("behind", self.COMPILED)
        without = self.python("behind_without", "torch/__init__.py")
        for words, variables in self.launched(with_package, "behind"):
            self.assertEqual(self.both(), self.preloads("--", *words, **variables), words)
        for words, variables in self.launched(without, "behind_without"):
            self.assertEqual(self.drop_in, self.preloads("--", *words, **variables), words)

    def test_python_that_is_a_version_managers_script_is_looked_for(self):
        self.python("manager/versions/3.11.7", self.COMPILED)
        self.python("other/versions/3.11.7", "torch/__init__.py")
        for manager, expected in ("manager", self.both()), ("other", self.drop_in):
            shims = os.path.dirname(self.script(f"{manager}/shims/python3", f"#!/bin/sh\nexec {self.program} a b\n"))
            self.assertEqual(expected, self.preloads("--", "python3", PATH=f"{shims}:{os.environ['PATH']}"), manager)
        # A version manager's shim may start any Python, but every Python finds the modules in PYTHONPATH.
        modules = f"{self.folder}/manager/versions/3.11.7/lib/python3.11/site-packages"
        self.assertEqual(self.both(), self.preloads("--", f"{self.folder}/other/shims/python3", PYTHONPATH=modules))

    def test_script_that_names_cudnn_gets_the_hook(self):
        python = self.python("reader", "torch/__init__.py")
        opens = "import ctypes, os\nctypes.CDLL(os.path.join('/opt', 'libcudnn.so.9'))\n"
        for words in (
                [python, self.script("names/opens.py", opens, 0o644), "a"],
                [python, "-u", self.script("names/opens", opens, 0o644)],
                ["nice", python, "names/opens.py", "a"],
                [self.script("names/marked", f"#!{python}\n{opens}"), "a"],
                [self.script("names/run.sh", f"#!/bin/sh\ncd .\nexec {python} names/opens.py a\n")],
                [python, "-c", opens],
                ["sh", "-c", f"exec {python} -c \"{opens}\""],
                [self.script("names/xla.sh", f"#!/bin/sh\nexport XLA_GPU_LIBRARY_PATH=/opt\nexec {self.program}\n")]):
            self.assertEqual(self.both(), self.preloads("--", *words), words)
        for words in (
                [python, self.script("names/plain.py", "import torch\n# not libcudnn.so.9\n"), "a"],
                [python, "names/plain.py", self.script("names/run.log", "loaded /opt/libcudnn.so.9\n", 0o644)]):
            self.assertEqual(self.drop_in, self.preloads("--", *words), words)

    def test_word_with_a_path_to_cudnn_gets_the_hook(self):
        for word in "/opt/libcudnn.so.9", "--cudnn=/opt/libcudnn.so", "lib/libcudnn.so.9.19.0":
            self.assertEqual(self.both(), self.preloads("--", self.program, word, "b"), word)
            self.assertEqual(self.both(), self.preloads("--", "nice", self.program, "a", word), word)
        self.assertEqual(self.both(), self.preloads("--", "env", "XLA_GPU_LIBRARY_PATH=/opt", self.program))
        self.assertEqual(self.drop_in, self.preloads("--", self.program, "libcudnn.so.9", "b"))

    def test_program_with_a_path_to_cudnn_is_found_behind_others(self):
        program = self.build(PRINT_ENVIRONMENT + PATH, "behind_others")
        script = self.script("start_others.sh", "#!/bin/sh\nexec ./behind_others\n")
        for words in ["nice", program], ["sh", "-c", "./behind_others"], [script]:
            self.assertEqual(self.both(), self.preloads("--", *words), words)

    def test_files_that_are_no_scripts_do_no_harm(self):
        folder = f"{self.folder}/odd"
        self.script("odd/a", f"#!{folder}/b\n")
        self.script("odd/b", f"#!{folder}/a\n")
        self.script("odd/self", f"#!{folder}/self\n")
        self.script("odd/nothing", "#!")
        self.script("odd/empty", "")
        self.script("odd/env", "#!/usr/bin/env -S A=b\n")
        self.script("odd/binary", b"#!/bin/sh\nexit\n" + bytes(range(256)) * 64 + b"/opt/libcudnn.so.9")
        self.script("odd/huge.py", b"a = 1\n" * (1 << 20) + b"'/opt/libcudnn.so.9'")
        self.script("odd/words.sh", " ".join(f"w{i}" for i in range(9000)))
        self.script("odd/damaged", b"\x7fELF" + b"\xff" * 60)
        self.script("odd/unreadable.sh", "#!/bin/sh\n", 0o111)
        os.mkfifo(f"{folder}/fifo", 0o777)
        os.mkdir(f"{folder}/folder.py")
        os.symlink("loop", f"{folder}/loop")
        os.symlink("nowhere", f"{folder}/dangling.py")
        words = sorted(f"odd/{name}" for name in os.listdir(folder))
        self.assertEqual(self.drop_in, self.preloads("--", self.program, "", *words))
        self.assertEqual(self.drop_in, self.preloads("--", "sh", "-c", f"exec {self.program}", *words, "\xff" * 9000))

    def test_doctor_says_what_it_cannot_look_through(self):
        plain = self.reason(self.program, "a", "b")
        self.assertEqual("preload, no dlsym hook (nothing seen opens cuDNN by its path)", plain)
        script = self.script("unseen.sh", f"#!/bin/sh\nexec {self.program}\n")
        for words, unseen in ([script], script), (["nice", "sh", "-c", self.program], "sh"), (["nice", script], script):
            self.assertEqual("preload, no dlsym hook (nothing seen opens cuDNN by its path, but "
                             f"{unseen} cannot be looked through: --dlsym on if what it starts does)", self.reason(*words))
        opens = self.script("seen.py", "name = 'libcudnn.so.9'\n")
        python = self.python("seen", "torch/__init__.py")
        self.assertEqual(f"preload and dlsym hook ({opens} names libcudnn)", self.reason("nice", python, opens))
        package = os.path.dirname(f"{self.folder}/told/lib/python3.11/site-packages/{self.COMPILED}")
        python = self.python("told", self.COMPILED)
        self.assertEqual(f"preload and dlsym hook ({package} opens cuDNN by its path)", self.reason("nice", python))

    def test_modules_of_the_environment_count(self):
        self.python("modules", self.COMPILED)
        python = self.python("without", "torch/__init__.py")
        modules = f"{self.folder}/modules/lib/python3.11/site-packages"
        self.assertEqual(self.both(), self.preloads("--", python, PYTHONPATH=modules))

    def test_packages_of_the_user_count(self):
        """Packages of `pip install --user` are found if Python would search the user's folder."""
        self.python("home/.local", self.COMPILED)
        home = f"{self.folder}/home"
        python = self.python("users", "torch/__init__.py")
        self.assertEqual(self.drop_in, self.preloads("--", python))
        self.assertEqual(self.both(), self.preloads("--", python, HOME=home))
        self.assertEqual(self.both(), self.preloads("--", python, PYTHONUSERBASE=f"{home}/.local"))
        self.assertEqual(self.drop_in, self.preloads("--", python, HOME=home, PYTHONUSERBASE=self.folder))
        self.assertEqual(self.drop_in, self.preloads("--", python, HOME=home, PYTHONNOUSERSITE="1"))
        # A virtual environment searches the user's folder only with include-system-site-packages.
        for value, expected in ("false", self.drop_in), ("true", self.both()):
            self.write("users/pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = {value}\nversion = 3.11.2\n")
            self.assertEqual(expected, self.preloads("--", python, HOME=home), value)

    def test_xla_told_to_open_libraries_by_path_gets_the_hook(self):
        self.assertEqual(self.both(), self.preloads("--", self.program, XLA_GPU_LIBRARY_PATH="/opt/cuda"))

    def test_hook_is_asked_for_and_kept_away(self):
        self.assertEqual(self.both(), self.preloads("--dlsym", "on", "--", self.program))
        self.assertNotIn("LD_PRELOAD", self.environment_of("run", "--off", "--dlsym", "on", "--", self.program))

    def test_this_python_is_looked_into(self):
        """The interpreter that runs this test is examined as well: the command finds a package in its PYTHONPATH."""
        self.write(f"own/{self.COMPILED}", "")
        words = ["--", sys.executable, "-c", "import os\nfor item in os.environ.items(): print('='.join(item))"]
        self.assertEqual(self.both(), self.preloads(*words, PYTHONPATH=f"{self.folder}/own"))


if __name__ == "__main__":
    unittest.main()
