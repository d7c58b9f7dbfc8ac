"""`ucudnn doctor` with programs that use cuDNN, started by it or running: how they found cuDNN, whether the drop-in gets their
calls, what became of their kernels, and each cause that keeps it from working."""

import contextlib
import copy
import json
import os
import shutil
import subprocess
import unittest

from command import CC, COMMAND, FolderTest, clean_environment
from report_test import split_reports

ALEXNET_STEP = os.environ["UCUDNN_TEST_ALEXNET_STEP"]
FRONTEND_STEP = os.environ["UCUDNN_TEST_FRONTEND_STEP"]
NATIVE_STEP = os.environ["UCUDNN_TEST_NATIVE_STEP"]
LIBRARIES = os.path.realpath(f"{os.path.dirname(COMMAND)}/../lib/ucudnn")
HOST = f"{LIBRARIES}/host"
DROP_IN = f"{LIBRARIES}/libcudnn.so.9"

# Calls cuDNN as it was linked; with an argument it then says so and waits.
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

# Opens the library that its first argument names, and calls it if there is a second one. Without `name` its texts contain none.
OPENER = r"""
#include <dlfcn.h>
const char* name = "libcudnn.so.9";
int main(int argc, char** argv) {
  void* library = dlopen(argc > 1 ? argv[1] : name, RTLD_NOW);
  if (!library) return 9;
  return argc > 2 && ((unsigned long (*)(void))dlsym(library, "cudnnGetVersion"))() == 0;
}
"""

# Is linked with cuDNN, and opens another one by its path; calls the one that the second argument names.
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
        {"op": "forward", "problem": {"n": 128, "c": 64, "h": 27, "w": 27, "k": 192, "r": 5, "s": 5, "pad_h": 2, "pad_w": 2},
         "api": "legacy", "calls": 3, "limit_bytes": 67108864, "workspace_bytes": 25129008, "owned_workspace_bytes": 0,
         "plan": [{"engine": "legacy:1", "micro_batch": 32, "count": 4, "workspace_bytes": 25129008, "piece_ms": 10.0}],
         "undivided": {"engine": "legacy:0", "workspace_bytes": 0, "total_ms": 200.5},
         "best_undivided": {"engine": "graph:5", "workspace_bytes": 64, "total_ms": 60.5}, "reason": "divided into 4 micro-batches"},
        {"op": "backward_data", "problem": {"n": 2, "c": 4, "h": 9, "w": 9, "k": 8, "r": 3, "s": 3}, "api": "legacy",
         "calls": 1, "limit_bytes": 1024, "workspace_bytes": 512, "owned_workspace_bytes": 0,
         "plan": [{"engine": "legacy:1", "micro_batch": 2, "count": 1, "workspace_bytes": 512, "piece_ms": None}],
         "undivided": None, "best_undivided": None, "reason": "not measured: runs as the caller asked"}],
    "fallbacks": [{"kernel": "a kernel", "cause": "a piece failed", "count": 2}]}

MEASUREMENTS = """op,n,c,h,w,k,r,s,pad_h,pad_w,engine,micro_batch,time_ms,workspace_bytes,deterministic,cudnn,driver,device
forward,128,64,27,27,192,5,5,2,2,legacy:1,128,100,100516032,1,91900,13000,a device
"""


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

    @classmethod
    def build(cls, source, name, *options):
        path = f"{cls.folder}/{name}"
        subprocess.run([CC, "-x", "c", "-", "-x", "none", "-o", path, *options], input=source.encode(), check=True)
        return path

    def environment(self, variables):
        return clean_environment(UCUDNN_DATABASE=f"{self.folder}/measurements.db", OMP_WAIT_POLICY="passive") | variables

    def doctor(self, *words, **variables):
        """Returns the exit code, the report of --json, and the findings of each severity as one text."""
        result = subprocess.run([COMMAND, "doctor", "--json", *words], env=self.environment(variables), cwd=self.folder,
                                capture_output=True, text=True, timeout=120)
        report = json.loads(result.stdout)
        findings = {"fault": "", "warning": "", "note": ""}
        for finding in report["findings"]:
            findings[finding["severity"]] += "\n".join([finding["what"], finding["cause"], finding["fix"], ""])
        self.assertEqual(0 if report["works"] else 1, result.returncode)
        self.assertEqual(report["works"], findings["fault"] == "")
        return result.returncode, report, findings

    def facts(self, report, name):
        """Returns the texts of a fact, including continued ones."""
        texts, current = [], ""
        for fact in report["facts"]:
            current = fact["name"] or current
            if current == name:
                texts.append(fact["text"])
        return "\n".join(texts)

    @contextlib.contextmanager
    def running(self, *words, **variables):
        """Starts a program that waits, and yields its process id after its first line."""
        process = subprocess.Popen(words, env=self.environment(variables), cwd=self.folder, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual("ready\n", process.stdout.readline())
            yield process.pid
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def test_program_that_convolves_works(self):
        code, report, findings = self.doctor("--host", "--", ALEXNET_STEP, "1", "1")
        self.assertEqual(0, code, findings)
        self.assertRegex(report["verdict"], r"^works: 15 kernels, \d+ divided$")
        self.assertEqual(15, len(report["kernels"]))
        self.assertIn("forward 1x3x224x224 -> 64", report["kernels"][0]["kernel"])
        self.assertIn(f"{ALEXNET_STEP} (linked with libcudnn.so.9", self.facts(report, "asked for by"))
        self.assertIn(DROP_IN, self.facts(report, "its drop-in"))
        self.assertIn(f"{HOST}/libcudart.so.13", self.facts(report, "its runtime"))
        self.assertIn(f"{HOST}/libcuda.so.1", self.facts(report, "its driver"))

    def test_program_behind_a_script_is_found(self):
        code, report, findings = self.doctor("--host", "--", "/bin/sh", "-c", f"{ALEXNET_STEP} 1 1 >/dev/null; true")
        self.assertEqual(0, code, findings)
        self.assertEqual(15, len(report["kernels"]))

    def test_linked_program_without_convolutions(self):
        code, report, findings = self.doctor("--host", "--", self.linked)
        self.assertEqual(1, code)
        self.assertIn("called cuDNN, but no convolution that could be divided", report["verdict"])
        self.assertIn(f"DT_RUNPATH {HOST}", self.facts(report, "asked for by"))
        self.assertIn(f"{HOST}/libcudnn.so.9", self.facts(report, "its cuDNN"))
        self.assertNotIn("DT_RPATH", findings["note"])

    def test_program_of_the_graph_api_works(self):
        code, report, findings = self.doctor("--host", "--", FRONTEND_STEP, "fp32", "2", "8", UCUDNN_TUNE="off")
        self.assertEqual(0, code, findings)
        self.assertRegex(report["verdict"], r"^works: \d+ kernels, \d+ divided$")
        self.assertIn("forward 8x16x12x12 -> 24", report["kernels"][0]["kernel"])

    def test_single_images_of_the_graph_api_cannot_be_divided(self):
        code, report, findings = self.doctor("--host", "--", NATIVE_STEP, "fp32", "1")
        self.assertEqual(0, code, findings)
        self.assertEqual("works: 4 kernels, 0 divided", report["verdict"])
        self.assertEqual(4, json.dumps(report["kernels"]).count("cannot be divided"))
        _, report, findings = self.doctor("--host", "--", NATIVE_STEP, "fp32", "8", UCUDNN_ENGINES="legacy")
        self.assertEqual("does not work: the program called cuDNN, but no convolution that could be divided", report["verdict"])
        self.assertIn("UCUDNN_ENGINES=legacy leaves convolutions of the graph API alone", findings["fault"])
        self.assertIn("leave UCUDNN_ENGINES at both", findings["fault"])

    def test_program_with_rpath_is_told_how_it_is_reached(self):
        _, report, findings = self.doctor("--host", "--", self.by_rpath)
        self.assertIn("called cuDNN", report["verdict"])
        self.assertIn(f"{self.by_rpath} has DT_RPATH {HOST}", findings["note"])
        self.assertIn("ucudnn run --", findings["note"])

    def test_program_that_opens_cudnn_by_name(self):
        _, report, findings = self.doctor("--host", "--", self.opener, "libcudnn.so.9", "call")
        self.assertIn("called cuDNN", report["verdict"])
        self.assertIn(f"{self.opener} (opened it while running", self.facts(report, "asked for by"))
        _, report, _ = self.doctor("--host", "--", self.opener)
        self.assertIn("loaded cuDNN, but called nothing of it", report["verdict"])

    def test_program_that_opens_cudnn_by_its_path_is_not_seen(self):
        code, report, findings = self.doctor("--host", "--dlsym", "off", "--", self.opener, f"{HOST}/libcudnn.so.9", "call")
        self.assertEqual(1, code)
        self.assertIn(f"a second cuDNN beside the drop-in: {HOST}/libcudnn.so.9, opened by {self.opener}", report["verdict"])
        self.assertIn("ucudnn run --dlsym on --", findings["fault"])
        self.assertIn("preload, no dlsym hook", self.facts(report, "reached by"))

    def test_second_cudnn_that_nobody_calls_is_no_fault(self):
        """Python wheels open their own cuDNN so, by its path, before they load what is linked with it."""
        code, report, findings = self.doctor("--host", "--dlsym", "off", "--", self.both, f"{HOST}/libcudnn.so.9", "linked")
        self.assertIn("the program called cuDNN, but no convolution", report["verdict"])
        self.assertNotIn("a second cuDNN", findings["fault"] + findings["warning"])
        self.assertIn(f"a second cuDNN beside the drop-in: {HOST}/libcudnn.so.9, opened by {self.both}\n"
                      f"nobody calls it; the drop-in gets the calls of {self.both}\n", findings["note"])
        # It is no fault before anything is called, either.
        _, report, findings = self.doctor("--host", "--dlsym", "off", "--", self.both, f"{HOST}/libcudnn.so.9")
        self.assertIn("loaded cuDNN, but called nothing of it", report["verdict"])
        self.assertIn(f"nobody calls it; the drop-in gets the calls of {self.both}\n", findings["note"])

    def test_second_cudnn_that_is_called_is_a_fault_beside_a_linked_one(self):
        code, report, findings = self.doctor("--host", "--dlsym", "off", "--", self.both, f"{HOST}/libcudnn.so.9", "second")
        self.assertEqual(1, code)
        self.assertIn(f"a second cuDNN beside the drop-in: {HOST}/libcudnn.so.9, opened by {self.both}", report["verdict"])
        self.assertIn("its calls are not seen", findings["fault"])

    def test_program_that_opens_cudnn_by_its_path_is_reached_with_the_hook(self):
        code, report, findings = self.doctor("--host", "--dlsym", "on", "--", self.opener, f"{HOST}/libcudnn.so.9", "call")
        self.assertIn("called cuDNN", report["verdict"])
        self.assertIn("the dlsym hook redirects", findings["note"])
        self.assertIn("preload and dlsym hook (--dlsym on)", self.facts(report, "reached by"))
        self.assertIn(f"{LIBRARIES}/libucudnn_dlsym.so", self.facts(report, "its dlsym hook"))

    def test_program_with_a_path_to_cudnn_gets_the_hook_by_itself(self):
        opener = self.build(OPENER.replace("libcudnn.so.9", f"{HOST}/libcudnn.so.9"), "path_opener")
        _, report, _ = self.doctor("--host", "--", opener)
        self.assertIn(f"preload and dlsym hook ({opener} has a path to cuDNN among its texts)",
                      self.facts(report, "reached by"))

    def script(self, name, text):
        return self.write(name, text, 0o755)

    def test_program_that_is_told_a_path_to_cudnn_is_reached_behind_a_launcher(self):
        script = self.script("told.sh", f"#!/bin/sh\n{self.opener} {HOST}/libcudnn.so.9 call\n")
        for words in ["nice", self.opener, f"{HOST}/libcudnn.so.9", "call"], [script], ["sh", script]:
            _, report, findings = self.doctor("--host", "--", *words)
            self.assertIn("called cuDNN", report["verdict"], words)
            self.assertIn("the dlsym hook redirects", findings["note"], words)

    def test_path_that_could_not_be_seen_beforehand_is_told_afterwards(self):
        script = self.script("unseen.sh", f"#!/bin/sh\n{self.opener} {HOST}/lib$(echo cudnn).so.9 call\n")
        code, report, findings = self.doctor("--host", "--", script)
        self.assertEqual(1, code)
        self.assertIn(f"but {script} cannot be looked through", self.facts(report, "reached by"))
        self.assertIn("ucudnn run --dlsym on --", findings["fault"])

    def test_program_whose_own_functions_pass_the_calls_on(self):
        """TensorFlow's and XLA's stubs do so: they look like a cuDNN linked in statically."""
        stub = self.build(OPENER.replace("const char* name", "int cudnnCreate(void) { return 0; }\nconst char* name"), "stub")
        _, report, findings = self.doctor("--host", "--", stub, "libcudnn.so.9", "call")
        self.assertIn("called cuDNN", report["verdict"])
        self.assertNotIn("statically", findings["fault"])

    def test_program_for_cudnn_8_that_opens_it(self):
        eight = self.build("int cudnnCreate(void) { return 0; }", "libcudnn.so.8", "-shared", "-fPIC",
                           "-Wl,-soname,libcudnn.so.8")
        code, report, _ = self.doctor("--host", "--", self.opener, eight)
        self.assertEqual(1, code)
        self.assertEqual(f"does not work: the program uses {eight}", report["verdict"])

    def test_mode_off_is_a_cause(self):
        _, report, _ = self.doctor("--host", "--", self.linked, UCUDNN_MODE="off")
        self.assertIn("UCUDNN_MODE=off", report["verdict"])

    def test_running_process_is_in_place(self):
        with self.running(COMMAND, "run", "--host", "--", self.linked, "wait") as pid:
            code, report, findings = self.doctor("--pid", str(pid))
        self.assertEqual(0, code, findings)
        self.assertEqual("the drop-in is in place", report["verdict"])
        self.assertIn("--report", findings["note"])
        self.assertIn(DROP_IN, self.facts(report, "its drop-in"))

    def test_running_process_says_what_it_decides(self):
        self.write("measurements.csv", MEASUREMENTS)
        database = f"{self.folder}/decisions.db"
        subprocess.run([COMMAND, "cache", "import", f"{self.folder}/measurements.csv", "--db", database], check=True,
                       stdout=subprocess.DEVNULL)
        with self.running(COMMAND, "run", "--host", "--db", database, "--report", "report.%p", "--", self.linked, "wait") as pid:
            _, _, findings = self.doctor("--pid", str(pid))
            self.assertIn(f"has not written its report yet: {self.folder}/report.{pid}", findings["note"])
            self.write(f"report.{pid}", REPORT)
            code, report, findings = self.doctor("--pid", str(pid))
        self.assertEqual(0, code, findings)
        self.assertEqual("works: 2 kernels, 1 divided", report["verdict"])
        self.assertEqual([
            {"kernel": "forward 128x64x27x27 -> 192, 5x5 pad 2x2 fp32 nchw, 3 calls",
             "what": "IMPLICIT_PRECOMP_GEMM (legacy:1) needs 95.9 MiB, limit 64 MiB: divided into 4 x 32 in 24.0 MiB; "
                     "40 ms; undivided within the limit 200.5 ms, 60.5 ms by the best engine of any API"},
            {"kernel": "backward_data 2x4x9x9 -> 8, 3x3 pad 0x0 fp32 nchw, 1 call",
             "what": "ALGO_1 (legacy:1) in 512 B of 1 KiB: not measured: runs as the caller asked"}], report["kernels"])
        self.assertIn("a kernel: a piece failed\nit happened 2 times", findings["warning"])
        with self.running(COMMAND, "run", "--host", "--report", "report.%p", "--", self.linked, "wait") as pid:
            self.write(f"report.{pid}", REPORT | {"version": 1})
            _, report, findings = self.doctor("--pid", str(pid))
        self.assertIn(f"report.{pid} is a report of version 1; expected 2", findings["warning"])
        self.assertEqual([], report["kernels"])

    def test_running_rank_says_how_it_exchanges_and_what_would_be_faster(self):
        document = split_reports(2)[1]
        kernels = document["spatial"]["tracks"][0]["kernels"]
        data = copy.deepcopy(kernels[1]) | {"op": "backward_data", "slices": 5, "common": "its twin"}
        kernels.append(data)
        with self.running(COMMAND, "run", "--host", "--report", "rank.%p", "--", self.linked, "wait") as pid:
            self.write(f"rank.{pid}", document)
            code, report, findings = self.doctor("--pid", str(pid))
        self.assertEqual(0, code, findings)
        self.assertEqual("rank 1 of h2: nccl (NCCL 2.28.9, /lib)\n"
                         "rank 1: a step takes 23 ms, exchanges 9 ms, of which 2.4 ms are waited for", self.facts(report, "exchanges"))
        for text in ("rank 1 waits for exchanges in 10 % of a step, most in 64x8x27 -> 192, 3x5 forward",
                     "to be faster, use fewer and larger stripes", "rank 1 waits for sums of gradients in 7 % of a step",
                     "ucudnnSpatialDefer(1)", "a call exchanges its images in up to 5 slices", "raise UCUDNN_WORKSPACE_LIMIT",
                     "rows of dy travel twice", "ucudnnSpatialSameGradient()"):
            self.assertIn(text, findings["note"])
        self.assertIn("is refused on all ranks\nh: the window is too large for pad 0", findings["warning"])
        self.assertIn("cudnnSomething is not split\nit was called 2 times", findings["warning"])

    def test_report_that_is_none_is_no_end(self):
        """A report is a file like any other: whatever it holds, the doctor answers."""
        def corrupted():
            yield b""
            yield b"[" * 100000
            yield json.dumps(REPORT).encode()[:-40]
            for key in REPORT["kernels"][0]:
                for value in (None, "text", -1, 1e300, [], {}, [[]]):
                    kernel = REPORT["kernels"][0] | {key: value}
                    yield json.dumps(REPORT | {"kernels": [kernel, value], "fallbacks": value}).encode()
        with self.running(COMMAND, "run", "--host", "--report", "any.%p", "--", self.linked, "wait") as pid:
            for content in corrupted():
                self.write(f"any.{pid}", content)
                _, report, _ = self.doctor("--pid", str(pid))
                self.assertEqual("ucudnn-doctor", report["format"], content[:200])

    def test_running_process_without_the_drop_in(self):
        with self.running(self.linked, "wait") as pid:
            code, report, findings = self.doctor("--pid", str(pid))
        self.assertEqual(1, code)
        self.assertIn("the drop-in is not in the process", report["verdict"])
        self.assertIn("the process was started without it\nstart it with `ucudnn run --`", findings["fault"])

    def test_running_process_whose_rpath_wins(self):
        with self.running(self.by_rpath, "wait", LD_LIBRARY_PATH=LIBRARIES) as pid:
            code, _, findings = self.doctor("--pid", str(pid))
        self.assertEqual(1, code)
        self.assertIn(f"{self.by_rpath} has DT_RPATH, which the loader follows before LD_LIBRARY_PATH", findings["fault"])
        # With DT_RUNPATH, LD_LIBRARY_PATH wins.
        with self.running(self.linked, "wait", LD_LIBRARY_PATH=LIBRARIES, UCUDNN_REAL_CUDNN=f"{HOST}/libcudnn.so.9") as pid:
            code, _, findings = self.doctor("--pid", str(pid))
        self.assertEqual(0, code, findings)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a program another user's rights")
    def test_running_process_with_more_rights_than_its_user(self):
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the file system of temporary files gives no rights")
        # The program's libraries lie where its other user may read them, and are found without $ORIGIN.
        folder = f"{self.folder}/secure"
        os.mkdir(folder)
        os.chmod(self.folder, 0o755)
        libraries = [shutil.copy(f"{HOST}/{name}", folder) for name in ("libcuda.so.1", "libcudnn.so.9")]
        program = self.build(LINKED, "setuid", "-Wl,--no-as-needed", *libraries, "-Wl,--allow-shlib-undefined",
                             "-Wl,--disable-new-dtags", f"-Wl,-rpath,{folder}")
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        with self.running(program, "wait", LD_PRELOAD=DROP_IN) as pid:
            code, _, findings = self.doctor("--pid", str(pid))
        self.assertEqual(1, code)
        self.assertIn("and then the loader drops LD_PRELOAD", findings["fault"])
        self.assertIn("start it without these rights", findings["fault"])
        code, report, _ = self.doctor("--host", "--", program)
        self.assertEqual(1, code)
        self.assertIn("setuid", report["verdict"])

    def test_running_process_whose_library_was_replaced(self):
        os.mkdir(f"{self.folder}/copied")
        copy = shutil.copy(f"{HOST}/libcudnn.so.9", f"{self.folder}/copied/libcudnn.so.9")
        with self.running(self.linked, "wait", LD_LIBRARY_PATH=f"{self.folder}/copied:{HOST}") as pid:
            os.remove(copy)
            code, _, findings = self.doctor("--pid", str(pid))
        self.assertEqual(1, code)
        self.assertIn(f"{copy} is another file by now than the one in the process", findings["warning"])

    def test_running_process_without_cudnn(self):
        waiting = self.build('#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("ready"); fflush(stdout); pause(); }',
                             "waiting")
        with self.running(waiting) as pid:
            code, report, findings = self.doctor("--pid", str(pid))
        self.assertEqual(1, code)
        self.assertEqual("does not work: the process has no cuDNN so far", report["verdict"])
        self.assertIn("look again", findings["fault"])

    def test_variables_are_those_of_the_process(self):
        with self.running(COMMAND, "run", "--host", "--", self.linked, "wait", UCUDNN_POLICY="all") as pid:
            _, report, findings = self.doctor("--pid", str(pid), UCUDNN_OTHER="mine")
        self.assertIn("UCUDNN_POLICY is no variable of ucudnn", findings["warning"])
        self.assertNotIn("UCUDNN_OTHER", json.dumps(report))


if __name__ == "__main__":
    unittest.main()
