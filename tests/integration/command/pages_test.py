"""The pages of `ucudnn report` and `ucudnn plan` in a browser: values read back from its DOM, the script that sorts,
and what is to be seen in a light and a dark theme and on paper. Skipped where there is no Chromium."""

import json
import unittest

import browser
from command import CommandTest
from report_test import REPORT, Page

# Leaves what it finds in the element that the test reads.
TELL = """
const told = document.createElement("pre"); told.id = "told";
told.textContent = JSON.stringify(%s); document.body.append(told);
"""


@unittest.skipUnless(browser.CHROMIUM, "there is no Chromium here (Debian: apt-get install chromium)")
class Pages(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = f"{cls.folder}/page.html"

    def report_page(self):
        with open(f"{self.folder}/report.json", "w", encoding="utf-8") as file:
            json.dump(REPORT, file)
        self.make("report", "report.json")
        return self.page

    def make(self, *words):
        result = self.run_command(*words, "-o", self.page)
        self.assertEqual((0, ""), (result.returncode, result.stderr))

    def told(self, expression, before=""):
        text = browser.dom(self.page, before + TELL % expression)
        return json.loads(Page(text.split("<body>")[1].split('id="told">')[1].split("</pre>")[0]).text())

    def test_values_read_back_from_the_dom(self):
        self.report_page()
        found = self.told("""{
            once: {...document.querySelector("#total-once").dataset},
            rows: document.querySelectorAll("#kernel-table tbody tr").length,
            gain: document.querySelectorAll("#kernel-table tbody tr")[1].cells[6].textContent,
            named: [...document.querySelectorAll("svg[role=img]")].every(
                svg => document.getElementById(svg.getAttribute("aria-labelledby")).textContent.length > 0),
            outside: performance.getEntriesByType("resource").length,
            pieces: [...document.querySelectorAll("#timeline-chart rect")].filter(
                rect => rect.parentNode.querySelector(":scope > title")).length,
        }""")
        self.assertEqual({"undivided": "269.75", "planned": "192.25"}, found["once"])
        self.assertEqual((4, "1.74x", True, 0), tuple(found[k] for k in ("rows", "gain", "named", "outside")))
        self.assertEqual(1 + 4 + 1 + 3, found["pieces"])  # two undivided calls, 4 and 3 micro-batches

    def test_a_heading_sorts_by_its_column_both_ways_and_what_is_not_known_stays_last(self):
        self.report_page()
        press = 'document.querySelectorAll("#kernel-table thead button")[5].click();'
        tell = '[...document.querySelectorAll("#kernel-table tbody tr")].map(row => row.cells[5].textContent)'
        self.assertEqual(["50.25 ms", "68 ms", "74 ms", "not known"], self.told(tell, press))
        self.assertEqual(["74 ms", "68 ms", "50.25 ms", "not known"], self.told(tell, press * 2))
        self.assertEqual("descending", self.told(
            'document.querySelectorAll("#kernel-table thead th")[5].getAttribute("aria-sort")', press * 2))

    def test_nothing_of_a_figure_is_cut_off(self):
        self.report_page()
        texts = """[...document.querySelectorAll("svg[role=img] text")].filter(text => {
            const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
            return box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1;
        }).map(text => text.textContent)"""
        self.assertEqual([], self.told(texts))
        for network in ("alexnet", "inception-v3"):
            self.make("plan", network, "--machine", "k80x16", "--batch", "512", "--html")
            self.assertEqual([], self.told(texts))

    def test_a_layout_is_drawn_as_it_is(self):
        words = ("plan", "alexnet", "--machine", "k80x16", "--batch", "512")
        document = json.loads(self.run_command(*words, "--json").stdout)
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

    def test_light_dark_and_paper(self):
        self.report_page()
        share = {}
        for dark in (False, True):
            rows = browser.screenshot(self.page, f"{self.folder}/page.png", dark=dark)
            self.assertEqual((1100, 900), (len(rows[0]), len(rows)))
            self.assertEqual((0x15, 0x18, 0x1C) if dark else (0xFF, 0xFF, 0xFF), rows[-1][0] if dark else rows[0][0])
            pixels = [pixel for row in rows for pixel in row]
            share[dark] = sum(sum(pixel) > 384 for pixel in pixels) / len(pixels)
            self.assertGreater(len(set(pixels)), 20)  # text and bars, not a blank page
        self.assertGreater(share[False], 0.8)
        self.assertLess(share[True], 0.2)
        browser.run(self.page, f"--print-to-pdf={self.folder}/page.pdf", "--no-pdf-header-footer", dark=True)
        with open(f"{self.folder}/page.pdf", "rb") as file:
            pdf = file.read()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreater(pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page "), 0)


if __name__ == "__main__":
    unittest.main()
