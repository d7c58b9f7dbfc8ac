"""`ucudnn run`: what the started program finds in its environment, and programs that cannot be started so."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from command import CommandTest


class Run(CommandTest):
    def test_drop_in_is_preloaded_and_nothing_else_changes(self):
        plain = self.environment_of("run", "--off", "--", self.program)
        seen = self.environment_of("run", "--", self.program)
        self.assertEqual(self.drop_in, seen.pop("LD_PRELOAD"))
        self.assertEqual("off", plain.pop("UCUDNN_MODE"))
        self.assertEqual(plain, seen)

    def test_arguments_and_exit_code_are_the_programs(self):
        result = self.run_command("run", "--", self.program, "--policy")
        self.assertEqual(7, result.returncode)
        self.assertEqual([f"argument={self.program}", "argument=--policy"],
                         [line for line in result.stdout.splitlines() if line.startswith("argument=")])

    def test_second_separator_is_the_programs(self):
        result = self.run_command("run", "--", self.program, "a", "--", "b")
        self.assertIn("argument=--\nargument=b\n", result.stdout)

    def test_options_become_variables(self):
        open(f"{self.folder}/b.db", "w").close()
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
        other = self.build("int other;", f"{self.folder}/other.so", "-shared")
        seen = self.environment_of("run", "--", self.program, LD_PRELOAD=other)
        self.assertEqual(f"{self.drop_in}:{other}", seen["LD_PRELOAD"])

    def test_program_is_looked_for_in_path(self):
        seen = self.environment_of("run", "--", "program", PATH=f"/nonexistent:{self.folder}")
        self.assertEqual("program", seen["argument"])

    def test_scripts_run(self):
        script = f"{self.folder}/script"
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\nexec {self.program}\n")
        os.chmod(script, 0o755)
        self.assertEqual(self.drop_in, self.environment_of("run", "--", script)["LD_PRELOAD"])

    def test_works_where_the_command_is_reached_by_a_link(self):
        link = f"{self.folder}/link"
        os.symlink(self.command, link)
        result = subprocess.run([link, "run", "--", self.program], capture_output=True, text=True)
        self.assertIn(f"LD_PRELOAD={self.drop_in}\n", result.stdout)

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
        program = self.build("int main(void) { return 0; }", f"{self.folder}/static", "-static")
        self.assert_refused(["run", "--", program], "static executable", "LD_PRELOAD")
        self.assertEqual(0, self.run_command("run", "--off", "--", program).returncode)

    @unittest.skipUnless(os.getuid() == 0, "only root can make a program of another user's setuid")
    def test_setuid_program(self):
        program = shutil.copy(self.program, f"{self.folder}/setuid")
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        self.assert_refused(["run", "--", program], "setuid", "LD_PRELOAD")

    def test_program_of_another_machine(self):
        with open(self.program, "rb") as file:
            image = bytearray(file.read())
        image[18:20] = (183).to_bytes(2, "little")  # e_machine: AArch64
        self.assert_refused(["run", "--", self.write("foreign", image, 0o755)], "not a 64-bit x86 program", code=126)

    def test_damaged_program(self):
        with open(self.program, "rb") as file:
            image = file.read()
        for length in (5, 20, 64, 200, 700):
            self.assert_refused(["run", "--", self.write(f"cut-{length}", image[:length], 0o755)], f"cut-{length}", code=126)

    def test_program_headers_that_lie_never_crash_the_command(self):
        with open(self.program, "rb") as file:
            image = file.read()
        for offset in range(16, 64 + 56 * 13, 2):
            damaged = bytearray(image)
            damaged[offset:offset + 2] = b"\xff\xff"
            # The doctor survives what it starts, which may end in any way.
            result = self.run_command("doctor", "--json", "--", self.write("damaged", damaged, 0o755))
            self.assertIn(result.returncode, (0, 1), f"offset {offset}")
            self.assertEqual("ucudnn-doctor", json.loads(result.stdout)["format"], f"offset {offset}")

    def test_installation_without_the_drop_in(self):
        bare = tempfile.mkdtemp(dir=self.folder)
        os.mkdir(f"{bare}/bin")
        shutil.copy(self.command, f"{bare}/bin/ucudnn")
        result = subprocess.run([f"{bare}/bin/ucudnn", "run", "--", self.program], capture_output=True, text=True)
        self.assertEqual(2, result.returncode)
        self.assertIn(f"'{bare}/lib/ucudnn/libcudnn.so.9' is missing", result.stderr)

    def test_installation_in_a_folder_ld_preload_cannot_name(self):
        spaced = shutil.copytree(f"{self.folder}/installed", f"{self.folder}/with space")
        result = subprocess.run([f"{spaced}/bin/ucudnn", "run", "--", self.program], capture_output=True, text=True)
        self.assertEqual(2, result.returncode)
        self.assertIn("space or colon", result.stderr)


if __name__ == "__main__":
    unittest.main()
