"""Tests promises of the graph API across processes under `ucudnn run`. A plan gets the promise that it got in an
earlier process, whatever was measured in between."""

import json
import os
import sqlite3
import tempfile
import unittest

import program

PROGRAM = os.environ["UCUDNN_TEST_FRONTEND_STEP"]
BATCH = 8


def workspaces(*options, **variables):
    """Returns {result: workspace of its plan}. The program fails unless its results are exact."""
    lines = program.printed([PROGRAM, "fp32", "2", BATCH], options, **variables)
    return {line.split()[0]: int(line.split("workspace ")[1].split()[0]) for line in lines}


class Promises(unittest.TestCase):
    def test_the_next_process_gets_the_same_whatever_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            need = workspaces("--off")
            limit = need["forward"] // 2
            self.assertGreater(limit, 0)
            store, options = f"{folder}/store.db", ("--policy", "powerOfTwo", "--workspace-limit", str(limit))
            # Nothing is measured, so an engine that fits the limit undivided replaces the plan's engine.
            first = workspaces(*options, "--db", store, UCUDNN_TUNE="off")
            self.assertLess(first["forward"], need["forward"])
            # Now the store gets rows in which pieces of the plan's own engine are the fastest.
            workspaces(*options, "--db", f"{folder}/measured.db")
            rows = program.rows_of(f"{folder}/measured.db")
            for row in rows:
                size = int(row["micro_batch"])
                row["time_ms"] = 100 if size == BATCH else 0.001 * (1 + size)
            program.add_rows(store, rows)
            again = workspaces(*options, "--db", store, "--report", f"{folder}/report.json", UCUDNN_TUNE="off")
            self.assertEqual(first, again)
            self.assertNotIn("cannot be kept", json.dumps(program.read(f"{folder}/report.json")["fallbacks"]))
            # Without the promises, the same store leads to another plan.
            with sqlite3.connect(store) as connection:
                self.assertGreater(connection.execute("DELETE FROM promises").rowcount, 0)
            connection.close()
            self.assertGreater(workspaces(*options, "--db", store, UCUDNN_TUNE="off")["forward"], first["forward"])


if __name__ == "__main__":
    unittest.main()
