"""Tests that documents name the members of ucudnn's JSON formats: exactly those that the source lists for writers and
readers."""

import os
import re
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))

# {document: (heading after which it describes formats, sources that list their members)}
FORMATS = {
    "db/FORMAT.md": ("\n## Reports\n", ("src/convolution/json_kernel.cpp", "src/convolution/report_format.cpp",
                                         "src/planning/workspace_plan.cpp")),
    "planner/report/FORMAT.md": ("\n# Solves over all layers", ("tools/command/multigrid/report.cpp",)),
}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Formats(unittest.TestCase):
    def test_documents_name_the_members_and_no_others(self):
        for document, (heading, sources) in FORMATS.items():
            with self.subTest(document=document):
                text = read(document).partition(heading)[2]
                rows = {name for cell in re.findall(r"^\| (.+?) \|", text, re.M) for name in re.findall(r"\w+(?=[`,\[\] ]|$)", cell)}
                members = {name for path in sources for name in re.findall(r'member\(\s*"(\w+)"', read(path))}
                self.assertGreater(len(members), 30)
                described = rows | set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", text))))
                self.assertEqual(set(), members - described, "members that are not described")
                self.assertEqual(set(), rows - members - {"member"}, "described, and no members")


if __name__ == "__main__":
    unittest.main()
