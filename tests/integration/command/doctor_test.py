"""Tests what `ucudnn doctor` says about a machine, variables and stores, and about programs that it refuses to start."""

import json
import os
import shutil
import unittest

from command import CommandTest, ordinary_user


class Doctor(CommandTest):
    def diagnose(self, *words, code=None, **variables):
        """Runs the doctor. Returns ({name of fact: text}, whole output)."""
        result = self.run_command("doctor", *words, **variables)
        self.assertEqual("", result.stderr)
        self.assertIn(code, (None, result.returncode), result.stdout)
        lines = {line[:16].strip(): line[16:] for line in result.stdout.splitlines() if line[:1].strip()}
        return lines, result.stdout

    def diagnose_as_another(self, *words, **variables):
        """Runs the doctor as ordinary_user(), who may read the folder, with an empty HOME."""
        os.chmod(self.folder, 0o755)
        return self.run_command("doctor", *words, process=ordinary_user(), HOME="", **variables)

    def test_whole_installation_works_on_the_host(self):
        lines, _ = self.diagnose(code=0)
        self.assertEqual(self.drop_in, lines["drop-in"])
        self.assertEqual(self.host, lines["stand-ins"])
        self.assertEqual("works", lines["run --host"])
        self.assertTrue(lines["verdict"].startswith("works"), lines["verdict"])

    def test_bare_installation_does_not_work(self):
        self.command = shutil.copy(self.command, self.write("bare/bin/ucudnn", ""))
        _, text = self.diagnose(code=1)
        self.assertRegex(text, r"run --host +no: .*libcuda.so.1' is missing: the CPU stand-ins come with a build from source")
        self.assertRegex(text, r"fault +.*/libcudnn.so.9 is missing\n  why +ucudnn is not complete here")
        self.assertRegex(text, r"verdict +does not work: ")

    def cudnn(self, folder, version, more=""):
        source = f"unsigned long cudnnGetVersion(void) {{ return {version}; }}{more}"
        return self.build_library(source, f"{folder}/libcudnn.so.9")

    def test_real_cudnn_is_named_with_its_version(self):
        real = self.cudnn("real", 91234)
        lines, _ = self.diagnose(UCUDNN_REAL_CUDNN=real)
        self.assertEqual(f"9.12.34, {real}", lines["real cuDNN"])

    def test_functions_of_a_newer_cudnn_are_told(self):
        newer = self.cudnn("newer", 99900, " int cudnnLater(void) { return 0; } int cudnnLast(void) { return 0; }"
                           "int unrelated(void) { return 0; }")
        os.rename(self.drop_in, f"{self.drop_in}.away")
        self.addCleanup(os.rename, f"{self.drop_in}.away", self.drop_in)
        shutil.copy(self.cudnn("old", 0), self.drop_in)
        _, text = self.diagnose(UCUDNN_REAL_CUDNN=newer, code=0)
        flat = " ".join(text.split())
        self.assertIn(f"the drop-in lacks 2 functions of {newer}: cudnnLast, cudnnLater", flat)
        self.assertIn(f"tools/generate-dropin --library {newer} --include", flat)

    def test_store_that_cannot_be_made_is_told(self):
        lines, text = self.diagnose(UCUDNN_DATABASE=f"{self.program}/m.db")
        self.assertEqual(f"{self.program}/m.db (no: {self.program} is not a folder)", lines["store"])
        self.assertIn("name another with UCUDNN_DATABASE or --db", text)
        lines, _ = self.diagnose(UCUDNN_DATABASE=f"{self.folder}/new/folder/m.db")
        self.assertEqual(f"{self.folder}/new/folder/m.db (made when first used)", lines["store"])
        lines, _ = self.diagnose(UCUDNN_DATABASE="none")
        self.assertIn("none", lines["store"])

    def test_store_that_is_no_store_is_told(self):
        damaged = self.write("damaged.db", b"SQLite format 3\0" + bytes(range(256)) * 40)
        lines, text = self.diagnose(UCUDNN_DATABASE=damaged, code=0)
        self.assertIn("it is damaged", lines["store"])
        self.assertIn("measurements go to a file beside it", text)
        lines, _ = self.diagnose(UCUDNN_DATABASE=self.folder)
        self.assertIn("is no file", lines["store"])
        _, text = self.diagnose(UCUDNN_DATABASE=f"{self.folder}/first.db:{self.folder}/gone.db")
        self.assertIn(f"the store {self.folder}/gone.db is missing", text)

    def test_store_without_rights_is_told(self):
        unreadable = self.write("unreadable.db", b"", 0)
        text = self.diagnose_as_another(UCUDNN_DATABASE=unreadable).stdout
        self.assertIn(f"the store {unreadable} cannot be read", text)
        read_only = self.write("read_only.db", b"", 0o444)
        text = self.diagnose_as_another(UCUDNN_DATABASE=read_only).stdout
        self.assert_has(text, f"the store {read_only} is read only", f"UCUDNN_DATABASE=MINE:{read_only}")

    def test_variable_that_is_ignored_is_told(self):
        lines, text = self.diagnose(UCUDNN_BATCH_SIZE_POLICY="foo")
        self.assertEqual("UCUDNN_BATCH_SIZE_POLICY=foo", lines["environment"])
        self.assertIn("UCUDNN_BATCH_SIZE_POLICY='foo' is ignored", text)

    def test_misspelt_variable_is_told_with_the_nearest(self):
        _, text = self.diagnose(UCUDNN_WORKSPACE_LIMT="8MiB", code=0)
        self.assert_has(text, "UCUDNN_WORKSPACE_LIMT is no variable of ucudnn", "did you mean UCUDNN_WORKSPACE_LIMIT?")

    def test_text_of_others_forges_no_line(self):
        _, text = self.diagnose(UCUDNN_X="\x1b[2J\nverdict         works")
        self.assertNotIn("\x1b", text)
        self.assertEqual(1, sum(line.startswith("verdict") for line in text.splitlines()))
        self.assertIn("UCUDNN_X=?[2J?verdict", text)

    def test_outdated_settings_are_told(self):
        _, text = self.diagnose(UCUDNN_DEFAULT_WORKSPACE_LIMIT="8MiB", UCUDNN_WORKSPACE_LIMIT="4MiB")
        self.assert_has(text, "UCUDNN_DEFAULT_WORKSPACE_LIMIT is an older name of UCUDNN_WORKSPACE_LIMIT", "and wins")
        _, text = self.diagnose(UCUDNN_REAL_CUDNN=f"{self.folder}/removed/libcudnn.so.9")
        self.assert_has(text, "UCUDNN_REAL_CUDNN is ignored", "unset UCUDNN_REAL_CUDNN, or correct it")
        lines, _ = self.diagnose(UCUDNN_MODE="off", code=1)
        self.assertIn("UCUDNN_MODE=off", lines["verdict"])

    def test_program_that_cannot_be_served_is_told_why(self):
        own = "int cudnnCreate(void) { return 0; } int main(void) { return cudnnCreate(); }"
        half = self.build(own, "half_static_cudnn")
        eight = self.build_library("int cudnnCreate(void) { return 0; }", "eight/libcudnn.so.8")
        old = self.build("int cudnnCreate(void); int main(void) { return cudnnCreate(); }", "for_eight", eight,
                         f"-Wl,-rpath,{self.folder}/eight")
        for words, verdict, *texts in (
                ([self.build("int main(void) { return 0; }", "static", "-static")], "static executable"),
                ([self.build(own, "static_cudnn", "-static")], "", "cuDNN is linked in statically"),
                ([half], f"cuDNN is linked into {half} statically"),
                ([old], f"{old} needs libcudnn.so.8", "a build of the program for cuDNN 9"),
                ([self.program, "argument", "argument"], "the program used no cuDNN", "argument=argument"),
                ([self.program, "argument"], "", "the program ended with exit code 7", "ucudnn run --off --")):
            with self.subTest(words=words):
                lines, text = self.diagnose("--host", "--", *words, code=1)
                self.assertIn(verdict, lines["verdict"])
                for expected in texts:
                    self.assertIn(expected, text)
                self.assertEqual(words[1:] == ["argument"], "exit code" in text)

    def test_missing_driver_is_told_where_a_program_needs_it(self):
        lines, text = self.diagnose("--", self.program, code=1)
        if "driver" not in lines or not lines["driver"].startswith("no: "):
            self.skipTest("this machine has a driver")
        self.assertEqual("does not work: there is no CUDA driver that works", lines["verdict"])
        self.assertRegex(text, r"  do +(start the container with its GPUs|install NVIDIA's driver)")

    def with_nccl(self):
        """Returns the environment of rank 1 of 4, whose cuDNN is in a folder that also has an NCCL."""
        others = ("GetErrorString", "GetLastError", "GetUniqueId", "CommInitRankConfig", "CommDestroy", "CommAbort",
                  "CommGetAsyncError", "GroupStart", "GroupEnd", "Send", "Recv", "AllReduce")
        self.build_library("int ncclGetVersion(int* version) { *version = 22809; return 0; }" + "".join(
            f"int nccl{name}(void) {{ return 1; }}" for name in others), "with_nccl/libnccl.so.2")
        return {"UCUDNN_REAL_CUDNN": self.cudnn("with_nccl", 91900), "UCUDNN_SPATIAL": "h4", "RANK": "1", "WORLD_SIZE": "4",
                "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}

    def test_a_split_job_has_launcher_rendezvous_transport_and_nccl(self):
        settings = self.with_nccl()
        lines, text = self.diagnose(**settings, code=0)
        self.assertEqual("h4, 4 ranks, this process is rank 1", lines["split over"])
        self.assertEqual("torchrun, or one that sets its variables: RANK=1, WORLD_SIZE=4, 4 of them on this host", lines["launcher"])
        self.assertRegex(lines["rendezvous"], r"^tcp://127.0.0.1:\d+ \(as the launcher says, without a token\)$")
        self.assertTrue(lines["transport"].startswith("auto: nccl where each rank has a GPU of its own"), lines["transport"])
        self.assertEqual(f"2.28.9, {self.folder}/with_nccl/libnccl.so.2", lines["NCCL"])
        # Without UCUDNN_SPATIAL, the doctor says nothing about ranks.
        lines, _ = self.diagnose()
        self.assertEqual(set(), lines.keys() & {"split over", "launcher", "rendezvous", "transport"})

    def test_a_split_job_under_other_launchers(self):
        settings = {name: value for name, value in self.with_nccl().items() if name.startswith("UCUDNN_")}
        for launcher, variables in (
                ("Open MPI: OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4",
                 {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}),
                ("MPICH or one of its kind: PMI_RANK=3, PMI_SIZE=4", {"PMI_RANK": "3", "PMI_SIZE": "4"}),
                ("SLURM: SLURM_PROCID=3, SLURM_NTASKS=4", {"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}),
                ("none that says which rank this process is; those that the program starts may have one", {})):
            lines, _ = self.diagnose(**settings, **variables, UCUDNN_RENDEZVOUS="file:/tmp/meeting")
            self.assertEqual(launcher, lines["launcher"])
            self.assertEqual("file:/tmp/meeting (UCUDNN_RENDEZVOUS, without a token)", lines["rendezvous"])
        lines, _ = self.diagnose(**settings, UCUDNN_SPATIAL_TRANSPORT="peer")
        self.assertEqual("none: the ranks are threads of the process", lines["launcher"])
        self.assertEqual("a file in the folder for temporary ones", lines["rendezvous"])
        self.assertTrue(lines["transport"].startswith("peer: "))
        lines, text = self.diagnose(**settings, UCUDNN_SPATIAL_TRANSPORT="loopback")
        self.assertTrue(lines["transport"].startswith("loopback: copies between one process's threads"))
        self.assertNotIn("rows travel through host memory", text)

    def test_what_keeps_ranks_from_meeting_is_told(self):
        settings = self.with_nccl()
        _, text = self.diagnose(**settings | {"LOCAL_WORLD_SIZE": "2"}, code=1)
        self.assertRegex(text, r"ranks meet at tcp://127.0.0.1:\d+, but only 2 of 4 are on this host")
        settings |= {"UCUDNN_RENDEZVOUS": "tcp://node7:4000", "LOCAL_WORLD_SIZE": "2"}
        lines, text = self.diagnose(**settings, code=0)
        self.assertIn("ranks meet without a token", text)
        lines, text = self.diagnose(**settings, UCUDNN_RENDEZVOUS_TOKEN="very-secret")
        self.assertEqual("tcp://node7:4000 (UCUDNN_RENDEZVOUS, with a token)", lines["rendezvous"])
        self.assertNotIn("without a token", text)
        self.assertNotIn("very-secret", text)

    def test_what_would_make_exchanges_faster_is_told(self):
        settings = self.with_nccl()
        flat = lambda text: " ".join(text.split())
        _, text = self.diagnose(**settings)
        self.assertNotIn("to be faster", text)
        _, text = self.diagnose(**settings, UCUDNN_SPATIAL_TRANSPORT="loopback")
        self.assertIn("rows travel through host memory", text)
        self.assertIn("to be faster, give each rank a GPU of its own", flat(text))
        _, text = self.diagnose(**settings, UCUDNN_SPATIAL_AGREE="each", UCUDNN_CHECK="1")
        self.assertIn("UCUDNN_SPATIAL_AGREE=each: ranks wait for each other at every call", text)
        self.assertIn("UCUDNN_CHECK=1: each call waits for all ranks' records", text)
        self.build_library("int ncclGetVersion(int* version) { *version = 21000; return 0; }", "with_nccl/libnccl.so.2")
        lines, text = self.diagnose(**settings)
        self.assertIn("is older than 2.18.0", lines["NCCL"])
        self.assertIn("no NCCL was found", text)

    def test_json_says_the_same(self):
        result = self.ended(1, "doctor", "--json", "--host", "--", self.program, UCUDNN_TYPO="1")
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
