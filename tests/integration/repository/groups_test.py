"""Tests that configuring fails with a message if a test is in no group, so that tools/check would never run it, or if
ucudnn_tests_of names an unknown group or matches no test."""

import os
import subprocess
import tempfile
import unittest

MODULES = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..", "cmake"))
PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(some LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH {MODULES})
include(UcudnnTestGroups)
enable_testing()
add_subdirectory(tests)
ucudnn_every_test_has_its_group(${{CMAKE_SOURCE_DIR}})
"""


def configure(tests):
    """Configures a project with these tests. Returns (exit status, messages)."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/tests")
        for path, text in (("CMakeLists.txt", PROJECT), ("tests/CMakeLists.txt", tests)):
            with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
                file.write(text)
        ran = subprocess.run([os.environ["REPOSITORY_TEST_CMAKE"], "-S", folder, "-B", f"{folder}/build"],
                             text=True, capture_output=True, check=False)
        return ran.returncode, ran.stderr


def added(*names):
    return "".join(f"add_test(NAME {name} COMMAND true)\n" for name in names)


class Groups(unittest.TestCase):
    def test_every_test_of_one_group_is_accepted(self):
        for tests in (added("a", "b") + "ucudnn_tests_of(threads)\n",
                      added("a", "b") + "ucudnn_tests_of(threads a)\nucudnn_tests_of(release b)\n",
                      added("a") + "ucudnn_tests_of(full)\n",
                      added("a") + "ucudnn_tests_of(full)\nucudnn_tests_of(release)\n"):
            with self.subTest(tests=tests):
                self.assertEqual((0, ""), configure(tests))

    def test_one_of_no_group_is_named(self):
        for tests in (added("known") + "ucudnn_tests_of(threads)\n" + added("forgotten"),
                      added("known", "forgotten") + 'ucudnn_tests_of(threads "^known$")\n'):
            with self.subTest(tests=tests):
                status, said = configure(tests)
                self.assertEqual(1, status)
                self.assertRegex(said, r"\n +test forgotten \(.*/tests\) is of no group, so tools/check would never run it: "
                                       r"ucudnn_tests_of\(threads\|release\|full\) in its folder's CMakeLists.txt says when it runs\n")
                self.assertNotIn("test known", said)

    def test_an_expression_that_matches_nothing_is_shown(self):
        status, said = configure(added("a") + 'ucudnn_tests_of(threads)\nucudnn_tests_of(release "^b_")\n')
        self.assertEqual(1, status)
        self.assertRegex(said, r'\n +.*/tests: ucudnn_tests_of\(release "\^b_"\) matches no test of this folder\n')

    def test_an_unknown_group_is_shown(self):
        status, said = configure(added("a") + "ucudnn_tests_of(debug)\n")
        self.assertEqual(1, status)
        self.assertRegex(said, r"\n +.*/tests: ucudnn_tests_of\(debug\): the groups are threads;release;full\n")


if __name__ == "__main__":
    unittest.main()
