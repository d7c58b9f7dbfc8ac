"""Tests tools/gpu-check --pack. A pack has the files that a sitting needs and no others, works in another folder with an
empty environment, and is refused if one of its files would not start on another machine."""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

import elf
import machine
import pack

# These files have names of NVIDIA's libraries, but are ucudnn's own.
OWN = {f"build/release/{name}" for name in (
    "lib/ucudnn/libcudnn.so.9", "tests/gpu/trace/libcudnn.so.9", "tests/bench/null_cudnn/libcudnn.so.9",
    "tests/bench/null_forward/libcudnn.so.9")}
STAND_INS = {f"build/release/lib/ucudnn/host/{name}" for name in (
    "libcuda.so.1", "libcudart.so.13", "libcudnn.so.9", "libcurand.so.10", "libnccl.so.2")}


def packed(folder, host=False):
    """Makes a pack. Returns the exit code, stdout and stderr."""
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = pack.pack(folder, host)
    return code, output.getvalue(), errors.getvalue()


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def nvidia_like(files):
    return {name for name in files if re.match(r"lib(cu|nccl|nv)", pathlib.PurePath(name).name)}


class Pack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.folder = cls.holder / "pack"
        cls.result = packed(cls.folder)
        if cls.result[0] != 0:
            raise RuntimeError(cls.result[2])
        cls.elf_files = [path for path in cls.folder.rglob("*") if path.is_file() and elf.read(path)]

    def copy(self, name):
        """Copies a packed file to a new folder and returns the copy's path."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.holder))
        return shutil.copy(self.folder / "build/release" / name, folder / "file")

    def faults_after(self, name, old, new):
        """Returns the faults of a packed file in which the bytes `old` are replaced by `new`."""
        path = pathlib.Path(self.copy(name))
        data = path.read_bytes()
        self.assertEqual((1, len(old)), (data.count(old), len(new)))
        path.write_bytes(data.replace(old, new))
        return elf.faults(path.parent, "/nowhere")

    def test_holds_what_a_sitting_needs(self):
        files = names(self.folder)
        wanted = {"commit", "files", "tools/gpu-check", "tests/gpu/machine.py", "tests/gpu/pack.py", "tests/gpu/l2-layers.csv",
                  "tests/bench/record-table", "tests/unit/planner/digits/t10k-labels-idx1-ubyte",
                  "python/ucudnn/__init__.py", "python/ucudnn/spatial/__init__.py", "build/release/bin/ucudnn",
                  "build/release/lib/libucudnn.so.1", "build/release/tests/alexnet_step", "build/release/tests/striped_api",
                  "build/release/tests/bench/planned_bench", "build/release/tests/gpu/bin/convolution_cases"}
        self.assertEqual(set(), wanted - files)
        self.assertEqual(files - {"files"}, set((self.folder / "files").read_text().splitlines()))
        for name in ("tools/gpu-check", "tests/bench/record-table", "build/release/bin/ucudnn"):
            self.assertTrue(os.access(self.folder / name, os.X_OK), name)
        if "without diffusers" not in self.result[1]:
            self.assertEqual(set(pack.WHEELS), {path.name for path in (self.folder / "wheels").iterdir()})

    def test_holds_nothing_of_nvidia_and_no_stand_in(self):
        self.assertEqual(OWN, nvidia_like(names(self.folder)))
        self.assertNotIn("host", {path.name for path in self.folder.rglob("*")})

    def test_is_small_and_says_so(self):
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        mib = sum(path.stat().st_size for path in files) / 2**20
        self.assertLess(mib, pack.LIMIT_MIB)
        self.assertIn(f"{mib:.1f} MiB in {len(files)} files", self.result[1])

    def test_names_the_commit_and_its_day(self):
        self.assertRegex((self.folder / "commit").read_text(), r"^\S+ \d{4}-\d\d-\d\d\n$")
        described = subprocess.check_output(["git", "-C", machine.ROOT, "describe", "--always"], text=True).strip()
        self.assertTrue((self.folder / "commit").read_text().startswith(described))

    def test_prints_commands_for_both_sittings(self):
        commands = [line.strip() for line in self.result[1].splitlines() if "gpu-check" in line]
        self.assertEqual(2, len(commands))
        for command in commands:
            self.assertLessEqual(len(command), 2000)
            program, sitting = re.fullmatch(r"python3 (\S+) --sitting ([AB])( --resume)? --output \$OUT", command).groups()[:2]
            self.assertTrue(pathlib.Path(program).exists())
        self.assertIn("2000 at most: choose another folder", self.refusal(self.holder / "/".join(["x" * 200] * 10)))

    def test_programs_start_elsewhere(self):
        self.assertGreater(len(self.elf_files), 20)
        self.assertEqual([], elf.faults(self.folder / "build", machine.BUILD))

    @unittest.skipUnless(shutil.which("readelf"), "no readelf")
    def test_headers_are_those_that_readelf_shows(self):
        for path in self.elf_files:
            shown = subprocess.check_output(["readelf", "-dSW", path], text=True)
            read = elf.read(path)
            self.assertEqual(re.findall(r"\(NEEDED\).*\[(.*)\]", shown), read.needed, path)
            self.assertEqual(re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", shown), read.run_paths, path)
            self.assertEqual("".join(re.findall(r"\(SONAME\).*\[(.*)\]", shown)), read.soname, path)
            self.assertEqual(".symtab" not in shown, read.stripped, path)

    def test_planted_faults_are_found(self):
        self.assertIn("file looks in /usr/local/lib",
                      self.faults_after("tests/striped_api", b"$ORIGIN/../lib\0", b"/usr/local/lib\0"))
        self.assertIn("file looks in the current folder",
                      self.faults_after("tests/bench/wr_bench", b"$ORIGIN\0", b":ORIGIN\0"))
        self.assertIn("file needs libcudart.so.12",
                      self.faults_after("tests/alexnet_step", b"libcudart.so.13\0", b"libcudart.so.12\0"))
        self.assertIn("file needs libucudnn.so.1", elf.faults(pathlib.Path(self.copy("tests/striped_api")).parent, "/nowhere"))
        whole = pathlib.Path(self.copy("tests/alexnet_step"))
        self.assertEqual([], elf.faults(whole.parent, "/nowhere"))
        shutil.copy(machine.BUILD / "tests/alexnet_step", whole)
        with whole.open("ab") as file:
            file.write(b"/nowhere/lib")
        self.assertEqual(["file is not stripped", "file holds the path /nowhere"], elf.faults(whole.parent, "/nowhere"))
        for size in (40, 100, 5000):
            whole.write_bytes(whole.read_bytes()[:size] if size < whole.stat().st_size else b"\x7fELF")
            with self.assertRaises(ValueError):
                elf.faults(whole.parent, "/nowhere")

    def refusal(self, folder, host=False):
        code, output, errors = packed(folder, host)
        self.assertEqual((1, "", 1), (code, output, errors.count("\n")), errors)
        return errors

    def test_refuses_a_folder_that_holds_something_else(self):
        foreign = self.holder / "foreign"
        (foreign / "tests/gpu").mkdir(parents=True)
        (foreign / "tests/gpu/mine.py").write_text("mine")
        self.assertIn("tests/gpu/mine.py is there", self.refusal(foreign))
        self.assertEqual({"tests/gpu/mine.py"}, names(foreign))
        self.assertIn("not a folder", self.refusal(foreign / "tests/gpu/mine.py"))
        shutil.copytree(self.folder, self.holder / "sat")
        (self.holder / "sat/tests/gpu/results").mkdir(exist_ok=True)
        (self.holder / "sat/tests/gpu/results/of-a-sitting.json").write_text("{}")
        self.assertIn("of-a-sitting.json is there", self.refusal(self.holder / "sat"))

    def test_refuses_a_folder_that_git_would_take_in(self):
        for folder in (machine.ROOT, machine.ROOT / "tests/gpu/new"):
            self.assertIn("neither ignored by git nor outside the checkout", self.refusal(folder))
        self.assertFalse((machine.ROOT / "tests/gpu/new").exists())
        pack.may_write(machine.ROOT / "build/some-pack")

    def test_refuses_what_is_too_much_or_not_built_and_leaves_what_was_there(self):
        before = names(self.folder)
        with unittest.mock.patch.object(pack, "LIMIT_MIB", 5), unittest.mock.patch.object(pack, "add_facts"):
            self.assertRegex(self.refusal(self.folder), r"MiB to pack, 5 at most: build/release/bin/ucudnn \d")
        with unittest.mock.patch.object(machine, "BUILD", self.holder / "empty"):
            self.assertIn("configure the build first", self.refusal(self.folder))
        self.assertEqual(before, names(self.folder))
        self.assertEqual([], [path for path in self.holder.iterdir() if path.name.startswith(".")])

    def test_without_wheels_it_says_what_is_skipped(self):
        with unittest.mock.patch.object(pack, "add_wheels", return_value="no network"), \
                unittest.mock.patch.object(pack, "add_facts"):
            code, output, _ = packed(self.holder / "wheelless")
        self.assertEqual(0, code)
        self.assertIn("without diffusers, so what decodes pictures with a VAE is skipped: no network\n", output)


class HostPack(unittest.TestCase):
    """Makes a pack with stand-ins, which replaces an earlier pack, and moves it to another folder."""

    @classmethod
    def setUpClass(cls):
        holder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        folder = holder / "pack"
        with unittest.mock.patch.object(pack, "add_facts"):
            first = packed(folder)
            (folder / "tests/gpu/__pycache__").mkdir()
            (folder / "tests/gpu/__pycache__/machine.pyc").touch()
            cls.before = names(folder)
            cls.result = packed(folder, host=True)
        if first[0] != 0 or cls.result[0] != 0:
            raise RuntimeError(first[2] + cls.result[2])
        cls.folder = holder / "elsewhere"
        shutil.copytree(folder, cls.folder)
        folder.rename(holder / "away")
        cls.build = cls.folder / "build/release"

    def run_there(self, *words):
        """Runs a program, which must succeed, with an empty environment, and returns its stdout."""
        result = subprocess.run([str(word) for word in words], env={}, cwd="/", capture_output=True, text=True, timeout=300)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stdout

    def test_the_second_replaces_the_first_and_adds_the_stand_in(self):
        self.assertNotIn("__pycache__", {path.name for path in self.folder.rglob("*")})
        added = names(self.folder) - self.before
        self.assertEqual(STAND_INS, nvidia_like(added))
        self.assertIn("build/release/lib/ucudnn/host/libdnnl", " ".join(sorted(added)))
        self.assertEqual({"build/release/lib/ucudnn/host"}, {str(pathlib.PurePath(name).parent) for name in added})
        self.assertEqual([], elf.faults(self.folder / "build", machine.BUILD))
        self.assertEqual(2, self.result[1].count("gpu-check --host --sitting "))

    def test_the_command_starts(self):
        self.assertIn("Usage: ucudnn", self.run_there(self.build / "bin/ucudnn", "--help"))

    def test_a_program_runs_on_the_stand_in(self):
        program = [self.build / "tests/alexnet_step", "2", "1"]
        output = self.run_there(self.build / "bin/ucudnn", "run", "--host", "--db", "none", "--", *program)
        self.assertRegex(output, r"conv5 +y [0-9a-f]{16}")

    def test_benches_find_what_they_open(self):
        for name, which in (("planned_bench", "FirstCall"), ("forward_bench", ".")):
            options = ["--benchmark_format=json", f"--benchmark_filter={which}"]
            output = self.run_there(self.build / "tests/bench" / name, *options)
            row, = json.loads(output[output.index("{"):])["benchmarks"]
            self.assertGreater(row["real_time"], 0)


if __name__ == "__main__":
    unittest.main()
