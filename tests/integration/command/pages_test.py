"""Tests pages of `ucudnn report` and `ucudnn plan` in Chromium: values read back from the DOM, the script that sorts
tables, and the appearance in a light and a dark theme and on paper. Skipped without Chromium."""

import base64
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import multigrid_report_test as multigrid
from command import MIB, CommandTest, measurements
from report_test import BUDGET, OFFLINE, REPORT, Page, changed, offline_kernel, run, split_reports

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)

# Writes the value of an expression as JSON into an element with the id "told", which Pages.told reads.
TELL = """
const told = document.createElement("pre"); told.id = "told";
told.textContent = JSON.stringify(%s); document.body.append(told);
"""

# An expression that returns the texts of figures that do not lie entirely inside their view box.
CUT = """[...document.querySelectorAll("svg[role=img] text")].filter(text => {
    const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
    return box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1;
}).map(text => text.textContent)"""


def browse(page, *words, script="", width=1100, height=900, dark=False):
    """Opens a copy of `page` in which `script` runs after the page's own scripts. Returns Chromium's stdout."""
    with tempfile.TemporaryDirectory(prefix="ucudnn-chromium-") as profile:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        copy = f"{profile}/page.html"
        with open(copy, "w", encoding="utf-8") as file:
            file.write(text.replace("</body>", f"<script>{script}</script></body>") if script else text)
        return subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", f"--user-data-dir={profile}/profile", f"--window-size={width},{height}",
             f"--blink-settings=preferredColorScheme={0 if dark else 1}", *words, f"file://{copy}"],
            check=True, capture_output=True, text=True, timeout=240, env=os.environ | {"HOME": profile}).stdout


# A page that shows an image and sets its title to JSON: the image's size, number of colours, share of light pixels, and
# the colours of its upper and lower left corners.
LOOK = """<!DOCTYPE html><body><img src="data:image/png;base64,%s" onload='
const canvas = document.createElement("canvas"); canvas.width = this.width; canvas.height = this.height;
const context = canvas.getContext("2d"); context.drawImage(this, 0, 0);
const bytes = context.getImageData(0, 0, this.width, this.height).data, colours = new Set();
const pixel = at => [...bytes.subarray(at, at + 3)];
let light = 0;
for (let at = 0; at < bytes.length; at += 4) {
    colours.add(bytes[at] << 16 | bytes[at + 1] << 8 | bytes[at + 2]);
    light += bytes[at] + bytes[at + 1] + bytes[at + 2] > 384;
}
document.title = JSON.stringify({size: [this.width, this.height], colours: colours.size, light: light / (bytes.length / 4),
                                 upper: pixel(0), lower: pixel(bytes.length - 4 * this.width)});'></body>"""


def look(page, folder, **options):
    """Takes a screenshot of a page and returns LOOK's data about it. Writes the screenshot and the page LOOK to
    `folder`."""
    browse(page, f"--screenshot={folder}/page.png", **options)
    with open(f"{folder}/page.png", "rb") as file, open(f"{folder}/look.html", "w", encoding="utf-8") as made:
        made.write(LOOK % base64.b64encode(file.read()).decode())
    return json.loads(re.search("<title>(.*)</title>", browse(f"{folder}/look.html", "--dump-dom"))[1])


@unittest.skipUnless(CHROMIUM, "there is no Chromium here (Debian: apt-get install chromium)")
class Pages(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = f"{cls.folder}/page.html"

    def make(self, *words):
        self.output(*words, "-o", self.page)

    def report_page(self, *words, **documents):
        """Makes a page of `documents`. Each is written to a file named after its keyword. Without documents, makes a
        page of REPORT."""
        documents = documents or {"report": REPORT}
        for name, document in documents.items():
            self.write(f"{name}.json", document)
        self.make("report", *(f"{name}.json" for name in documents), *words)

    def told(self, expression, before="", **options):
        text = browse(self.page, "--dump-dom", script=before + TELL % expression, **options)
        return json.loads(Page(text.split("<body>")[1].split('id="told">')[1].split("</pre>")[0]).text())

    def test_values_read_back_from_the_dom(self):
        self.report_page()
        found = self.told("""{
            once: {...document.querySelector("#total-once").dataset},
            rows: document.querySelectorAll("#kernel-table tbody tr").length,
            gain: document.querySelectorAll("#kernel-table tbody tr")[1].cells[9].textContent,
            named: [...document.querySelectorAll("svg[role=img]")].every(
                svg => document.getElementById(svg.getAttribute("aria-labelledby")).textContent.length > 0),
            outside: performance.getEntriesByType("resource").length,
            pieces: [...document.querySelectorAll("#timeline-chart rect")].filter(
                rect => rect.parentNode.querySelector(":scope > title")).length,
        }""")
        self.assertEqual({"undivided": "269.75", "best": "233.35", "planned": "192.25"}, found["once"])
        self.assertEqual((4, "1.20x", True, 0), tuple(found[k] for k in ("rows", "gain", "named", "outside")))
        # The chart shows an undivided plan and 4 micro-batches, then an undivided plan and 3 micro-batches.
        self.assertEqual(1 + 4 + 1 + 3, found["pieces"])

    def test_a_heading_sorts_by_its_column_both_ways_and_what_is_not_known_stays_last(self):
        self.report_page()
        press = 'document.querySelectorAll("#kernel-table thead button")[7].click();'
        tell = '[...document.querySelectorAll("#kernel-table tbody tr")].map(row => row.cells[7].textContent)'
        self.assertEqual(["50.25 ms", "68 ms", "74 ms", "not known"], self.told(tell, press))
        self.assertEqual(["74 ms", "68 ms", "50.25 ms", "not known"], self.told(tell, press * 2))
        self.assertEqual("descending", self.told(
            'document.querySelectorAll("#kernel-table thead th")[7].getAttribute("aria-sort")', press * 2))

    def test_the_table_of_kernels_fits_into_a_window_of_1300_pixels(self):
        # legacy:1 of forward has the longest name of all algorithms, IMPLICIT_PRECOMP_GEMM.
        engines = {"forward": "legacy:1", "backward_filter": "graph:38[k2=1,k14=0,k25=2]"}
        reason = "undivided, because the plan was not yet compared with it: the time for measuring is used up"
        kernels = [kernel | {"asked": engine, "reason": reason, "limit_bytes": 1234 * MIB, "plan": [run(engine, 4, 16, 1000 * MIB, 123.4)]}
                   for kernel in REPORT["kernels"] if (engine := engines.get(kernel["op"]))]
        self.report_page(wide=REPORT | {"kernels": kernels})
        table, room = self.told("[box.scrollWidth, box.clientWidth]",
                                'const box = document.querySelector("#kernel-table").parentNode;', width=1300)
        self.assertLessEqual(table, room)

    def test_nothing_of_a_figure_is_cut_off(self):
        self.budget_page()
        self.assertEqual([], self.told(CUT))
        for network in ("alexnet", "inception-v3"):
            self.make("plan", network, "--machine", "k80x16", "--batch", "512", "--html")
            self.assertEqual([], self.told(CUT))
        self.assertEqual(["moved"], self.told(CUT, """
            const text = document.querySelector("svg[role=img] text");
            text.textContent = "moved"; text.setAttribute("y", 1e6);"""))

    def budget_page(self):
        """Makes the page of a run within one budget. --db names a store, so that the page shows the desirable sets of
        its measurements."""
        self.import_rows(measurements("64,27,27,192,5,5,2,2", [
            ("legacy:0", 64, 100, 0), ("legacy:1", 64, 30, 16 * MIB), ("legacy:1", 32, 17, 8 * MIB),
            ("legacy:1", 16, 18.5, 4 * MIB)]))
        kernels = [kernel | {"workspace_bytes": 0, "owned_workspace_bytes": kernel["workspace_bytes"], "layers": [name]}
                   for kernel, name in zip(REPORT["kernels"], ("conv2", "conv2", "conv2", "conv9"))]
        budget = changed(BUDGET, ["solver"], ...)
        self.report_page("--db", self.store, budget=REPORT | {"kernels": kernels, "total_workspace": budget})

    # This function returns two things of a bar chart: its lines, and its bars with their labels. Each part of a bar has
    # its length in pixels and its title.
    BARS = """(id => { const svg = document.querySelector(`#${id} svg`), bars = [];
        for (const text of svg.querySelectorAll("g > text.end:not(.mark)")) {
            const parts = [];
            for (let next = text.nextElementSibling; next && next.tagName === "g"; next = next.nextElementSibling) {
                parts.push([Number(next.querySelector("rect").getAttribute("width")), next.querySelector("title").textContent]);
            }
            bars.push([text.textContent, parts]);
        }
        const start = Math.min(...[...svg.querySelectorAll("line.axis")].map(line => Number(line.getAttribute("x1"))));
        return {bars, limits: [...svg.querySelectorAll("line.limit")].map(line => Number(line.getAttribute("x1")) - start)}; })"""

    POINTS = """[...document.querySelectorAll("#desirable-1 svg > g")].map(group => ({
        tip: group.querySelector("title").textContent, chosen: !!group.querySelector(".chosen"),
        x: Number(group.querySelector("circle").getAttribute("cx")), y: Number(group.querySelector("circle").getAttribute("cy"))}))"""

    def test_the_figures_of_a_budget_are_drawn_to_scale(self):
        self.budget_page()
        found = self.told(f'({{division: {self.BARS}("division-chart"), memory: {self.BARS}("memory-chart"), points: {self.POINTS}}})')
        with self.subTest("workspace division"):
            (name, parts), *kernels = found["division"]["bars"]
            self.assertEqual(("all, side by side", ["1: conv2 forward: 4 MiB", "2: conv2 backward_filter: 7 MiB"]),
                             (name, [tip for _, tip in parts]))
            self.assertEqual(["1: conv2 forward", "2: conv2 backward_filter", "3: conv2 backward_data", "4: conv9 forward"],
                             [label for label, _ in kernels])
            a_mib = found["division"]["limits"][0] / 12
            lengths = [length for length, _ in parts] + [bars[0][0] for _, bars in kernels]
            for length, mib in zip(lengths, (4, 7, 4, 7, 0, 0), strict=True):
                self.assertAlmostEqual(a_mib * mib, length, delta=0.1)
        with self.subTest("memory of each layer"):
            bars = found["memory"]["bars"]
            self.assertEqual(["conv2, 64 images", "conv9, 64 images"], [label for label, _ in bars])
            for (_, parts), channels, workspace in zip(bars, (64, 8), (7 * MIB, 0)):
                data, parameters = 4 * 64 * (channels + 192) * 27 * 27, 4 * 192 * channels * 25
                self.assertEqual(["data", "parameters", "workspace"], [tip.split(":")[0] for _, tip in parts])
                scale = parts[0][0] / data
                for (length, _), of in zip(parts, (data, parameters, workspace)):
                    self.assertAlmostEqual(scale * of, length, delta=0.1)
        with self.subTest("desirable set"):
            points = found["points"]
            self.assertEqual(["0 B, 100 ms: 64", "4 MiB, 74 ms: 4 x 16", "8 MiB, 34 ms: 2 x 32", "16 MiB, 30 ms: 64"],
                             [point["tip"] for point in points])
            self.assertEqual([False, True, False, False], [point["chosen"] for point in points])
            first, last = points[0], points[-1]
            for point, bytes_, ms in zip(points, (0, 4, 8, 16), (100, 74, 34, 30)):
                self.assertAlmostEqual(bytes_ / 16, (point["x"] - first["x"]) / (last["x"] - first["x"]), delta=0.001)
                self.assertAlmostEqual((100 - ms) / 70, (point["y"] - first["y"]) / (last["y"] - first["y"]), delta=0.001)

    def test_an_offline_plan_stands_beside_its_undivided_calls(self):
        self.report_page(offline=OFFLINE)
        found = self.told(f'({{once: {{...document.querySelector("#total-once").dataset}}, timeline: {self.BARS}("timeline-chart")}})')
        self.assertEqual({"undivided": "250", "best": "250", "planned": "168"}, found["once"])
        bars = found["timeline"]["bars"]
        self.assertEqual([("1: conv1 forward", 1), ("divided", 4), ("2: twin forward", 1), ("divided", 4)],
                         [(label, len(parts)) for label, parts in bars])
        for (_, whole), (_, pieces) in zip(bars[::2], bars[1::2]):
            self.assertAlmostEqual(0.74, sum(length for length, _ in pieces) / whole[0][0], delta=0.001)

    def test_what_is_not_drawn_of_a_budget_is_one_segment(self):
        plan = [run("legacy:1", 16, 4, 4 * MIB, 18.5)]
        kernels = [offline_kernel(f"conv{i}", plan, segment=i) for i in range(159)]
        self.report_page(many=OFFLINE | {"total_bytes": 700 * MIB, "kernels": kernels})
        found = self.told(f'{self.BARS}("division-chart")')
        self.assertEqual(61, len(found["bars"]))
        together = found["bars"][0][1]
        self.assertEqual((61, "99 others: 396 MiB"), (len(together), together[-1][1]))
        self.assertAlmostEqual(636 / 700, sum(length for length, _ in together) / found["limits"][0], delta=0.001)

    def test_a_layout_is_drawn_as_it_is(self):
        words = ("plan", "alexnet", "--machine", "k80x16", "--batch", "512")
        document = self.printed_json(*words, "--json")
        self.make(*words, "--html", "--what-if", "fc6")
        found = self.told("""{
            layers: [...document.querySelectorAll("#network-drawing .layer")].map(
                layer => [layer.dataset.layer, layer.dataset.configuration, getComputedStyle(layer.querySelector("rect")).fill]),
            moved: [...document.querySelectorAll("#strategy-table tbody tr")].map(
                row => [row.cells[0].textContent, Number(row.cells[7].dataset.value)]),
            charts: ["time-chart", "moved-chart"].map(id => ({
                legend: [...document.querySelectorAll(`#${id} svg > g > rect`)].map(
                    mark => [mark.nextElementSibling.textContent.split(" ")[0], mark.getAttribute("class")]),
                bars: [...document.querySelectorAll(`#${id} svg g g`)].map(
                    bar => [bar.querySelector("title").textContent.split(":")[0], bar.querySelector("rect").getAttribute("class")]),
            })),
            what_if: document.querySelectorAll("#what-if-table tbody tr").length,
        }""")
        text = lambda config: "".join(axis + str(config[axis]) for axis in "nchw" if config[axis] > 1) or "n1"
        self.assertEqual([(layer["name"], text(layer["config"])) for layer in document["layers"]],
                         [(name, configuration) for name, configuration, _ in found["layers"]])
        colours = {}
        for _, configuration, colour in found["layers"]:
            self.assertEqual(colour, colours.setdefault(configuration, colour))
        self.assertEqual(len(colours), len(set(colours.values())))
        self.assertEqual([[s["name"], s["transfer_bytes"] + s["update_bytes"]] for s in document["strategies"]], found["moved"])
        for chart, names in zip(found["charts"], ({"transfer", "update", "compute"}, {"transfer", "update"})):
            legend = dict(chart["legend"])
            self.assertEqual(names, set(legend))
            self.assertEqual([[name, legend[name]] for name, _ in chart["bars"]], chart["bars"])
        self.assertEqual(len(document["layers"][8]["what_if"]), found["what_if"])

    def test_ranks_have_a_track_each_and_an_exchange_ends_at_one_time_on_all(self):
        for ranks, calls in ((2, 6), (8, 100)):
            with self.subTest(ranks=ranks):
                self.report_page(**{f"rank{rank}": document for rank, document in enumerate(split_reports(ranks, calls))})
                self.assertEqual([], self.told(CUT))
                found = self.told("""{
                    ends: [...document.querySelectorAll("#step-chart g > title")].filter(
                        title => title.textContent.startsWith("1: ") && title.textContent.includes("exchange of rows")).map(title => {
                        const box = title.parentNode.querySelector("rect");
                        return [title.textContent.match(/rank \\d/)[0], Number(box.getAttribute("x")) + Number(box.getAttribute("width"))];
                    }),
                    wide: document.querySelector("#step-chart svg").viewBox.baseVal.width,
                    cells: document.querySelectorAll("#halo-1 rect").length, figures: document.querySelectorAll("#halos figure").length,
                }""")
                first = {}
                for rank, end in found["ends"]:
                    first.setdefault(rank, end)
                self.assertEqual(ranks, len(first))
                self.assertLess(max(first.values()) - min(first.values()), 0.1)
                self.assertEqual(960 if calls == 6 else 2600, found["wide"])
                # Each rank has a cell for its own rows and a cell for the rows of each neighbour; the first and last
                # rank have one neighbour.
                self.assertEqual((3 * ranks - 2, 2), (found["cells"], found["figures"]))

    # This function returns, for a line chart, the points of each line by the line's name, the numbers at its axis with
    # their heights, the heights of its limits and the colours of its lines. The unit is the view box's.
    LINES = """(id => { const svg = document.querySelector(`#${id} svg`);
        const place = mark => { const box = mark.getBBox(); return [box.x + box.width / 2, box.y + box.height / 2]; };
        const points = {};
        for (const mark of svg.querySelectorAll("g > g > g > title")) {
            (points[mark.textContent.split(",")[0]] ??= []).push(place(mark.nextElementSibling));
        }
        return {points, ticks: [...svg.querySelectorAll("text.faint.end")].map(text => [text.textContent, text.getBBox().y + text.getBBox().height / 2]),
                limits: [...svg.querySelectorAll("line.limit")].map(line => Number(line.getAttribute("y1"))),
                lines: [...svg.querySelectorAll("path.line")].map(line => getComputedStyle(line).stroke)}; })"""

    def test_curves_of_multigrid_are_drawn_to_scale(self):
        depths = multigrid.depths()
        depths["depths"][0]["stages"][0]["timeline"] = multigrid.timeline()
        self.report_page(depths=depths, serial=multigrid.training(levels=(64,)), two=multigrid.training(),
                         scaling=multigrid.analysis())
        self.assertEqual([], self.told(CUT))
        found = self.told(f"""{{scaling: {self.LINES}("scaling-1-0-times"),
            spans: [...document.querySelectorAll("#timeline-1 g > title")].map(title => {{
                const box = title.parentNode.querySelector("rect");
                return ["x", "y", "width"].map(name => Number(box.getAttribute(name))).concat(box.getAttribute("class")); }}),
            residuals: {self.LINES}("convergence-chart"), loss: {self.LINES}("loss-chart"), top1: {self.LINES}("top1-chart"),
            ticks: [...document.querySelectorAll("#levels-1 svg > g > g")].map(
                level => level.querySelectorAll("line.tall").length)}}""")
        with self.subTest("a logarithmic axis"):
            chart = found["residuals"]
            self.assertEqual(3, len(set(chart["lines"])))
            ticks = [(float(text), y) for text, y in chart["ticks"]]
            decade = (ticks[-1][1] - ticks[0][1]) / (math.log10(ticks[-1][0]) - math.log10(ticks[0][0]))
            at = lambda number: ticks[0][1] + decade * math.log10(number / ticks[0][0])
            for depth in depths["depths"]:
                points = chart["points"][f'{depth["layers"] - 3} layers']
                residuals = [residual for residual in depth["residuals"] if residual is not None]
                for (_, y), residual in zip(points, residuals, strict=True):
                    self.assertAlmostEqual(at(residual), y, delta=1)
                steps = {round(after[0] - before[0], 1) for before, after in zip(points, points[1:])}
                self.assertEqual(1, len(steps))
            self.assertAlmostEqual(at(1e-9), chart["limits"][0], delta=1)
        with self.subTest("linear axes"):
            for chart, numbers in (("loss", (2.5, 1.25, 0.5)), ("top1", (25, 50, 75))):
                first, *_, last = [(float(text), y) for text, y in found[chart]["ticks"]]
                scale = (last[1] - first[1]) / (last[0] - first[0])
                self.assertEqual({"serial propagation", "2 cycles"}, set(found[chart]["points"]))
                for points in found[chart]["points"].values():
                    for (_, y), number in zip(points, numbers, strict=True):
                        self.assertAlmostEqual(first[1] + scale * (number - first[0]), y, delta=1)
        with self.subTest("both axes are logarithmic"):
            chart = found["scaling"]
            ticks = [(float(text), y) for text, y in chart["ticks"]]
            decade = (ticks[-1][1] - ticks[0][1]) / (math.log10(ticks[-1][0]) - math.log10(ticks[0][0]))
            points = chart["points"]["multigrid"]
            for (_, y), ms in zip(points, (64, 16, 4), strict=True):
                self.assertAlmostEqual(ticks[0][1] + decade * math.log10(ms / ticks[0][0]), y, delta=1)
            doubling = (points[1][0] - points[0][0]) / 2
            for (x, _), devices in zip(points, (1, 4, 24)):
                self.assertAlmostEqual(points[0][0] + doubling * math.log2(devices), x, delta=1)
            self.assertEqual(4, len(chart["points"]["partitioned"]))
        with self.subTest("boxes of a timeline"):
            begin, _, width, _ = found["spans"][0]
            # (begin in ms, length in ms, level) of the spans in multigrid.timeline(), sorted by lane.
            expected = [(0, 3, 0), (3.5, 0.5, 0), (5, 2.5, 1), (0, 4, 0), (8, 4, 2)]
            for (x, _, wide, colour), (from_ms, ms, level) in zip(found["spans"], expected, strict=True):
                self.assertAlmostEqual(from_ms, (x - begin) * 3 / width, delta=0.02)
                self.assertAlmostEqual(ms, wide * 3 / width, delta=0.02)
                self.assertEqual(f"box k{level}", colour)
            self.assertEqual([0, 0, 0, 18, 18], [y - found["spans"][0][1] for _, y, _, _ in found["spans"]])
        # Tall ticks mark C-points. Level 0 has 1024 layers, too many for separate ticks. Levels of 256, 64 and 16
        # layers have a tick for every fourth layer and for the end. The coarsest level has none.
        self.assertEqual([0, 65, 17, 5, 0], found["ticks"])

    def test_light_dark_and_paper(self):
        self.report_page()
        share = {}
        for dark in (False, True):
            seen = look(self.page, self.folder, dark=dark)
            self.assertEqual([1100, 900], seen["size"])
            self.assertEqual([0x15, 0x18, 0x1C] if dark else [0xFF, 0xFF, 0xFF], seen["lower" if dark else "upper"])
            share[dark] = seen["light"]
            self.assertGreater(seen["colours"], 20)  # a blank page has 1
        self.assertGreater(share[False], 0.8)
        self.assertLess(share[True], 0.2)
        browse(self.page, f"--print-to-pdf={self.folder}/page.pdf", "--no-pdf-header-footer", dark=True)
        with open(f"{self.folder}/page.pdf", "rb") as file:
            pdf = file.read()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreater(pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page "), 0)


if __name__ == "__main__":
    unittest.main()
