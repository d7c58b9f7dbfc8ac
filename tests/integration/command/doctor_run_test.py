"""Tests `ucudnn doctor` with programs that it starts or that already run. The doctor must say how a program found
cuDNN, whether the drop-in gets its calls, how its kernels ran, and each cause that prevents ucudnn from working."""

import contextlib
import copy
import json
import os
import shutil
import subprocess
import unittest

from alexnet_step import ALEXNET_STEP
from command import COMMAND, MIB, FolderTest, clean_environment, measurements
from report_test import kernel, problem, run, slow, split_reports

FRONTEND_STEP = os.environ["UCUDNN_TEST_FRONTEND_STEP"]
NATIVE_STEP = os.environ["UCUDNN_TEST_NATIVE_STEP"]
LIBRARIES = os.path.realpath(f"{os.path.dirname(COMMAND)}/../lib/ucudnn")
HOST = f"{LIBRARIES}/host"
DROP_IN = f"{LIBRARIES}/libcudnn.so.9"

# This program calls the cuDNN with which it is linked. With an argument, it then prints "ready" and waits.
LINKED = r"""
#include <stdio.h>
#include <unistd.h>
unsigned long cudnnGetVersion(void);
int main(int argc, char** argv) {
  const int failed = cudnnGetVersion() == 0;
  puts("ready");
  fflush(stdout);
  if (argc > 1) pause();
  return failed;
}
"""

# This program opens the library named by its first argument, and calls it if there is a second argument. `name` puts
# the string "libcudnn.so.9" into the program's file, because the doctor searches files for such names.
OPENER = r"""
#include <dlfcn.h>
const char* name = "libcudnn.so.9";
int main(int argc, char** argv) {
  void* library = dlopen(argc > 1 ? argv[1] : name, RTLD_NOW);
  if (!library) return 9;
  return argc > 2 && ((unsigned long (*)(void))dlsym(library, "cudnnGetVersion"))() == 0;
}
"""

# This program is linked with one cuDNN, and opens a second cuDNN by the path in its first argument. Its second argument
# says which of the two to call: "linked", or anything else for the opened one.
BOTH = r"""
#include <dlfcn.h>
unsigned long cudnnGetVersion(void);
int main(int argc, char** argv) {
  void* second = dlopen(argv[1], RTLD_NOW);
  if (!second) return 9;
  if (argc < 3) return 0;
  return (*argv[2] == 'l' ? cudnnGetVersion() : ((unsigned long (*)(void))dlsym(second, "cudnnGetVersion"))()) == 0;
}
"""

REPORT = {
    "format": "ucudnn-report", "version": 2, "ucudnn": "0", "cudnn": 91900, "device": "a device", "mode": "on", "measured": 0,
    "kernels": [
        kernel("forward", [run("legacy:1", 32, 4, 25129008, 10.0)], slow(200.5), slow(60.5, 64, "graph:5"),
               limit_bytes=64 * MIB, problem=problem(n=128)),
        kernel("backward_data", [run("legacy:1", 2, 1, 512, None)], None, calls=1, limit_bytes=1024,
               problem={"n": 2, "c": 4, "h": 9, "w": 9, "k": 8, "r": 3, "s": 3},
               reason="not measured: runs as the caller asked")],
    "fallbacks": [{"kernel": "a kernel", "cause": "a piece failed", "count": 2}]}


class DoctorRun(FolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        real = f"{HOST}/libcudnn.so.9"
        unresolved = "-Wl,--allow-shlib-undefined"
        cls.linked = cls.build(LINKED, "linked", real, unresolved, "-Wl,--enable-new-dtags", f"-Wl,-rpath,{HOST}")
        cls.by_rpath = cls.build(LINKED, "by_rpath", real, unresolved, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{HOST}")
        cls.opener = cls.build(OPENER, "opener")
        cls.both = cls.build(BOTH, "both", real, unresolved, "-Wl,-z,now")

    def environment(self, variables):
        return {"UCUDNN_DATABASE": f"{self.folder}/measurements.db", "OMP_WAIT_POLICY": "passive"} | variables

    def doctor(self, *words, code=None, **variables):
        """Runs the doctor with --json. Returns its report, and the findings as one text for each severity."""
        result = self.run_command("doctor", "--json", *words, **self.environment(variables))
        report = json.loads(result.stdout)
        findings = {"fault": "", "warning": "", "note": ""}
        for finding in report["findings"]:
            findings[finding["severity"]] += "\n".join([finding["what"], finding["cause"], finding["fix"], ""])
        self.assertEqual(0 if report["works"] else 1, result.returncode)
        self.assertEqual(report["works"], findings["fault"] == "")
        self.assertIn(code, (None, result.returncode), findings)
        return report, findings

    def facts(self, report, name):
        """Returns all texts of the fact `name`, joined by newlines. Facts without a name continue the previous fact."""
        texts, current = [], ""
        for fact in report["facts"]:
            current = fact["name"] or current
            if current == name:
                texts.append(fact["text"])
        return "\n".join(texts)

    @contextlib.contextmanager
    def running(self, *words, **variables):
        """Starts a program that prints "ready" and waits. Yields its process id, and kills it at the end."""
        process = subprocess.Popen(words, env=clean_environment(**self.environment(variables)), cwd=self.folder,
                                   stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual("ready\n", process.stdout.readline())
            yield process.pid
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def waiting(self, *options, **variables):
        return self.running(COMMAND, "run", "--host", *options, "--", self.linked, "wait", **variables)

    def look(self, *words, code=None, **variables):
        """Starts a program that waits. Returns the result of doctor() for its process."""
        with self.running(*words, **variables) as pid:
            return self.doctor("--pid", str(pid), code=code)

    def test_program_that_convolves_works(self):
        report, findings = self.doctor("--host", "--", ALEXNET_STEP, "1", "1", code=0)
        self.assertRegex(report["verdict"], r"^works: 15 kernels, \d+ divided$")
        self.assertEqual(15, len(report["kernels"]))
        self.assertIn("forward 1x3x224x224 -> 64", report["kernels"][0]["kernel"])
        self.assertIn(f"{ALEXNET_STEP} (linked with libcudnn.so.9", self.facts(report, "asked for by"))
        self.assertIn(DROP_IN, self.facts(report, "its drop-in"))
        self.assertIn(f"{HOST}/libcudart.so.13", self.facts(report, "its runtime"))
        self.assertIn(f"{HOST}/libcuda.so.1", self.facts(report, "its driver"))

    def test_program_behind_a_script_is_found(self):
        report, findings = self.doctor("--host", "--", "/bin/sh", "-c", f"{ALEXNET_STEP} 1 1 >/dev/null; true", code=0)
        self.assertEqual(15, len(report["kernels"]))

    def test_program_of_the_graph_api_works(self):
        report, findings = self.doctor("--host", "--", FRONTEND_STEP, "fp32", "2", "8", UCUDNN_TUNE="off", code=0)
        self.assertRegex(report["verdict"], r"^works: \d+ kernels, \d+ divided$")
        self.assertIn("forward 8x16x12x12 -> 24", report["kernels"][0]["kernel"])

    def test_single_images_of_the_graph_api_cannot_be_divided(self):
        report, findings = self.doctor("--host", "--", NATIVE_STEP, "fp32", "1", code=0)
        self.assertEqual("works: 4 kernels, 0 divided", report["verdict"])
        self.assertEqual(4, json.dumps(report["kernels"]).count("cannot be divided"))
        report, findings = self.doctor("--host", "--", NATIVE_STEP, "fp32", "8", UCUDNN_ENGINES="legacy")
        self.assertEqual("does not work: the program called cuDNN, but no convolution that could be divided", report["verdict"])
        self.assertIn("UCUDNN_ENGINES=legacy leaves convolutions of the graph API alone", findings["fault"])
        self.assertIn("leave UCUDNN_ENGINES at both", findings["fault"])

    def test_each_way_to_cudnn_is_told(self):
        """Each case is (words, verdict, (where, text)...). If `where` is a severity, the findings of this severity must
        contain `text`. If `where` is "no " and a severity, these findings must not contain `text`. Otherwise `where`
        names a fact whose value must contain `text`."""
        by_path, at_path = (self.opener, f"{HOST}/libcudnn.so.9", "call"), f"{HOST}/libcudnn.so.9"
        called, unused = "the program called cuDNN, but no convolution", "loaded cuDNN, but called nothing of it"
        second, hooked = f"a second cuDNN beside the drop-in: {at_path}, opened by ", "the dlsym hook redirects"
        no_hook = ("--host", "--dlsym", "off", "--")
        nobody = f"nobody calls it; the drop-in gets the calls of {self.both}\n"
        path_opener = self.build(OPENER.replace("libcudnn.so.9", at_path), "path_opener")
        told = self.write("told.sh", f"#!/bin/sh\n{' '.join(by_path)}\n", 0o755)
        unseen = self.write("unseen.sh", f"#!/bin/sh\n{self.opener} {HOST}/lib$(echo cudnn).so.9 call\n", 0o755)
        # This program defines a function of cuDNN itself, as if cuDNN were linked statically. TensorFlow and XLA have
        # such stubs of cuDNN.
        stub = self.build(OPENER.replace("const char* name", "int cudnnCreate(void) { return 0; }\nconst char* name"), "stub")
        eight = self.build_library("int cudnnCreate(void) { return 0; }", "libcudnn.so.8")
        for words, verdict, *texts in (
                (("--host", "--", self.linked), "called cuDNN, but no convolution that could be divided",
                 ("asked for by", f"DT_RUNPATH {HOST}"), ("its cuDNN", at_path), ("no note", "DT_RPATH")),
                (("--host", "--", self.by_rpath), called,
                 ("note", f"{self.by_rpath} has DT_RPATH {HOST}"), ("note", "ucudnn run --")),
                (("--host", "--", self.opener, "libcudnn.so.9", "call"), called,
                 ("asked for by", f"{self.opener} (opened it while running")),
                (("--host", "--", self.opener), unused),
                ((*no_hook, *by_path), second + self.opener,
                 ("fault", "ucudnn run --dlsym on --"), ("reached by", "preload, no dlsym hook")),
                # Python wheels open their own cuDNN by its path before they load libraries that are linked with cuDNN.
                ((*no_hook, self.both, at_path, "linked"), called, ("no fault", "a second cuDNN"),
                 ("no warning", "a second cuDNN"), ("note", f"{second}{self.both}\n{nobody}")),
                ((*no_hook, self.both, at_path), unused, ("note", nobody)),
                ((*no_hook, self.both, at_path, "second"), second + self.both, ("fault", "its calls are not seen")),
                (("--host", "--dlsym", "on", "--", *by_path), called, ("note", hooked),
                 ("reached by", "preload and dlsym hook (--dlsym on)"), ("its dlsym hook", f"{LIBRARIES}/libucudnn_dlsym.so")),
                (("--host", "--", path_opener), "",
                 ("reached by", f"preload and dlsym hook ({path_opener} has a path to cuDNN among its texts)")),
                (("--host", "--", "nice", *by_path), called, ("note", hooked)),
                (("--host", "--", told), called, ("note", hooked)),
                (("--host", "--", "sh", told), called, ("note", hooked)),
                (("--host", "--", unseen), "",
                 ("reached by", f"but {unseen} cannot be looked through"), ("fault", "ucudnn run --dlsym on --")),
                (("--host", "--", stub, "libcudnn.so.9", "call"), called, ("no fault", "statically")),
                (("--host", "--", self.opener, eight), f"does not work: the program uses {eight}")):
            with self.subTest(words=words):
                report, findings = self.doctor(*words, code=1)
                (self.assertEqual if verdict.startswith("does not work: ") else self.assertIn)(verdict, report["verdict"])
                for where, text in texts:
                    if where.startswith("no "):
                        self.assertNotIn(text, findings[where[3:]])
                    else:
                        self.assertIn(text, findings[where] if where in findings else self.facts(report, where))

    def test_mode_off_is_a_cause(self):
        report, _ = self.doctor("--host", "--", self.linked, UCUDNN_MODE="off")
        self.assertIn("UCUDNN_MODE=off", report["verdict"])

    def test_running_process_is_in_place(self):
        report, findings = self.look(COMMAND, "run", "--host", "--", self.linked, "wait", code=0)
        self.assertEqual("the drop-in is in place", report["verdict"])
        self.assertIn("--report", findings["note"])
        self.assertIn(DROP_IN, self.facts(report, "its drop-in"))

    def test_running_process_says_what_it_decides(self):
        self.import_rows(measurements("64,27,27,192,5,5,2,2", [("legacy:1", 128, 100, 100516032)],
                                      platform="91900,13000,a device"))
        with self.waiting("--db", self.store, "--report", "report.%p") as pid:
            _, findings = self.doctor("--pid", str(pid))
            self.assertIn(f"has not written its report yet: {self.folder}/report.{pid}", findings["note"])
            self.write(f"report.{pid}", REPORT)
            report, findings = self.doctor("--pid", str(pid), code=0)
        self.assertEqual("works: 2 kernels, 1 divided", report["verdict"])
        self.assertEqual([
            {"kernel": "forward 128x64x27x27 -> 192, 5x5 pad 2x2 fp32 nchw, 3 calls",
             "what": "IMPLICIT_PRECOMP_GEMM (legacy:1) needs 95.9 MiB, limit 64 MiB: divided into 4 x 32 in 24.0 MiB; "
                     "40 ms; undivided within the limit 200.5 ms, 60.5 ms by the best engine of any API"},
            {"kernel": "backward_data 2x4x9x9 -> 8, 3x3 pad 0x0 fp32 nchw, 1 call",
             "what": "ALGO_1 (legacy:1) in 512 B of 1 KiB: not measured: runs as the caller asked"}], report["kernels"])
        self.assertIn("a kernel: a piece failed\nit happened 2 times", findings["warning"])
        with self.waiting("--report", "report.%p") as pid:
            self.write(f"report.{pid}", REPORT | {"version": 1})
            report, findings = self.doctor("--pid", str(pid))
        self.assertIn(f"report.{pid} is a report of version 1; expected 2", findings["warning"])
        self.assertEqual([], report["kernels"])

    def test_running_rank_says_how_it_exchanges_and_what_would_be_faster(self):
        document = split_reports(2)[1]
        kernels = document["spatial"]["tracks"][0]["kernels"]
        data = copy.deepcopy(kernels[1]) | {"op": "backward_data", "slices": 5, "common": "its twin"}
        kernels.append(data)
        with self.waiting("--report", "rank.%p") as pid:
            self.write(f"rank.{pid}", document)
            report, findings = self.doctor("--pid", str(pid), code=0)
        self.assertEqual("rank 1 of h2: nccl (NCCL 2.28.9, /lib)\n"
                         "rank 1: a step takes 23 ms, exchanges 9 ms, of which 2.4 ms are waited for", self.facts(report, "exchanges"))
        self.assert_has(findings["note"], "rank 1 waits for exchanges in 10 % of a step, most in 64x8x27 -> 192, 3x5 forward",
                        "to be faster, use fewer and larger stripes", "rank 1 waits for sums of gradients in 7 % of a step",
                        "ucudnnSpatialDefer(1)", "a call exchanges its images in up to 5 slices",
                        "raise UCUDNN_WORKSPACE_LIMIT", "rows of dy travel twice", "ucudnnSpatialSameGradient()")
        self.assertIn("is refused on all ranks\nh: the window is too large for pad 0", findings["warning"])
        self.assertIn("cudnnSomething is not split\nit was called 2 times", findings["warning"])

    def test_report_that_is_none_is_no_end(self):
        """The doctor must answer for any contents of a report file."""
        def corrupted():
            yield b""
            yield b"[" * 100000
            yield json.dumps(REPORT).encode()[:-40]
            for key in REPORT["kernels"][0]:
                for value in (None, "text", -1, 1e300, [], {}, [[]]):
                    kernel = REPORT["kernels"][0] | {key: value}
                    yield json.dumps(REPORT | {"kernels": [kernel, value], "fallbacks": value}).encode()
        with self.waiting("--report", "any.%p") as pid:
            for content in corrupted():
                self.write(f"any.{pid}", content)
                report, _ = self.doctor("--pid", str(pid))
                self.assertEqual("ucudnn-doctor", report["format"], content[:200])

    def test_running_process_without_the_drop_in(self):
        report, findings = self.look(self.linked, "wait", code=1)
        self.assertIn("the drop-in is not in the process", report["verdict"])
        self.assertIn("the process was started without it\nstart it with `ucudnn run --`", findings["fault"])

    def test_running_process_whose_rpath_wins(self):
        _, findings = self.look(self.by_rpath, "wait", LD_LIBRARY_PATH=LIBRARIES, code=1)
        self.assertIn(f"{self.by_rpath} has DT_RPATH, which the loader follows before LD_LIBRARY_PATH", findings["fault"])
        # The loader follows LD_LIBRARY_PATH before DT_RUNPATH, so this program gets the drop-in.
        self.look(self.linked, "wait", LD_LIBRARY_PATH=LIBRARIES, UCUDNN_REAL_CUDNN=f"{HOST}/libcudnn.so.9", code=0)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a program another user's rights")
    def test_running_process_with_more_rights_than_its_user(self):
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the file system of temporary files gives no rights")
        # The program is setuid, so the loader ignores $ORIGIN, and the program's libraries must be in a folder that
        # user 65534 may read.
        folder = f"{self.folder}/secure"
        os.mkdir(folder)
        os.chmod(self.folder, 0o755)
        libraries = [shutil.copy(f"{HOST}/{name}", folder) for name in ("libcuda.so.1", "libcudnn.so.9")]
        program = self.build(LINKED, "setuid", "-Wl,--no-as-needed", *libraries, "-Wl,--allow-shlib-undefined",
                             "-Wl,--disable-new-dtags", f"-Wl,-rpath,{folder}")
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        _, findings = self.look(program, "wait", LD_PRELOAD=DROP_IN, code=1)
        self.assert_has(findings["fault"], "and then the loader drops LD_PRELOAD", "start it without these rights")
        report, _ = self.doctor("--host", "--", program, code=1)
        self.assertIn("setuid", report["verdict"])

    def test_running_process_whose_library_was_replaced(self):
        os.mkdir(f"{self.folder}/copied")
        copy = shutil.copy(f"{HOST}/libcudnn.so.9", f"{self.folder}/copied/libcudnn.so.9")
        with self.running(self.linked, "wait", LD_LIBRARY_PATH=f"{self.folder}/copied:{HOST}") as pid:
            os.remove(copy)
            _, findings = self.doctor("--pid", str(pid), code=1)
        self.assertIn(f"{copy} is another file by now than the one in the process", findings["warning"])

    def test_running_process_without_cudnn(self):
        waiting = self.build('#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("ready"); fflush(stdout); pause(); }',
                             "waiting")
        report, findings = self.look(waiting, code=1)
        self.assertEqual("does not work: the process has no cuDNN so far", report["verdict"])
        self.assertIn("look again", findings["fault"])

    def test_variables_are_those_of_the_process(self):
        with self.waiting(UCUDNN_POLICY="all") as pid:
            report, findings = self.doctor("--pid", str(pid), UCUDNN_OTHER="mine")
        self.assertIn("UCUDNN_POLICY is no variable of ucudnn", findings["warning"])
        self.assertNotIn("UCUDNN_OTHER", json.dumps(report))


if __name__ == "__main__":
    unittest.main()
