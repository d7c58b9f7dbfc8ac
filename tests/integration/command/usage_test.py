"""Tests that help and documents name the options that exist, and that a missing part of the installation is explained.
mistakes_test.py tests wrong usage."""

import os
import re
import unittest

from command import ROOT, STAND_INS, CommandTest


class Usage(CommandTest):
    def test_a_division_may_have_its_budget_from_elsewhere(self):
        for variables in ({"UCUDNN_TOTAL_WORKSPACE": "1MiB"}, {"UCUDNN_TOTAL_WORKSPACE_SIZE": "1MiB"}, {"UCUDNN_WORKSPACE_PLAN": "plan.json"}):
            self.assertEqual("shared", self.environment_of("run", "--division", "shared", "--", self.program, **variables)[
                "UCUDNN_DIVISION"])

    def test_help_says_what_holds_without_an_option(self):
        for command, lines in (
                ("run", ("default: auto)", "default: caller, what the program grants)", "default: concurrent)", "default: exact)",
                         "default: both)", "default: ~/.cache/ucudnn/measurements.db)", "disjoint, a segment for each",
                         "for all kernels; together with --workspace-limit both hold")),
                ("workspace", ("default: auto, all that were measured)", "default: caller, no ceiling)")),
                ("report", ("default: none: desirable sets are not shown)",)),
                ("multigrid", ("how many cycles (default: 2); with a --tolerance at most so many (default: 100)",
                               "--layers N residual layers of kirby-3m (default: 4,093)",
                               "(default: inject; of a GPU sum where", "(default: FCF)", "learning rate (default: 0.002)",
                               "images in a mini-batch (default: 1, in training 32)"))):
            text = " ".join(self.run_command(command, "--help").stdout.split())
            for line in lines:
                self.assertIn(line, text)

    def test_stand_ins_that_a_wheel_leaves_out_are_explained(self):
        os.rename(self.host, f"{self.host}.away")
        self.addCleanup(os.rename, f"{self.host}.away", self.host)
        self.assert_refused(["run", "--host", "--", self.program], "is missing: the CPU stand-ins come with a build from source")

    def test_stand_ins_that_are_not_built_whole_are_named(self):
        """If the command did not refuse, the loader would use NVIDIA's library instead of the missing stand-in."""
        for name in STAND_INS:
            os.rename(f"{self.host}/{name}", f"{self.host}/away")
            for words in (["run", "--host", "--", self.program], ["run", "--host", "--ranks", "2", "--", self.program]):
                self.assert_refused(words, f"'{self.host}/{name}' is missing: the CPU stand-ins are not built whole; "
                                    "`cmake --build --preset release` builds all of them")
            if name == "libcudnn.so.9":
                self.assert_refused(["bench", "--host", "--net", "alexnet", "--batch", "1"], "libcudnn.so.9' is missing")
            os.rename(f"{self.host}/away", f"{self.host}/{name}")

    def test_the_documents_name_every_option_and_variable(self):
        variables = re.findall(r'\{"(UCUDNN_[A-Z_]+)"', self.read(f"{ROOT}/src/options/option_table.cpp"))
        self.assertGreater(len(variables), 25)
        described = self.read(f"{ROOT}/docs/environment.md")
        self.assertEqual([], [name for name in variables if f"`{name}`" not in described])
        for command, page, mark, known in (("run", "commands", "", "--ranks"), ("multigrid", "multigrid", "`", "--storage")):
            options = re.findall(r"^ +(--[a-z-]+)", self.run_command(command, "--help").stdout, re.M)
            self.assertIn(known, options)
            described = self.read(f"{ROOT}/docs/{page}.md")
            self.assertEqual([], [name for name in options if mark + name not in described and name != "--help"])

    def test_help_of_every_command(self):
        for words in ([], ["run"], ["bench"], ["net"], ["plan"], ["spatial"], ["multigrid"], ["cache"], ["cache", "show"], ["cache", "import"], ["cache", "export"],
                      ["workspace"], ["report"], ["doctor"]):
            result = self.run_command(*words, "--help")
            self.assertEqual((0, ""), (result.returncode, result.stderr), words)
            self.assertIn(" ".join(["Usage: ucudnn", *words]), result.stdout)
            self.assertNotIn("nothing yet", result.stdout)
            self.assertLessEqual(max(map(len, result.stdout.splitlines())), 160, words)


if __name__ == "__main__":
    unittest.main()
