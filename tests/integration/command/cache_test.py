"""Tests `ucudnn cache`: import, export, show, merge, verify and prune. Imported measurements are shown and exported
unchanged. Errors in files name the file and line or column."""

import contextlib
import json
import os
import shutil
import sqlite3
import unittest

from command import CommandTest, ordinary_user

ROWS = [
    {"name": "conv2", "n": "256", "c": "64", "h": "27", "w": "27", "k": "192", "r": "5", "s": "5", "pad_h": "2", "pad_w": "2",
     "op": "forward", "engine": f"legacy:{engine}", "micro_batch": str(size), "time_ms": time, "workspace_bytes": "1048576",
     "deterministic": "1", "cudnn": "91900", "driver": "13000", "device": "Some GPU", "samples": "5", "verified": "1"}
    for engine, size, time in ((0, 256, "3.25"), (1, 256, "0.1"), (1, 32, "0.012345678901234567"))
]


class Cache(CommandTest):
    def setUp(self):
        super().setUp()
        self.file = self.write_rows("rows.csv", ROWS)

    def cache(self, *words, **variables):
        return self.ended(0, "cache", *words, **variables).stdout

    @staticmethod
    def sql(store, statement, *values):
        """Runs a statement once for each of `values`, or once without values. Returns the rows of the last run."""
        with contextlib.closing(sqlite3.connect(store)) as connection, connection:
            for one in values or ((),):
                found = connection.execute(statement, one).fetchall()
        return found

    def test_round_trip_loses_nothing_and_makes_the_folder_that_is_missing(self):
        shutil.rmtree(f"{self.folder}/out", ignore_errors=True)
        self.assertEqual("3 measurements imported\n", self.cache("import", self.file, "--db", self.store))
        rows = self.exported()
        self.assertEqual(len(ROWS), len(rows))
        for row, given in zip(rows, ROWS):
            self.assertEqual({**given, "time_ms": float(given["time_ms"])},
                             {k: v if k != "time_ms" else float(v) for k, v in row.items() if k in given})
        # A second import adds nothing.
        self.assertEqual("0 measurements imported, 3 known before\n", self.cache("import", self.file, "--db", self.store))

    def test_show_groups_by_device_and_kernel(self):
        self.cache("import", self.file, "--db", self.store)
        text = self.cache("show", "--db", self.store)
        self.assertIn("Some GPU, cuDNN 9.19.0, driver 13.0\n", text)
        self.assertIn("    fastest at 256: IMPLICIT_PRECOMP_GEMM (legacy:1), 0.1 ms, 1 MiB workspace\n", text)
        self.assertIn("3 measurements of 2 engines at 2 micro-batches up to 256, 3 verified\n", text)

    def test_show_says_n_where_the_rows_do_not_tell_their_mini_batch(self):
        self.cache("import", self.write_rows("families.csv", [{k: v for k, v in row.items() if k != "n"} for row in ROWS]),
                   "--db", self.store)
        text = self.cache("show", "--db", self.store)
        self.assertIn("forward Nx64x27x27 -> ", text)
        self.assertNotIn("0x64x27x27", text)

    def test_show_as_json_has_every_row(self):
        self.cache("import", self.file, "--db", self.store)
        shown = json.loads(self.cache("show", "--db", self.store, "--json"))
        self.assertEqual(("ucudnn-cache", 2), (shown["format"], shown["version"]))
        self.assertEqual([float(row["time_ms"]) for row in ROWS], [m["piece_ms"] for m in shown["measurements"]])
        self.assertEqual({"Some GPU"}, {m["device"] for m in shown["measurements"]})
        self.assertEqual({27}, {m["h"] for m in shown["measurements"]})

    def test_store_of_the_environment_is_used(self):
        self.cache("import", self.file, UCUDNN_DATABASE=self.store)
        self.assertEqual(3, len(self.exported()))

    def test_rows_without_device_need_one(self):
        file = self.write_rows("anywhere.csv", [{k: v for k, v in row.items() if k != "device"} for row in ROWS])
        self.assert_refused(["cache", "import", file, "--db", self.store], "anywhere.csv:2", "device", "--device NAME")
        self.cache("import", file, "--device", "K80", "--db", self.store)
        self.assertEqual({"K80"}, {row["device"] for row in self.exported()})

    def store_with(self, name, rows):
        path = f"{self.folder}/{self.id()}.{name}.db"
        self.cache("import", self.write_rows(f"{name}.csv", rows), "--db", path)
        return path

    def test_merge_keeps_the_stores_own_rows_and_counts_the_new_ones(self):
        self.cache("import", self.file, "--db", self.store)
        slower = [{**row, "time_ms": "99"} for row in ROWS]
        first = self.store_with("first", slower[:1] + [{**slower[1], "engine": "legacy:7"}])
        second = self.store_with("second", [{**row, "device": "Other GPU"} for row in ROWS])
        bytes_before = [open(path, "rb").read() for path in (first, second)]
        os.chmod(second, 0o444)
        self.assertEqual(f"{first}: 1 new measurement, 1 known before; 1 row differs from the first store's, which counts\n{second}: 3 new measurements, 0 known before\n",
                         self.cache("merge", first, second, "--db", self.store))
        self.assertEqual(bytes_before, [open(path, "rb").read() for path in (first, second)])
        rows = self.exported()
        self.assertEqual(7, len(rows))
        self.assertEqual(3.25, float(rows[0]["time_ms"]))
        self.assertEqual(["99"], [row["time_ms"] for row in rows if row["engine"] == "legacy:7"])
        self.assertEqual(f"{second}: 0 new measurements, 3 known before\n",
                         self.cache("merge", second, "--db", self.store))

    def test_edges_of_an_image_are_kernels_of_their_own(self):
        inner = {**ROWS[0], "n": "1", "micro_batch": "1", "pad_h": "0"}
        edges = [{**inner, "time_ms": "1", "pad_h": "2", "pad_h_post": "0"}, {**inner, "time_ms": "2", "pad_h_post": "2"},
                 {**inner, "time_ms": "4", "pad_h_post": ""}]
        self.assertEqual("3 measurements imported\n", self.cache("import", self.write_rows("edges.csv", edges), "--db", self.store))
        self.cache("import", self.file, "--db", self.store)
        rows = self.exported()
        self.assertEqual([("2", "0"), ("0", "2"), ("0", ""), ("2", "")],
                         [(row["pad_h"], row["pad_h_post"]) for row in rows[:4]])
        self.assertEqual({""}, {row["pad_w_post"] for row in rows})
        self.assertIn("4 kernels, 6 measurements", self.cache("verify", "--db", self.store))
        other = self.store_with("edges", [{**edges[0], "time_ms": "8"}, *({**row, "device": "Other GPU"} for row in edges),
                                          {**edges[0], "engine": "pack", "workspace_bytes": "4096"}])
        self.assertEqual(f"{other}: 4 new measurements, 1 known before; 1 row differs from the first store's, which counts\n",
                         self.cache("merge", other, "--db", self.store))
        self.assertIn("4 kernels, 10 measurements", self.cache("verify", "--db", self.store))
        self.assertEqual(["1"], [row["time_ms"] for row in self.exported() if (row["engine"], row["device"], row["pad_h_post"])
                                 == (edges[0]["engine"], "Some GPU", "0")])
        self.assertIn("-> 192, 5x5 pad 2x2 and 0x2 behind", self.cache("show", "--db", self.store))

    def test_merge_and_prune_look_after_promises(self):
        first, second = self.store_with("first", ROWS), self.store_with("second", ROWS)
        for store, *rows in ((first, (91900, 4096), (90000, 4096)), (second, (91900, 2048))):
            self.sql(store, "INSERT INTO promises VALUES(1, 256, 'A', ?, 13000, 'graph:38', 8192, ?, 'graph:0', 0)", *rows)
        self.assertIn("known before; 2 new promises, 0 known before\n", self.cache("merge", first, "--db", self.store))
        self.assertIn("known before; 0 new promises, 1 known before\n", self.cache("merge", second, "--db", self.store))
        self.assertIn("; 2 promises\n", self.cache("verify", "--db", self.store))
        self.assertIn("  A, cuDNN 9.0.0, driver 13.0: 0 measurements\n", self.cache("prune", "--device", "A", "--db", self.store))
        self.assertEqual([(91900, 4096)], self.sql(self.store, "SELECT cudnn, workspace_bytes FROM promises"))

    def test_promises_are_shown_and_move_as_csv(self):
        first = self.store_with("first", ROWS)
        self.sql(first, "INSERT INTO promises VALUES(1, 256, 'A', 91900, 13000, ?, 8192, ?, ?, ?)",
                 ("graph:38[k2=1]", 4096, "graph:0", 1), ("graph:67", 0, "graph:0", 0), ("graph:68", 2048, "", 0))
        self.cache("merge", first, "--db", self.store)
        text = self.cache("show", "--db", self.store)
        self.assertIn("\n    graph:38[k2=1], 4 KiB workspace within 8 KiB, undivided graph:0\n  promised: ", text)
        self.assertIn("\n    graph:68, 2 KiB workspace within 8 KiB, in pieces alone\n", text)
        self.assertTrue(text.endswith("\n3 measurements, 3 promises\n"), text)
        shown = json.loads(self.cache("show", "--db", self.store, "--json"))["promises"]
        self.assertEqual([("graph:38[k2=1]", 256, 8192, 4096, "graph:0", True, "A"), ("graph:67", 256, 8192, 0, "graph:0", False, "A"),
                          ("graph:68", 256, 8192, 2048, None, False, "A")],
                         [tuple(p[k] for k in ("engine", "n", "limit_bytes", "workspace_bytes", "undivided", "any_engine", "device"))
                          for p in shown])
        shown = json.loads(self.cache("show", "--device", "Some GPU", "--db", self.store, "--json"))
        self.assertEqual((3, []), (len(shown["measurements"]), shown["promises"]))
        whole = self.exported()
        self.assertEqual(len(ROWS) + 3, len(whole))
        other = f"{self.folder}/{self.id()}-other.db"
        self.assertEqual("3 measurements imported; 3 promises imported\n", self.cache("import", "out/of/rows.csv", "--db", other))
        self.assertEqual("0 measurements imported, 3 known before; 0 promises imported, 3 known before\n",
                         self.cache("import", "out/of/rows.csv", "--db", other))
        self.store = other
        self.assertEqual(whole, self.exported())

    def test_merge_reads_from_a_folder_where_an_ordinary_user_may_not_write(self):
        shared = f"{self.folder}/shared"
        os.makedirs(shared)
        os.chmod(self.folder, 0o755)  # ordinary_user() must be able to reach the folders below
        self.cache("import", self.file, "--db", f"{shared}/all.db")
        os.chmod(f"{shared}/all.db", 0o444)
        os.chmod(shared, 0o555)
        self.addCleanup(os.chmod, shared, 0o755)
        own = f"{self.folder}/own"
        os.makedirs(own)
        os.chmod(own, 0o777)
        user = ordinary_user()
        self.assertEqual(f"{shared}/all.db: 3 new measurements, 0 known before\n",
                         self.cache("merge", f"{shared}/all.db", "--db", f"{own}/own.db", process=user))
        self.assertEqual(["all.db"], os.listdir(shared))
        result = self.ended(1, "cache", "import", self.file, "--db", f"{shared}/all.db", process=user)
        self.assertIn("all.db: is read-only", result.stderr)

    def test_verify_tells_what_is_there(self):
        self.cache("import", self.file, "--db", self.store)
        text = self.cache("verify", "--db", self.store)
        self.assert_has(text, f"{self.store}: sound\n", "1 kernel, 3 measurements: 3 imported, 0 verified by runs",
                        "Some GPU, cuDNN 9.19.0, driver 13.0: 3 measurements\n")

    def test_verify_names_what_is_wrong(self):
        damages = {
            "micro_batch=0": "row 1: engine 'legacy:0', micro-batch 0",
            "engine=''": "row 1: engine ''",
            "time_ms=-1": "time -1.0 ms",
            "time_ms=9e999": "time Inf ms",
            "workspace_bytes='many'": "workspace many bytes",
            "kernel=77": "1 rows belong to no kernel of the store",
        }
        for damage, expected in damages.items():
            with self.subTest(damage):
                path = self.store_with("damaged" + str(len(damage)), ROWS)
                self.sql(path, f"UPDATE measurements SET {damage} WHERE id=1")
                result = self.ended(1, "cache", "verify", "--db", path)
                self.assertIn("1 store of 1 not sound", result.stderr)
                self.assert_has(result.stdout, f"{path}: NOT sound\n", expected)
                os.remove(path)
        path = self.store_with("kernel", ROWS)
        for damage, column in (("stride_h=0", "'stride_h'"), ("stride_h=1, pad_h_post=-1", "'pad_h_post'")):
            self.sql(path, f"UPDATE families SET {damage}")
            self.assertIn(column, self.run_command("cache", "verify", "--db", path).stdout)

    def test_verify_names_foreign_newer_and_damaged_files(self):
        self.cache("import", self.file, "--db", self.store)
        foreign, newer, damaged = (f"{self.folder}/{name}.db" for name in ("foreign", "newer", "damaged"))
        self.sql(foreign, "CREATE TABLE bookmarks(url TEXT)")
        self.sql(shutil.copy(self.store, newer), "PRAGMA user_version=99")
        os.truncate(shutil.copy(self.store, damaged), 5000)
        result = self.ended(1, "cache", "verify", "--db", f"{self.store}:{foreign}:{newer}:{damaged}")
        self.assertIn("3 stores of 4 not sound", result.stderr)
        self.assert_has(result.stdout, f"{foreign}: NOT sound\n  it is another program's database\n",
                        f"{newer}: NOT sound\n  its schema version is 99 ", f"{damaged}: NOT sound\n  it is damaged: ")

    def test_prune_keeps_the_newest_platform_of_each_device(self):
        rows = []
        for device, cudnn, driver in (("A", 91900, 13000), ("A", 92000, 12000), ("A", 92000, 13000), ("A", 0, 0),
                                      ("B", 90000, 12000), ("B", 90000, 12010)):
            rows += [{**row, "device": device, "cudnn": cudnn or "", "driver": driver or ""} for row in ROWS]
        store = self.store_with("many", rows)
        before = open(store, "rb").read()
        told = self.cache("prune", "--dry-run", "--db", store)
        self.assertIn("9 measurements and 0 kernels without any to remove\n", told)
        self.assertEqual(before, open(store, "rb").read())
        told = self.cache("prune", "--device", "B", "--db", store)
        self.assertIn("  B, cuDNN 9.0.0, driver 12.0: 3 measurements\n3 measurements and", told)
        told = self.cache("prune", "--db", store)
        self.assertIn("  A, cuDNN 9.20.0, driver 12.0: 3 measurements\n", told)
        self.assertIn("  A, cuDNN 9.19.0, driver 13.0: 3 measurements\n6 measurements and 0 kernels", told)
        left = self.cache("verify", "--db", store)
        for platform in ("A, cuDNN 9.20.0, driver 13.0", "A, cuDNN unknown, driver unknown", "B, cuDNN 9.0.0, driver 12.1"):
            self.assertIn(f"  {platform}: 3 measurements\n", left)
        self.assertIn("9 measurements: ", left)
        self.assertIn("0 measurements and 0 kernels without any removed", self.cache("prune", "--db", store))

    def test_prune_tells_beforehand_which_kernels_lose_all_rows(self):
        old = [{**row, "c": "32", "driver": "12000"} for row in ROWS]
        store = self.store_with("losing", ROWS + old)
        before = open(store, "rb").read()
        self.assertIn("3 measurements and 1 kernel without any to remove\n",
                      self.cache("prune", "--dry-run", "--db", store))
        self.assertEqual(before, open(store, "rb").read())
        os.chmod(self.folder, 0o755)
        os.chmod(store, 0o444)
        self.output("cache", "prune", "--dry-run", "--db", store, process=ordinary_user())
        os.chmod(store, 0o644)
        self.assertIn("3 measurements and 1 kernel without any removed; ", self.cache("prune", "--db", store))
        self.assertIn("schema 4, 1 kernel, 3 measurements", self.cache("verify", "--db", store))

    def test_prune_tells_the_size_of_the_file_it_pruned(self):
        self.write(self.store, "no database" * 1000)
        sibling = f"{self.store[:-3]}-2.db"
        self.run_command("cache", "import", self.file, "--db", self.store)
        size = os.path.getsize(sibling)
        self.assertEqual(0, size % 1024)
        told = self.cache("prune", "--db", self.store)
        self.assertIn(f"; {sibling}: {size // 1024} KiB before, {os.path.getsize(sibling) // 1024} KiB now\n", told)
        self.assertEqual("no database" * 1000, self.read(self.store))

    def test_prune_removes_kernels_without_rows(self):
        self.cache("import", self.file, "--db", self.store)
        for table in ("measurements", "complete_sizes"):
            self.sql(self.store, f"DELETE FROM {table}")
        self.assertIn("0 measurements and 1 kernel without any removed", self.cache("prune", "--db", self.store))
        self.assertIn(" 0 kernels, ", self.cache("verify", "--db", self.store))

    def test_rows_of_one_device_can_be_asked_for(self):
        store = self.store_with("two", ROWS + [{**ROWS[0], "device": "Other GPU"}])
        self.assertIn("\n1 measurement\n", self.cache("show", "--device", "Other GPU", "--db", store))
        self.cache("merge", store, "--device", "Other GPU", "--db", self.store)
        self.assertEqual({"Other GPU"}, {row["device"] for row in self.exported()})

    def test_a_damaged_store_is_named_with_the_one_used_instead(self):
        self.write(self.store, "no database")
        result = self.ended(0, "cache", "import", self.file, "--db", self.store)
        self.assert_has(result.stderr, f"{self.store} is left alone", f"{self.store[:-3]}-2.db is used instead")


if __name__ == "__main__":
    unittest.main()
