"""`ucudnn cache`: what was imported is shown and exported again, and bad files are told where they are bad."""

import csv
import json
import os
import unittest

from command import CommandTest

ROWS = [
    {"name": "conv2", "n": "256", "c": "64", "h": "27", "w": "27", "k": "192", "r": "5", "s": "5", "pad_h": "2", "pad_w": "2",
     "op": "forward", "engine": f"legacy:{engine}", "micro_batch": str(size), "time_ms": time, "workspace_bytes": "1048576",
     "deterministic": "1", "cudnn": "91900", "driver": "13000", "device": "Some GPU", "samples": "5", "verified": "1"}
    for engine, size, time in ((0, 256, "3.25"), (1, 256, "0.1"), (1, 32, "0.012345678901234567"))
]


class Cache(CommandTest):
    def setUp(self):
        self.store = f"{self.folder}/{self.id()}.db"
        self.file = self.write("rows.csv", ROWS)

    def write(self, name, rows):
        path = f"{self.folder}/{name}"
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        return path

    def cache(self, *words, **variables):
        result = self.run_command("cache", *words, **variables)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stdout

    def exported(self):
        self.cache("export", f"{self.folder}/out.csv", "--db", self.store)
        with open(f"{self.folder}/out.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_round_trip_loses_nothing(self):
        self.assertEqual("3 measurements imported\n", self.cache("import", self.file, "--db", self.store))
        rows = self.exported()
        self.assertEqual(len(ROWS), len(rows))
        for row, given in zip(rows, ROWS):
            self.assertEqual({**given, "time_ms": float(given["time_ms"])},
                             {k: v if k != "time_ms" else float(v) for k, v in row.items() if k in given})

    def test_second_import_adds_nothing(self):
        self.cache("import", self.file, "--db", self.store)
        self.assertEqual("0 measurements imported, 3 known before\n", self.cache("import", self.file, "--db", self.store))

    def test_show_groups_by_device_and_kernel(self):
        self.cache("import", self.file, "--db", self.store)
        text = self.cache("show", "--db", self.store)
        self.assertIn("Some GPU, cuDNN 9.19.0, driver 13.0\n", text)
        self.assertIn("3 measurements of 2 engines at 2 micro-batches up to 256\n", text)

    def test_show_as_json_has_every_row(self):
        self.cache("import", self.file, "--db", self.store)
        shown = json.loads(self.cache("show", "--db", self.store, "--json"))
        self.assertEqual(("ucudnn-cache", 1), (shown["format"], shown["version"]))
        self.assertEqual([float(row["time_ms"]) for row in ROWS], [m["time_ms"] for m in shown["measurements"]])
        self.assertEqual({"Some GPU"}, {m["device"] for m in shown["measurements"]})
        self.assertEqual({27}, {m["h"] for m in shown["measurements"]})

    def test_store_of_the_environment_is_used(self):
        self.cache("import", self.file, UCUDNN_DATABASE=self.store)
        self.assertEqual(3, len(self.exported()))

    def test_rows_without_device_need_one(self):
        file = self.write("anywhere.csv", [{k: v for k, v in row.items() if k != "device"} for row in ROWS])
        self.assert_refused(["cache", "import", file, "--db", self.store], "anywhere.csv:2", "device", "--device NAME")
        self.cache("import", file, "--device", "K80", "--db", self.store)
        self.assertEqual({"K80"}, {row["device"] for row in self.exported()})

    def test_bad_file_is_named_with_line_and_column_and_nothing_is_imported(self):
        file = self.write("bad.csv", ROWS[:2] + [{**ROWS[2], "time_ms": "fast"}])
        self.assert_refused(["cache", "import", file, "--db", self.store], "bad.csv:4", "time_ms", "fast")
        self.assertFalse(os.path.exists(self.store))
        self.assert_refused(["cache", "import", f"{self.folder}/none.csv", "--db", self.store], "none.csv")

    def test_no_store_is_refused(self):
        for words in (["show"], ["import", self.file], ["export", "out.csv"]):
            self.assert_refused(["cache", *words, "--db", "none"], f"ucudnn cache {words[0]}: there is no store")

    def test_a_store_that_is_not_there_is_named(self):
        for words in (["show"], ["export", "out.csv"]):
            self.assert_refused(["cache", *words, "--db", f"{self.folder}/none.db"], "none.db", "no such store")

    def test_bad_usage_is_refused(self):
        self.assert_refused(["cache"], "show, import and export")
        self.assert_refused(["cache", "import"], "ucudnn cache import: FILE.csv")
        self.assert_refused(["cache", "show", "--", "x"], "takes no program")
        for later in ("merge", "verify", "prune"):
            self.assert_refused(["cache", later, "a.db"], f"ucudnn cache {later}: not available in this version")

    def test_export_that_cannot_be_written_fails(self):
        self.cache("import", self.file, "--db", self.store)
        result = self.run_command("cache", "export", f"{self.folder}/no/folder.csv", "--db", self.store)
        self.assertEqual(1, result.returncode)
        self.assertIn("cannot be written", result.stderr)


if __name__ == "__main__":
    unittest.main()
