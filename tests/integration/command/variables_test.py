"""Variables of the environment that ucudnn does not know, in a process under its preload and in the command: each gives one
line, which names the nearest known one."""

import os
import unittest

from command import FolderTest

ALEXNET_STEP = os.environ["UCUDNN_TEST_ALEXNET_STEP"]
# cuDNN's own measuring (find) would take long.
STEP = (ALEXNET_STEP, "1", "1", "64", "get")
# This is the quickest run that reads its options.
QUICK = {"UCUDNN_TUNE": "off", "UCUDNN_DATABASE": "none", "UCUDNN_ENGINES": "legacy"}
TYPO = "UCUDNN_WORKSPACE_LIMT is no variable of ucudnn: it changes nothing; did you mean UCUDNN_WORKSPACE_LIMIT?\n"


class Variables(FolderTest):
    def run_words(self, *words, **variables):
        return self.run_command(*words, **QUICK | variables)

    def run_program(self, *program, **variables):
        """Returns the program's messages on stderr, and its output."""
        result = self.run_words("run", "--host", "--", *program, **variables)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stderr, result.stdout

    def test_a_process_says_once_which_one_was_meant(self):
        errors, output = self.run_program(*STEP, UCUDNN_WORKSPACE_LIMT="1MiB")
        self.assertRegex(errors, r"\Aucudnn\[\d+\] warning: ")
        self.assertEqual(TYPO, errors.split(": ", 1)[1])
        known, expected = self.run_program(*STEP, UCUDNN_WORKSPACE_LIMT="")
        self.assertEqual("", known)
        self.assertEqual(expected.splitlines()[:5], output.splitlines()[:5])

    def test_each_variable_has_its_line(self):
        errors, _ = self.run_program(*STEP, UCUDNN_WORKSPACE_LIMT="1MiB", UCUDNN_DB="m.db")
        self.assertEqual(2, errors.count("\n"), errors)
        self.assertIn(TYPO, errors)
        self.assertIn("UCUDNN_DB is no variable of ucudnn: it changes nothing; did you mean UCUDNN_DATABASE?\n", errors)

    def test_a_process_that_calls_no_cudnn_says_nothing(self):
        self.assertEqual(("", ""), self.run_program("true", UCUDNN_WORKSPACE_LIMT="1MiB"))

    def test_variables_of_tests_and_tools_are_known(self):
        errors, _ = self.run_program(*STEP, UCUDNN_TEST_ANYTHING="1", UCUDNN_TRACE="1", UCUDNN_IGNORE_TOOLKIT="1")
        self.assertEqual("", errors)

    def test_the_command_does_not_start_with_a_misspelt_one_of_splitting(self):
        line = "UCUDNN_SPATIAL_AGRE is no variable of ucudnn: nothing runs with it; did you mean UCUDNN_SPATIAL_AGREE?\n"
        result = self.run_words("run", "--host", "--", *STEP, UCUDNN_SPATIAL_AGRE="each")
        self.assertEqual((2, "", f"ucudnn run: {line}"), (result.returncode, result.stdout, result.stderr))
        self.assertEqual("", self.run_program(*STEP, UCUDNN_SPATIAL_AGRE="")[0])

    def test_the_command_says_it_once(self):
        plan = ("--layers", "layers.csv", "--ops", "forward", "--db", "s.db")
        self.write("rows.csv", "name,n,c,h,w,k,r,s,op,engine,micro_batch,time_ms,workspace_bytes,deterministic,device\n"
                   "conv1,8,3,16,16,8,3,3,forward,legacy:1,8,1.5,0,1,Some GPU\n")
        self.write("layers.csv", "name,n,c,h,w,k,r,s\nconv1,8,3,16,16,8,3,3\n")
        for words in (("cache", "import", "rows.csv", "--db", "s.db"), ("cache", "show", "--db", "s.db"), ("workspace", *plan),
                      ("bench", "--host", "--db", "none", "--layers", "layers.csv")):
            with self.subTest(words=words):
                result = self.run_words(*words, UCUDNN_TUNE="first", UCUDNN_WORKSPACE_LIMT="1MiB")
                self.assertEqual((0, 1), (result.returncode, result.stderr.count("\n")), result.stderr)
                self.assertTrue(result.stderr.endswith(": " + TYPO), result.stderr)

    def test_folders_of_a_report_are_made(self):
        result = self.run_words("run", "--host", "--report", "no/such/%p/report.json", "--", *STEP)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        [process] = os.listdir(f"{self.folder}/no/such")
        self.assertTrue(process.isdigit(), process)
        self.assertEqual("ucudnn-report", self.load(f"no/such/{process}/report.json")["format"])

    def test_a_report_replaces_no_pipe_or_device(self):
        os.mkfifo(f"{self.folder}/pipe")
        errors, _ = self.run_program(*STEP, UCUDNN_REPORT=f"{self.folder}/pipe")
        self.assertIn(f"the report cannot be written: {self.folder}/pipe: not a regular file\n", errors)
        result = self.run_words("run", "--host", "--report", "pipe", "--", *STEP)
        self.assertEqual((2, "ucudnn run: --report 'pipe' is no regular file; expected the path of one, or of none\n"),
                         (result.returncode, result.stderr))


if __name__ == "__main__":
    unittest.main()
