"""Tests that the repository keeps its own rules, and that violations are found."""

import json
import os
import subprocess
import unittest

import rules

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))

HEADERS = {
    path: ""
    for path in (
        "src/base/status.h", "src/convolution/problem.h", "src/planning/wr.h", "src/cuda/driver.h", "src/cudnn/table.h",
        "src/transport/channel.h", "src/tuning/measure.h", "src/execution/run.h", "src/spatial/halo.h", "src/interposer/session/session.h",
        "shim/host/hostgpu.h", "tools/command/command.h", "db/store.h", "planner/graph/graph.h",
        "planner/runtime/execute.h", "planner/multigrid/solver.h", "include/ucudnn/ucudnn.h",
        "include/ucudnn/layer_parallel.h", "tests/unit/fake.h")
}


def found(path, text):
    return list(rules.violations({**HEADERS, path: text}))


class Repository(unittest.TestCase):
    maxDiff = None

    @unittest.skipUnless(os.path.exists(f"{ROOT}/.git"), "not a git checkout: what is committed is unknown")
    def test_keeps_its_rules(self):
        files = rules.repository_files(ROOT)
        self.assertGreater(len(files), 20, "the listing of the repository's files is broken")
        self.assertEqual([], list(rules.violations(files)))

    def test_every_test_is_run_by_tools_check(self):
        listed = subprocess.run([os.environ["REPOSITORY_TEST_CTEST"], "--show-only=json-v1"], check=True, text=True,
                                capture_output=True, cwd=os.environ["REPOSITORY_TEST_BUILD"]).stdout
        groups = {}
        for test in json.loads(listed)["tests"]:
            labels = next((p["value"] for p in test["properties"] if p["name"] == "LABELS"), [])
            groups[test["name"]] = [label for label in labels if label in ("threads", "release", "full")]
        self.assertGreater(len(groups), 50)
        self.assertEqual([], [name for name, found in groups.items() if not found])


class Includes(unittest.TestCase):
    def test_pointing_up_a_floor_is_found(self):
        for path, header in (
            ("src/base/a.cpp", "convolution/problem.h"), ("src/convolution/a.h", "planning/wr.h"),
            ("src/planning/a.cpp", "cudnn/table.h"), ("src/cudnn/a.cpp", "tuning/measure.h"),
            ("src/cuda/a.cpp", "transport/channel.h"), ("src/transport/a.cpp", "tuning/measure.h"),
            ("src/execution/a.cpp", "tuning/measure.h"), ("src/execution/a.cpp", "spatial/halo.h"),
            ("src/spatial/a.cpp", "interposer/session/session.h"), ("src/execution/a.cpp", "interposer/session/session.h"),
            ("src/interposer/a.cpp", "shim/host/hostgpu.h"), ("src/interposer/a.cpp", "tools/command/command.h"),
            ("db/a.cpp", "cudnn/table.h"), ("planner/graph/a.cpp", "planner/runtime/execute.h"),
            ("planner/graph/a.cpp", "tuning/measure.h"), ("include/ucudnn/a.h", "base/status.h"),
            ("shim/layer_parallel/a.cpp", "cuda/driver.h"), ("shim/layer_parallel/a.cpp", "interposer/session/session.h"),
            ("shim/api/a.cpp", "planner/multigrid/solver.h")):
            with self.subTest(path=path, header=header):
                self.assertEqual(1, len(found(path, f'#include "{header}"\n')))

    def test_sideways_is_found(self):
        for path, header in (
            ("src/planning/a.cpp", "cuda/driver.h"), ("src/cuda/a.cpp", "planning/wr.h"),
            ("src/cudnn/a.cpp", "transport/channel.h"), ("src/transport/a.cpp", "cudnn/table.h"),
            ("tools/command/a.cpp", "shim/host/hostgpu.h"), ("shim/api/a.cpp", "tools/command/command.h"),
            ("db/a.cpp", "planner/graph/graph.h")):
            with self.subTest(path=path, header=header):
                self.assertEqual(1, len(found(path, f'#include "{header}"\n')))

    def test_transport_knows_nothing_of_convolutions(self):
        for header in ("convolution/problem.h", "planning/wr.h"):
            self.assertEqual(1, len(found("src/transport/a.cpp", f'#include "{header}"\n')), header)
        for header in ("base/status.h", "cuda/driver.h"):
            self.assertEqual([], found("src/transport/a.cpp", f'#include "{header}"\n'), header)

    def test_circle_through_a_top_level_folder_is_found(self):
        self.assertEqual(["src/interposer/a.cpp:2: src/interposer may not include db/store.h"],
                         found("src/interposer/a.cpp", '// a\n#include "db/store.h"\n'))
        self.assertEqual(1, len(found("src/tuning/a.cpp", "#  include <db/store.h>\n")))

    def test_test_helper_in_shipped_code_is_found(self):
        self.assertEqual(1, len(found("src/base/a.cpp", '#include "tests/unit/fake.h"\n')))

    def test_relative_path_up_is_found(self):
        self.assertEqual(1, len(found("src/base/a.cpp", '#include "../convolution/problem.h"\n')))

    def test_pointing_down_is_allowed(self):
        for path, header in (
            ("src/interposer/a.cpp", "base/status.h"), ("src/tuning/a.cpp", "execution/run.h"),
            ("src/tuning/a.cpp", "transport/channel.h"), ("src/spatial/a.cpp", "execution/run.h"),
            ("src/spatial/a.cpp", "transport/channel.h"), ("src/interposer/a.cpp", "spatial/halo.h"),
            ("planner/multigrid/a.cpp", "execution/run.h"), ("planner/runtime/a.cpp", "transport/channel.h"),
            ("src/base/a.cpp", "base/status.h"), ("shim/api/a.cpp", "db/store.h"), ("tools/a.cpp", "planner/graph/graph.h"),
            ("shim/api/a.cpp", "ucudnn/ucudnn.h"), ("planner/runtime/a.cpp", "cuda/driver.h"),
            ("shim/layer_parallel/a.cpp", "planner/multigrid/solver.h"), ("shim/layer_parallel/a.cpp", "ucudnn/layer_parallel.h"),
            ("tests/unit/a.cpp", "interposer/session/session.h"), ("src/base/a.cpp", "unistd.h")):
            with self.subTest(path=path, header=header):
                self.assertEqual([], found(path, f'#include "{header}"\n'))

    def test_cuda_header_in_a_pure_room_is_found(self):
        for path in ("src/base/a.h", "src/convolution/a.h", "src/planning/a.cpp", "db/a.cpp", "planner/graph/a.cpp",
                     "shim/layer_parallel/a.h", "include/ucudnn/layer_parallel.h"):
            for header in ("cuda.h", "cudnn.h", "cuda_runtime_api.h", "cudnn_version.h"):
                with self.subTest(path=path, header=header):
                    self.assertEqual(1, len(found(path, f"#include <{header}>\n")))
        self.assertEqual([], found("planner/runtime/a.cpp", "#include <cuda.h>\n"))
        self.assertEqual([], found("src/cudnn/a.cpp", "#include <cudnn.h>\n"))


class Calls(unittest.TestCase):
    def test_opening_a_library_elsewhere_is_found(self):
        for call in ("dlopen(", "dlsym (", "dlvsym(", "::dlmopen("):
            self.assertEqual(1, len(found("src/cudnn/a.cpp", f"void* p = {call}x, y);\n")), call)
        self.assertEqual([], found("src/base/shared_library.cpp", "dlopen(x, y);\n"))
        self.assertEqual([], found("shim/api/a.cpp", "dlsym(x, y);\n"))

    def test_reading_the_environment_elsewhere_is_found(self):
        self.assertEqual(1, len(found("src/cudnn/a.cpp", 'std::getenv("X");\n')))
        self.assertEqual(1, len(found("shim/api/a.cpp", 'secure_getenv("X");\n')))
        for path in ("src/options/options.cpp", "shim/host/cuda/a.cpp", "tools/command/a.cpp", "tests/unit/a.cpp"):
            self.assertEqual([], found(path, 'std::getenv("X");\n'))

    def test_mutex_that_is_not_checked_is_found(self):
        for lock in ("std::mutex m;", "std::shared_mutex m;", "std::lock_guard lock(m);", "std::condition_variable_any c;"):
            self.assertEqual(1, len(found("src/cudnn/a.cpp", lock + "\n")), lock)
        for path in ("src/base/mutex.h", "shim/host/cuda/a.cpp", "tests/unit/a.cpp"):
            self.assertEqual([], found(path, "std::mutex m;\n"))

    def test_words_in_comments_and_texts_are_no_calls(self):
        self.assertEqual([], found("src/cudnn/a.cpp", '// dlopen(x)\n/* getenv(\n) */ f("dlsym(x)");\n'))
        self.assertEqual(["src/cudnn/a.cpp:3: only src/base/shared_library and shim/ open libraries"],
                         found("src/cudnn/a.cpp", "/* a\nb */\ndlopen(x);\n"))


class Functions(unittest.TestCase):
    def function(self, lines, above=""):
        return above + "void F() {\n" + "  g();\n" * (lines - 2) + "}\n"

    def test_long_one_is_found(self):
        for path in ("src/base/a.cpp", "db/a.h", "planner/graph/a.cpp", "tools/command/a.cpp"):
            self.assertEqual([], found(path, self.function(80)), path)
            self.assertEqual([f'{path}:1: F has 81 lines; more than 80 want a comment directly above with "Long because"'],
                             found(path, self.function(81)))

    def test_long_one_with_a_reason_directly_above_is_allowed(self):
        self.assertEqual([], found("src/base/a.cpp", self.function(81, "// What it does. Long because it is a table\n// of all.\n")))
        for above in ("// It is long.\n", "// Long because\n", "// Long because it is a table.\n\n",
                      "// Long because it is a table.\nint x;\n"):
            self.assertEqual(1, len(found("src/base/a.cpp", self.function(81, above))), above)

    def test_seven_parameters_are_found(self):
        self.assertEqual([], found("src/base/a.h", "void F(int a, int b, int c, int d, int e, int f);\n"))
        self.assertEqual(["src/base/a.h:2: F takes 7 parameters, more than 6"],
                         found("src/base/a.h", "\nvoid F(int a, int b, int c, int d, int e, int f, int g);\n"))

    def test_signature_of_c_linkage_is_given(self):
        self.assertEqual([], found("src/base/a.h", 'extern "C" void F(int a, int b, int c, int d, int e, int f, int g);\n'))

    def test_other_folders_are_free(self):
        for path in ("shim/api/a.cpp", "tests/unit/a.cpp", "tools/a.cpp", "src/README.md"):
            self.assertEqual([], found(path, self.function(200)), path)

    def test_text_whose_functions_cannot_be_told_apart_is_found(self):
        self.assertEqual(["src/base/a.cpp:2: functions cannot be told apart: } closes nothing"],
                         found("src/base/a.cpp", "void F();\n}\n"))


class MachinePaths(unittest.TestCase):
    def test_path_of_one_machine_is_found(self):
        for text in ("/wor" + "k/main/src", "/hom" + "e/ann/x", "/roo" + "t/.cache", "../share" + "d/notes/a.md"):
            self.assertEqual(1, len(found("README.md", f"see {text}\n")), text)

    def test_ordinary_path_is_allowed(self):
        for text in ("/usr/local/cuda", "$HOME/.cache", "https://example.org/root/", "a framework/tool", "/tmp/x"):
            self.assertEqual([], found("README.md", f"see {text}\n"), text)


if __name__ == "__main__":
    unittest.main()
