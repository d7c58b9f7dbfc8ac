"""Tests the programs in documents. The program of docs/spatial.md has ten lines and decodes a picture in stripes. On
four ranks it prints what the page says, apart from rounding. The program of docs/parallel.md trains by a plan. It moves
and keeps as many elements as the page and the README say."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import gloo

RANKS = 4
# The largest difference that is allowed. Values reach about 4, and an fp32 rounding is 2^-24 of a value. About thirty
# layers add in another order, which changes a value by less than 256 roundings.
LARGEST = 4 * 2.0 ** -24 * 256


COMMAND = os.environ.get("UCUDNN_TEST_COMMAND")


def setUpModule():
    gloo.need("torch")


def documented():
    """Returns (the program of docs/spatial.md, the lines that it prints according to the page)."""
    page = (gloo.ROOT / "docs/spatial.md").read_text()
    (program, output), = re.findall(r"```python\n(.*?)```\n\n```\n\$ UCUDNN_SPATIAL=h4 torchrun --nproc-per-node 4 decode.py\n"
                                    "(.*?)```", page, re.DOTALL)
    return program, output.splitlines()


def parted(line):
    """Returns (a line without the number at its end, this number). The number is a difference."""
    text, difference = line.rsplit(" ", 1)
    return text, float(difference)


def torchrun(path, **variables):
    """Runs a program on four ranks with torchrun. Returns the output of all ranks."""
    result = subprocess.run([sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS),
                             path], env=os.environ | {"PYTHONPATH": str(gloo.ROOT / "python"), "OMP_NUM_THREADS": "1"} | variables,
                            capture_output=True, text=True, timeout=600, cwd=path.parent)
    if result.returncode:
        raise AssertionError(result.stderr)
    return result.stdout


class Documented(unittest.TestCase):
    def setUp(self):
        gloo.need("diffusers")

    def test_program_has_ten_lines(self):
        self.assertEqual(10, len(documented()[0].splitlines()))

    def test_program_prints_what_the_page_says(self):
        program, expected = documented()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "decode.py")
            path.write_text(program)
            library = os.environ.get("UCUDNN_TEST_LIBRARY")
            told = torchrun(path, UCUDNN_SPATIAL=f"h{RANKS}", **({"UCUDNN_LIBRARY": library} if library else {}))
        # A rank writes a line and its newline separately, so another rank's line may come before the newline.
        lines = re.split(r"\n|(?=rank \d)", told)
        found = sorted(line for line in lines if line.startswith("rank "))
        print(*found, sep="\n")
        self.assertEqual(RANKS, len(expected))
        self.assertEqual([parted(line)[0] for line in expected], [parted(line)[0] for line in found])
        for line in (*expected, *found):
            self.assertLess(parted(line)[1], LARGEST, line)


def blocks(page):
    """Returns (language, text) of each code block in a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (gloo.ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def reports(text):
    """Returns {rank: (its lines, its loss)}. Times and sizes in bytes are left out of the lines. A rank's lines begin
    at "rank N: ", which may directly follow another rank's line."""
    found = {}
    for report in re.split(r"(?=rank \d+: )", text)[1:]:
        rank, loss = re.match(r"rank (\d+): .* loss (\S+)\n", report).groups()
        lines = [" ".join(re.sub(r"loss \S+|waited .*|[\d.]+ MiB", "", line).split()) for line in report.splitlines()]
        found[int(rank)] = [line for line in lines if line], float(loss)
    return found


class Trained(unittest.TestCase):
    """Tests the program of docs/parallel.md."""

    def setUp(self):
        gloo.need("torchvision")
        if not COMMAND:
            self.skipTest("UCUDNN_TEST_COMMAND names no command")
        page = blocks("docs/parallel.md")
        (self.machine, ), (self.program, ) = ([text for kind, text in page if kind == wanted] for wanted in ("json", "python"))
        self.commands = next(text for _, text in page if text.startswith("$ python3 -m ucudnn.parallel describe"))
        self.printed = next(text for _, text in page if text.startswith("$ torchrun "))
        self.readme = next(text for _, text in blocks("README.md") if text.startswith("$ python3 -m ucudnn.parallel describe"))

    def same(self, expected, found):
        """Expects equal lines. Losses may differ by 0.01, because they follow two steps in fp32, and another processor
        may add in another order."""
        self.assertEqual(expected[0], found[0][:len(expected[0])])
        self.assertLess(abs(expected[1] - found[1]), 0.01)

    def test_ReadmeShowsTheSameProgram(self):
        self.assertTrue(self.readme.startswith(self.commands), self.readme)
        (shown, ), printed = reports(self.readme).values(), reports(self.printed)
        self.same(shown, printed[0])
        self.assertEqual(["difference 0"], [line for line in shown[0] if line.startswith("difference")])

    def test_CountsAreThoseOfThePage(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "p100x4.json").write_text(self.machine)
            (folder / "train.py").write_text(self.program)
            for line in self.commands.splitlines():
                words, _, output = line.removeprefix("$ ").partition(" > ")
                words = [{"python3": sys.executable, "ucudnn": COMMAND}.get(word, word) for word in shlex.split(words)]
                with open(folder / (output or "told"), "w") as file:
                    subprocess.run(words, cwd=folder, stdout=file, check=True,
                                   env=os.environ | {"PYTHONPATH": str(gloo.ROOT / "python")})
            found = reports(torchrun(folder / "train.py"))
        self.assertEqual(list(range(RANKS)), sorted(found))
        for rank, (lines, loss) in found.items():
            self.assertIn("difference 0", lines)
            self.assertEqual(found[0][1], loss, f"rank {rank}")
        for rank, shown in reports(self.printed).items():
            self.same(shown, found[rank])


if __name__ == "__main__":
    unittest.main()
