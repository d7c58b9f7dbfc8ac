"""`ucudnn doctor`: what it says about a machine, variables and stores, and about programs that it refuses to start."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from command import CommandTest


class Doctor(CommandTest):
    def diagnose(self, *words, **variables):
        """Returns the exit code, the text of each fact by name, and the whole output."""
        result = self.run_command("doctor", *words, **variables)
        self.assertEqual("", result.stderr)
        lines = {line[:16].strip(): line[16:] for line in result.stdout.splitlines() if line[:1].strip()}
        return result.returncode, lines, result.stdout

    def diagnose_as_another(self, *words, **variables):
        """Runs as a user without rights to our files, or as ourselves if we have no more rights than others."""
        os.chmod(self.folder, 0o755)
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        environment = {"PATH": os.environ["PATH"]} | variables
        return subprocess.run([self.command, "doctor", *words], env=environment, cwd=self.folder, capture_output=True,
                              text=True, timeout=60, **user)

    def test_whole_installation_works_on_the_host(self):
        code, lines, _ = self.diagnose()
        self.assertEqual(0, code)
        self.assertEqual(self.drop_in, lines["drop-in"])
        self.assertEqual(self.host, lines["stand-ins"])
        self.assertEqual("works", lines["run --host"])
        self.assertTrue(lines["verdict"].startswith("works"), lines["verdict"])

    def test_bare_installation_does_not_work(self):
        bare = tempfile.mkdtemp(dir=self.folder)
        os.mkdir(f"{bare}/bin")
        shutil.copy(self.command, f"{bare}/bin/ucudnn")
        result = subprocess.run([f"{bare}/bin/ucudnn", "doctor"], capture_output=True, text=True)
        self.assertEqual(1, result.returncode)
        self.assertRegex(result.stdout, r"run --host +no: .*libcuda.so.1' is missing: the CPU stand-ins come with a build from source")
        self.assertRegex(result.stdout, r"fault +.*/libcudnn.so.9 is missing\n  why +ucudnn is not complete here")
        self.assertRegex(result.stdout, r"verdict +does not work: ")

    def test_real_cudnn_is_named_with_its_version(self):
        folder = f"{self.folder}/real"
        os.makedirs(folder)
        self.build("unsigned long cudnnGetVersion(void) { return 91234; }", f"{folder}/libcudnn.so.9", "-shared",
                   "-Wl,-soname,libcudnn.so.9")
        _, lines, _ = self.diagnose(UCUDNN_REAL_CUDNN=f"{folder}/libcudnn.so.9")
        self.assertEqual(f"9.12.34, {folder}/libcudnn.so.9", lines["real cuDNN"])

    def test_functions_of_a_newer_cudnn_are_told(self):
        folder = f"{self.folder}/newer"
        os.makedirs(folder)
        source = "unsigned long cudnnGetVersion(void) { return 99900; } int cudnnLater(void) { return 0; }" \
            "int cudnnLast(void) { return 0; } int unrelated(void) { return 0; }"
        self.build(source, f"{folder}/libcudnn.so.9", "-shared", "-Wl,-soname,libcudnn.so.9")
        self.build("int cudnnGetVersion(void) { return 0; }", f"{folder}/drop_in.so", "-shared",
                   "-Wl,-soname,libcudnn.so.9")
        saved = f"{self.folder}/saved.so"
        os.rename(self.drop_in, saved)
        try:
            shutil.copy(f"{folder}/drop_in.so", self.drop_in)
            code, _, text = self.diagnose(UCUDNN_REAL_CUDNN=f"{folder}/libcudnn.so.9")
        finally:
            os.rename(saved, self.drop_in)
        self.assertEqual(0, code)
        flat = " ".join(text.split())
        self.assertIn(f"the drop-in lacks 2 functions of {folder}/libcudnn.so.9: cudnnLast, cudnnLater", flat)
        self.assertIn(f"tools/generate-dropin --library {folder}/libcudnn.so.9 --include", flat)

    def test_store_that_cannot_be_made_is_told(self):
        _, lines, text = self.diagnose(UCUDNN_DATABASE=f"{self.program}/m.db")
        self.assertEqual(f"{self.program}/m.db (no: {self.program} is not a folder)", lines["store"])
        self.assertIn("name another with UCUDNN_DATABASE or --db", text)
        _, lines, _ = self.diagnose(UCUDNN_DATABASE=f"{self.folder}/new/folder/m.db")
        self.assertEqual(f"{self.folder}/new/folder/m.db (made when first used)", lines["store"])
        _, lines, _ = self.diagnose(UCUDNN_DATABASE="none")
        self.assertIn("none", lines["store"])

    def test_store_that_is_no_store_is_told(self):
        damaged = self.write("damaged.db", b"SQLite format 3\0" + bytes(range(256)) * 40)
        code, lines, text = self.diagnose(UCUDNN_DATABASE=damaged)
        self.assertEqual(0, code)
        self.assertIn("it is damaged", lines["store"])
        self.assertIn("measurements go to a file beside it", text)
        _, lines, _ = self.diagnose(UCUDNN_DATABASE=self.folder)
        self.assertIn("is no file", lines["store"])
        _, _, text = self.diagnose(UCUDNN_DATABASE=f"{self.folder}/first.db:{self.folder}/gone.db")
        self.assertIn(f"the store {self.folder}/gone.db is missing", text)

    def test_store_without_rights_is_told(self):
        unreadable = self.write("unreadable.db", b"")
        os.chmod(unreadable, 0)
        text = self.diagnose_as_another(UCUDNN_DATABASE=unreadable).stdout
        self.assertIn(f"the store {unreadable} cannot be read", text)
        read_only = self.write("read_only.db", b"")
        os.chmod(read_only, 0o444)
        text = self.diagnose_as_another(UCUDNN_DATABASE=read_only).stdout
        self.assertIn(f"the store {read_only} is read only", text)
        self.assertIn(f"UCUDNN_DATABASE=MINE:{read_only}", text)

    def test_variable_that_is_ignored_is_told(self):
        _, lines, text = self.diagnose(UCUDNN_BATCH_SIZE_POLICY="foo")
        self.assertEqual("UCUDNN_BATCH_SIZE_POLICY=foo", lines["environment"])
        self.assertIn("UCUDNN_BATCH_SIZE_POLICY='foo' is ignored", text)

    def test_misspelt_variable_is_told_with_the_nearest(self):
        code, _, text = self.diagnose(UCUDNN_WORKSPACE_LIMT="8MiB")
        self.assertEqual(0, code)
        self.assertIn("UCUDNN_WORKSPACE_LIMT is no variable of ucudnn", text)
        self.assertIn("did you mean UCUDNN_WORKSPACE_LIMIT?", text)

    def test_text_of_others_forges_no_line(self):
        _, _, text = self.diagnose(UCUDNN_X="\x1b[2J\nverdict         works")
        self.assertNotIn("\x1b", text)
        self.assertEqual(1, sum(line.startswith("verdict") for line in text.splitlines()))
        self.assertIn("UCUDNN_X=?[2J?verdict", text)

    def test_outdated_settings_are_told(self):
        _, _, text = self.diagnose(UCUDNN_DEFAULT_WORKSPACE_LIMIT="8MiB", UCUDNN_WORKSPACE_LIMIT="4MiB")
        self.assertIn("UCUDNN_DEFAULT_WORKSPACE_LIMIT is an older name of UCUDNN_WORKSPACE_LIMIT", text)
        self.assertIn("and wins", text)
        _, _, text = self.diagnose(UCUDNN_REAL_CUDNN=f"{self.folder}/removed/libcudnn.so.9")
        self.assertIn("UCUDNN_REAL_CUDNN is ignored", text)
        self.assertIn("unset UCUDNN_REAL_CUDNN, or correct it", text)
        code, lines, _ = self.diagnose(UCUDNN_MODE="off")
        self.assertEqual(1, code)
        self.assertIn("UCUDNN_MODE=off", lines["verdict"])

    def test_program_that_cannot_be_served_is_told_why(self):
        program = self.build("int main(void) { return 0; }", f"{self.folder}/static", "-static")
        code, lines, _ = self.diagnose("--host", "--", program)
        self.assertEqual(1, code)
        self.assertIn("static executable", lines["verdict"])

    def test_static_cudnn_is_told(self):
        source = "int cudnnCreate(void) { return 0; } int main(void) { return cudnnCreate(); }"
        program = self.build(source, f"{self.folder}/static_cudnn", "-static")
        code, _, text = self.diagnose("--host", "--", program)
        self.assertEqual(1, code)
        self.assertIn("cuDNN is linked in statically", text)
        program = self.build(source, f"{self.folder}/half_static_cudnn")
        code, lines, _ = self.diagnose("--host", "--", program)
        self.assertEqual(1, code)
        self.assertIn(f"cuDNN is linked into {program} statically", lines["verdict"])

    def test_program_for_cudnn_8_is_told(self):
        library = self.build("int cudnnCreate(void) { return 0; }", f"{self.folder}/libcudnn.so.8", "-shared",
                             "-Wl,-soname,libcudnn.so.8")
        program = self.build("int cudnnCreate(void); int main(void) { return cudnnCreate(); }", f"{self.folder}/old",
                             library, f"-Wl,-rpath,{self.folder}")
        code, lines, text = self.diagnose("--host", "--", program)
        self.assertEqual(1, code)
        self.assertIn(f"{program} needs libcudnn.so.8", lines["verdict"])
        self.assertIn("a build of the program for cuDNN 9", text)

    def test_program_without_cudnn_is_told(self):
        code, lines, text = self.diagnose("--host", "--", self.program, "argument", "argument")
        self.assertEqual(1, code)
        self.assertIn("argument=argument", text)
        self.assertIn("the program used no cuDNN", lines["verdict"])
        self.assertNotIn("exit code", text)

    def test_program_that_fails_is_told(self):
        _, lines, text = self.diagnose("--host", "--", self.program, "argument")
        self.assertIn("the program ended with exit code 7", text)
        self.assertIn("ucudnn run --off --", text)

    def test_missing_driver_is_told_where_a_program_needs_it(self):
        code, lines, text = self.diagnose("--", self.program)
        if "driver" not in lines or not lines["driver"].startswith("no: "):
            self.skipTest("this machine has a driver")
        self.assertEqual(1, code)
        self.assertEqual("does not work: there is no CUDA driver that works", lines["verdict"])
        self.assertRegex(text, r"  do +(start the container with its GPUs|install NVIDIA's driver)")

    def with_nccl(self):
        """Returns the settings of rank 1 of 4, whose cuDNN has an NCCL beside it."""
        folder = f"{self.folder}/with_nccl"
        if not os.path.isdir(folder):
            os.makedirs(folder)
            self.build("unsigned long cudnnGetVersion(void) { return 91900; }", f"{folder}/libcudnn.so.9", "-shared",
                       "-Wl,-soname,libcudnn.so.9")
            others = ("GetErrorString", "GetLastError", "GetUniqueId", "CommInitRankConfig", "CommDestroy", "CommAbort",
                      "CommGetAsyncError", "GroupStart", "GroupEnd", "Send", "Recv", "AllReduce")
            source = "int ncclGetVersion(int* version) { *version = 22809; return 0; }" + "".join(
                f"int nccl{name}(void) {{ return 1; }}" for name in others)
            self.build(source, f"{folder}/libnccl.so.2", "-shared", "-Wl,-soname,libnccl.so.2")
        return {"UCUDNN_REAL_CUDNN": f"{folder}/libcudnn.so.9", "UCUDNN_SPATIAL": "h4", "RANK": "1", "WORLD_SIZE": "4",
                "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}

    def test_a_split_job_has_launcher_rendezvous_transport_and_nccl(self):
        settings = self.with_nccl()
        code, lines, text = self.diagnose(**settings)
        self.assertEqual(0, code, text)
        self.assertEqual("h4, 4 ranks, this process is rank 1", lines["split over"])
        self.assertEqual("torchrun, or one that sets its variables: RANK=1, WORLD_SIZE=4, 4 of them on this host", lines["launcher"])
        self.assertRegex(lines["rendezvous"], r"^tcp://127.0.0.1:\d+ \(as the launcher says, without a token\)$")
        self.assertTrue(lines["transport"].startswith("auto: nccl where each rank has a GPU of its own"), lines["transport"])
        self.assertEqual(f"2.28.9, {self.folder}/with_nccl/libnccl.so.2", lines["NCCL"])
        # Without a split, none of this is shown.
        _, lines, _ = self.diagnose()
        self.assertNotIn("launcher", lines)

    def test_a_split_job_under_other_launchers(self):
        settings = {name: value for name, value in self.with_nccl().items() if name.startswith("UCUDNN_")}
        for launcher, variables in (
                ("Open MPI: OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4",
                 {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}),
                ("MPICH or one of its kind: PMI_RANK=3, PMI_SIZE=4", {"PMI_RANK": "3", "PMI_SIZE": "4"}),
                ("SLURM: SLURM_PROCID=3, SLURM_NTASKS=4", {"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}),
                ("none that says which rank this process is; those that the program starts may have one", {})):
            _, lines, _ = self.diagnose(**settings, **variables, UCUDNN_RENDEZVOUS="file:/tmp/meeting")
            self.assertEqual(launcher, lines["launcher"])
            self.assertEqual("file:/tmp/meeting (UCUDNN_RENDEZVOUS, without a token)", lines["rendezvous"])
        _, lines, _ = self.diagnose(**settings, UCUDNN_SPATIAL_TRANSPORT="peer")
        self.assertEqual("none: the ranks are threads of the process", lines["launcher"])
        self.assertEqual("a file in the folder for temporary ones", lines["rendezvous"])
        self.assertTrue(lines["transport"].startswith("peer: "))
        _, lines, text = self.diagnose(**settings, UCUDNN_SPATIAL_TRANSPORT="loopback")
        self.assertTrue(lines["transport"].startswith("loopback: copies between one process's threads"))
        self.assertNotIn("rows travel through host memory", text)

    def test_what_keeps_ranks_from_meeting_is_told(self):
        settings = self.with_nccl()
        code, _, text = self.diagnose(**settings | {"LOCAL_WORLD_SIZE": "2"})
        self.assertEqual(1, code)
        self.assertRegex(text, r"ranks meet at tcp://127.0.0.1:\d+, but only 2 of 4 are on this host")
        settings |= {"UCUDNN_RENDEZVOUS": "tcp://node7:4000", "LOCAL_WORLD_SIZE": "2"}
        code, lines, text = self.diagnose(**settings)
        self.assertEqual(0, code)
        self.assertIn("ranks meet without a token", text)
        _, lines, text = self.diagnose(**settings, UCUDNN_RENDEZVOUS_TOKEN="very-secret")
        self.assertEqual("tcp://node7:4000 (UCUDNN_RENDEZVOUS, with a token)", lines["rendezvous"])
        self.assertNotIn("without a token", text)
        self.assertNotIn("very-secret", text)

    def test_what_would_make_exchanges_faster_is_told(self):
        settings = self.with_nccl()
        flat = lambda text: " ".join(text.split())
        _, _, text = self.diagnose(**settings)
        self.assertNotIn("to be faster", text)
        _, _, text = self.diagnose(**settings, UCUDNN_SPATIAL_TRANSPORT="loopback")
        self.assertIn("rows travel through host memory", text)
        self.assertIn("to be faster, give each rank a GPU of its own", flat(text))
        _, _, text = self.diagnose(**settings, UCUDNN_SPATIAL_AGREE="each", UCUDNN_CHECK="1")
        self.assertIn("UCUDNN_SPATIAL_AGREE=each: ranks wait for each other at every call", text)
        self.assertIn("UCUDNN_CHECK=1: each call waits for all ranks' records", text)
        os.rename(f"{self.folder}/with_nccl/libnccl.so.2", f"{self.folder}/with_nccl/none")
        try:
            self.build("int ncclGetVersion(int* version) { *version = 21000; return 0; }",
                       f"{self.folder}/with_nccl/libnccl.so.2", "-shared", "-Wl,-soname,libnccl.so.2")
            _, lines, text = self.diagnose(**settings)
        finally:
            os.rename(f"{self.folder}/with_nccl/none", f"{self.folder}/with_nccl/libnccl.so.2")
        self.assertIn("is older than 2.18.0", lines["NCCL"])
        self.assertIn("no NCCL was found", text)

    def test_json_says_the_same(self):
        result = self.run_command("doctor", "--json", "--host", "--", self.program, UCUDNN_TYPO="1")
        self.assertEqual(1, result.returncode)
        self.assertIn("argument=", result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(("ucudnn-doctor", 1, False), (report["format"], report["version"], report["works"]))
        self.assertEqual("does not work: the program used no cuDNN", report["verdict"])
        self.assertIn({"name": "drop-in", "text": self.drop_in}, report["facts"])
        self.assertIn(("warning", "UCUDNN_TYPO is no variable of ucudnn: it changes nothing"),
                      [(finding["severity"], finding["what"]) for finding in report["findings"]])

    def test_process_of_another_user(self):
        result = self.diagnose_as_another("--pid", str(os.getpid()) if os.geteuid() == 0 else "1")
        self.assertEqual(1, result.returncode)
        self.assertRegex(result.stdout, r"may not be looked into: /proc/\d+/maps: cannot be opened: Permission denied")
        self.assertIn("run the doctor as its user, or as root", result.stdout)


if __name__ == "__main__":
    unittest.main()
