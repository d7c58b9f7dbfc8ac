"""Tests environment variables that begin like ucudnn's but do not exist. Each causes one line, which names the
most similar variable that exists, in a process with the drop-in and in the command. Also tests where reports may
be written."""

import os
import unittest

from alexnet_step import ALEXNET_STEP
from command import FolderTest

# "get" asks cuDNN's heuristics for algorithms; "find" would measure them, which takes long.
STEP = (ALEXNET_STEP, "1", "1", "64", "get")
# With these variables, a run reads its options and measures nothing.
QUICK = {"UCUDNN_TUNE": "off", "UCUDNN_DATABASE": "none", "UCUDNN_ENGINES": "legacy"}
TYPO = "UCUDNN_WORKSPACE_LIMT is no variable of ucudnn: it changes nothing; did you mean UCUDNN_WORKSPACE_LIMIT?\n"


class Variables(FolderTest):
    def run_program(self, *program, **variables):
        """Runs a program that must succeed. Returns (stderr, stdout)."""
        result = self.ended(0, "run", "--host", "--", *program, **QUICK | variables)
        return result.stderr, result.stdout

    def test_a_process_says_once_which_one_was_meant(self):
        errors, output = self.run_program(*STEP, UCUDNN_WORKSPACE_LIMT="1MiB")
        self.assertRegex(errors, r"\Aucudnn\[\d+\] warning: ")
        self.assertEqual(TYPO, errors.split(": ", 1)[1])
        known, expected = self.run_program(*STEP, UCUDNN_WORKSPACE_LIMT="", UCUDNN_SPATIAL_AGRE="")
        self.assertEqual("", known)
        self.assertEqual(expected.splitlines()[:5], output.splitlines()[:5])

    def test_each_variable_has_its_line(self):
        errors, _ = self.run_program(*STEP, UCUDNN_WORKSPACE_LIMT="1MiB", UCUDNN_DB="m.db")
        self.assertEqual(2, errors.count("\n"), errors)
        self.assertIn(TYPO, errors)
        self.assertIn("UCUDNN_DB is no variable of ucudnn: it changes nothing; did you mean UCUDNN_DATABASE?\n", errors)

    def test_a_process_that_calls_no_cudnn_says_nothing(self):
        self.assertEqual(("", ""), self.run_program("true", UCUDNN_WORKSPACE_LIMT="1MiB"))

    def test_the_command_says_it_once(self):
        plan = ("--layers", "layers.csv", "--ops", "forward", "--db", "s.db")
        self.write("rows.csv", "name,n,c,h,w,k,r,s,op,engine,micro_batch,time_ms,workspace_bytes,deterministic,device\n"
                   "conv1,8,3,16,16,8,3,3,forward,legacy:1,8,1.5,0,1,Some GPU\n")
        self.write("layers.csv", "name,n,c,h,w,k,r,s\nconv1,8,3,16,16,8,3,3\n")
        for words in (("cache", "import", "rows.csv", "--db", "s.db"), ("cache", "show", "--db", "s.db"), ("workspace", *plan),
                      ("bench", "--host", "--db", "none", "--layers", "layers.csv")):
            with self.subTest(words=words):
                result = self.ended(0, *words, **QUICK | {"UCUDNN_TUNE": "first", "UCUDNN_WORKSPACE_LIMT": "1MiB"})
                self.assertEqual(1, result.stderr.count("\n"), result.stderr)
                self.assertTrue(result.stderr.endswith(": " + TYPO), result.stderr)

    def test_folders_of_a_report_are_made(self):
        self.output("run", "--host", "--report", "no/such/%p/report.json", "--", *STEP, **QUICK)
        [process] = os.listdir(f"{self.folder}/no/such")
        self.assertTrue(process.isdigit(), process)
        self.assertEqual("ucudnn-report", self.load(f"no/such/{process}/report.json")["format"])

    def test_a_report_replaces_no_pipe_or_device(self):
        os.mkfifo(f"{self.folder}/pipe")
        errors, _ = self.run_program(*STEP, UCUDNN_REPORT=f"{self.folder}/pipe")
        self.assertIn(f"the report cannot be written: {self.folder}/pipe: not a regular file\n", errors)


if __name__ == "__main__":
    unittest.main()
