"""`ucudnn doctor`: what it says of a machine, and its exit code."""

import os
import shutil
import subprocess
import tempfile
import unittest

from command import CommandTest


class Doctor(CommandTest):
    def diagnose(self, *words, **variables):
        result = self.run_command("doctor", *words, **variables)
        self.assertEqual("", result.stderr)
        lines = {line[:16].strip(): line[16:] for line in result.stdout.splitlines() if line[:1].strip()}
        return result.returncode, lines, result.stdout

    def test_whole_installation_works_on_the_host(self):
        code, lines, _ = self.diagnose()
        self.assertEqual(0, code)
        self.assertEqual(self.drop_in, lines["drop-in"])
        self.assertEqual(self.host, lines["stand-ins"])
        self.assertEqual("works", lines["run --host"])

    def test_bare_installation_does_not_work(self):
        bare = tempfile.mkdtemp(dir=self.folder)
        os.mkdir(f"{bare}/bin")
        shutil.copy(self.command, f"{bare}/bin/ucudnn")
        result = subprocess.run([f"{bare}/bin/ucudnn", "doctor"], capture_output=True, text=True)
        self.assertEqual(1, result.returncode)
        self.assertRegex(result.stdout, r"run --host +no: .*libcuda.so.1 is missing")

    def test_genuine_cudnn_is_named_with_its_version(self):
        folder = f"{self.folder}/genuine"
        os.makedirs(folder)
        self.build("unsigned long cudnnGetVersion(void) { return 91234; }", f"{folder}/libcudnn.so.9", "-shared",
                   "-Wl,-soname,libcudnn.so.9")
        _, lines, _ = self.diagnose(UCUDNN_REAL_CUDNN=f"{folder}/libcudnn.so.9")
        self.assertEqual(f"9.12.34, {folder}/libcudnn.so.9", lines["genuine cuDNN"])

    def test_store_that_cannot_be_written_is_told(self):
        _, lines, _ = self.diagnose(UCUDNN_DATABASE=f"{self.program}/m.db")
        self.assertEqual(f"{self.program}/m.db (no: {self.program} is not a folder)", lines["store"])
        _, lines, _ = self.diagnose(UCUDNN_DATABASE=f"{self.folder}/new/folder/m.db")
        self.assertEqual(f"{self.folder}/new/folder/m.db (made when first used)", lines["store"])
        _, lines, _ = self.diagnose(UCUDNN_DATABASE="none")
        self.assertIn("none", lines["store"])

    def test_variable_that_is_ignored_is_told(self):
        _, lines, text = self.diagnose(UCUDNN_BATCH_SIZE_POLICY="foo")
        self.assertEqual("UCUDNN_BATCH_SIZE_POLICY=foo", lines["environment"])
        self.assertIn("UCUDNN_BATCH_SIZE_POLICY='foo' is ignored", text)

    def test_program_that_cannot_be_served_is_told_why(self):
        program = self.build("int main(void) { return 0; }", f"{self.folder}/static", "-static")
        code, lines, _ = self.diagnose("--", program)
        self.assertEqual(1, code)
        self.assertIn("static executable", lines["run"])
        code, lines, _ = self.diagnose("--", "no-such-program")
        self.assertEqual(1, code)
        self.assertIn("'no-such-program' is not in PATH", lines["run --host"])

    def test_program_without_cudnn_of_its_own_is_told(self):
        code, lines, _ = self.diagnose("--", self.program)
        self.assertEqual(0, code)
        self.assertIn("does not name libcudnn.so.9", lines["program"])


if __name__ == "__main__":
    unittest.main()
