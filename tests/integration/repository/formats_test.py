"""Tests which members of ucudnn's JSON formats the documents name. These must be exactly the members that the source
lists, either for both writing and reading or only for writing."""

import os
import re
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))

# (document, pattern of the part that describes formats, sources that list their members)
FORMATS = (
    ("db/FORMAT.md", r"\n## Reports\n(.+)", ("src/convolution/json_kernel.cpp", "src/convolution/report_format.cpp",
                                            "src/planning/workspace_plan.cpp")),
    ("planner/report/FORMAT.md", r"# Layouts(.+)\n# Networks on stripes", ("planner/report/layout_json.cpp",)),
    ("planner/report/FORMAT.md", r"\n# Networks on stripes(.+)\n# Solves", ("planner/report/striping_json.cpp",)),
    ("planner/report/FORMAT.md", r"\n# Solves over all layers(.+)", ("tools/command/multigrid/report.cpp",)),
    ("planner/schedule/FORMAT.md", r"(.+)", ("planner/schedule/schedule_json.cpp",)),
    ("planner/multigrid/analysis/FORMAT.md", r"(.+)", ("tools/command/multigrid/analysis_report.cpp",)),
)

# A member in a source: member("name", ...), List("name", ...), {"name", ...}, json["name"] or \"name\".
MEMBER = re.compile(r'(?:member\(\s*|List\(|[\[{]\s*|\\)"(\w+)(?:"\s*[,\])]|\\")')


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Formats(unittest.TestCase):
    def test_documents_name_the_members_and_no_others(self):
        for document, part, sources in FORMATS:
            with self.subTest(document=document, sources=sources):
                text = re.search(part, read(document), re.DOTALL)[1]
                rows = {name for cell in re.findall(r"^\| (.+?) \|", text, re.M) for name in re.findall(r"\w+(?=[`,\[\] ]|$)", cell)}
                members = {name for path in sources for name in MEMBER.findall(read(path))}
                self.assertGreater(len(members), 30)
                described = rows | set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", text))))
                self.assertEqual(set(), members - described, "members that are not described")
                self.assertEqual(set(), rows - members - {"member"}, "described, and no members")


if __name__ == "__main__":
    unittest.main()
