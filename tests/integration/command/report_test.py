"""Tests what the page of `ucudnn report` says about a report, and what it refuses."""

import copy
import functools
import html.parser
import json
import operator
import random
import re
import unittest

from command import MIB, CommandTest, measurements

VOID = {"br", "col", "hr", "meta", "wbr"}


def problem(**changes):
    return {"n": 64, "c": 64, "h": 27, "w": 27, "k": 192, "r": 5, "s": 5, "pad_h": 2, "pad_w": 2, "dtype": "fp32",
            "layout": "nchw", "align": 16} | changes


def run(engine, size, count, workspace, ms):
    return {"engine": engine, "micro_batch": size, "count": count, "workspace_bytes": workspace, "piece_ms": ms}


def kernel(op, plan, undivided, best=None, **changes):
    """Returns a kernel as in reports. Without `best`, its best_undivided equals `undivided`."""
    return {"op": op, "problem": problem(), "api": "legacy", "calls": 3, "asked": "legacy:0", "limit_bytes": 8 * MIB,
            "workspace_bytes": max(piece["workspace_bytes"] for piece in plan), "owned_workspace_bytes": 0, "plan": plan,
            "undivided": undivided, "best_undivided": copy.copy(best or undivided), "reason": "divided into 4 micro-batches"} | changes


def slow(ms, workspace=0, engine="legacy:0"):
    return {"engine": engine, "workspace_bytes": workspace, "total_ms": ms}


def offline_slow(ms, workspace=0):
    return {"engine": "legacy:0", "workspace_bytes": workspace, "time_ms": ms}


REPORT = {
    "format": "ucudnn-report", "version": 2, "ucudnn": "0.1.0", "cudnn": 91900, "device": "Toy GPU", "mode": "on",
    "measured": 12,
    "kernels": [
        kernel("forward", [run("legacy:1", 16, 4, 4 * MIB, 18.5)], slow(101.5)),
        kernel("backward_filter", [run("legacy:1", 30, 2, 7 * MIB, 30), run("legacy:6", 4, 1, 2 * MIB, 8)], slow(118),
               slow(81.6, 2 * MIB, "graph:5[k2=1]")),
        kernel("backward_data", [run("legacy:1", 64, 1, 0, 50.25)], None, problem=problem(n=64), calls=1,
               reason="the real choice is the fastest"),
        kernel("forward", [run("legacy:3", 64, 1, 0, None)], None, problem=problem(c=8), reason="not measured yet"),
    ],
    "fallbacks": [{"kernel": "forward 64x8", "cause": "a piece failed", "count": 2}],
}


def split_times(**changes):
    return {"calls": 1, "call_ms": 3, "own_ms": 2, "exchange_ms": 1.5, "exposed_ms": 0.5, "hidden_ms": 1, "sum_ms": 0,
            "exposed_sum_ms": 0} | changes


def split_kernel(op, rank, ranks, halo, **changes):
    """Returns a rank's entry for a kernel with 4 calls. Each rank owns a stripe of 8 rows, and reads `halo` rows of
    1000 bytes on either side."""
    owned = [[8 * part, 8 * part + 8] for part in range(ranks)]
    needed = [[max(begin - halo, 0), min(end + halo, 8 * ranks)] for begin, end in owned]
    moved = 4 * 1000 * sum(halo for beside in (rank - 1, rank + 1) if 0 <= beside < ranks)
    return {"kind": "convolution", "op": op, "problem": problem(h=8, r=2 * halo + 1, pad_h=halo), "common": f"{op} {halo}",
            "verdict": "transparent", "reason": "", "calls": 4, "paired_calls": 0, "sent_bytes": moved, "received_bytes": moved,
            "least_sent_bytes": moved, "least_received_bytes": moved, "summed_bytes": 0, "slices": 1,
            "axes": {"h": {"owned": owned, "needed": needed}}, "times": split_times()} | changes


def split_reports(ranks, calls=6):
    """Returns one report for each rank. Each has three kernels, of which the last is refused, and one step of `calls`
    calls."""
    documents = []
    for rank in range(ranks):
        late = 0.25 * rank  # the ms by which this rank's spans begin later than rank 0's, by this rank's own clock
        step = [{"kernel": i % 2, "spans": [
            ["call", 4 * i + late, 3], ["exchange", 4 * i + 0.1 + late, 1.5], ["own", 4 * i + 0.2 + late, 1],
            ["await_exchange", 4 * i + 1.2 + late, 0.4]] + ([["sum", 4 * i + 2 + late, 0.5], ["await_sum", 4 * i + 2 + late, 0.5]]
                                                            if i % 2 else [])} for i in range(calls)]
        kernels = [split_kernel("forward", rank, ranks, 1), split_kernel("backward_filter", rank, ranks, 2, summed_bytes=4096,
                                                                         times=split_times(sum_ms=0.5, exposed_sum_ms=0.5)),
                   split_kernel("forward", rank, ranks, 0, verdict="refused", reason="h: the window is too large for pad 0",
                                axes={}, times=None, calls=1)]
        documents.append(REPORT | {"spatial": {
            "grid": f"h{ranks}", "rank": rank, "ranks": ranks, "calls": 9, "exchanged_bytes": 1, "owned_workspace_bytes": MIB,
            "tracks": [{"rank": rank, "cell": {"n": 0, "d": 0, "h": rank, "w": 0}, "transport": "nccl", "library": "NCCL 2.28.9, /lib",
                        "calls": 9, "owned_workspace_bytes": MIB, "unlisted_calls": 0, "kernels": kernels,
                        "step": {"number": 2, "calls": step}}],
            "refused": [{"what": "cudnnSomething is not split", "count": 2}]}})
    return documents


class Page(html.parser.HTMLParser):
    """Parses a page into its ids, classes, texts and tables. Fails if an element is not closed inside its parent."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.classes, self.tags, self.texts, self.tables = [], [], [], [], [], {}
        self.rows = None
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "table":
            self.rows = self.tables[attrs["id"]] = []
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()
        if tag == "table":
            self.rows = None

    def handle_data(self, data):
        self.texts.append(data)
        if self.rows and any(tag in ("td", "th") for tag in self.open):
            self.rows[-1][-1] += data

    def text(self):
        return " ".join(self.texts)


def offline_kernel(name, plan, undivided=None, desirable_set=(), **changes):
    chosen = {"time_ms": sum(piece["piece_ms"] * piece["count"] for piece in plan),
              "workspace_bytes": max(piece["workspace_bytes"] for piece in plan), "plan": plan}
    return {"name": name, "op": "forward", "problem": problem(), "api": "legacy", "undivided": undivided, "chosen": chosen,
            "desirable_set": [*desirable_set, chosen]} | changes


# A plan within one budget. conv1 and twin are divided and share segment 0. conv2 is undivided; its engine needs 7 MiB,
# more than an equal share of 6 MiB.
WHOLE = {"time_ms": 100, "workspace_bytes": 0, "plan": [run("legacy:0", 64, 1, 0, 100)]}
OFFLINE = {
    "format": "ucudnn-workspace-table", "version": 2, "device": "Toy GPU", "cudnn": 91900, "driver": 13000, "policy": "all",
    "total_bytes": 12 * MIB, "division": "disjoint", "solver": "exact", "optimal": True, "total_time_ms": 168,
    "total_workspace_bytes": 11 * MIB, "undivided_limit_bytes": 6 * MIB,
    "kernels": [
        offline_kernel("conv1", [run("legacy:1", 16, 4, 4 * MIB, 18.5)], offline_slow(100), [WHOLE], segment=0),
        offline_kernel("twin", [run("legacy:1", 16, 4, 4 * MIB, 18.5)], offline_slow(100), [WHOLE], segment=0),
        offline_kernel("conv2", [run("legacy:6", 64, 1, 7 * MIB, 20)], offline_slow(50, 2 * MIB), segment=1, problem=problem(c=8))]}


# The `total_workspace` of a report with REPORT's kernels.
BUDGET = {"total_bytes": 12 * MIB, "planned_bytes": 12 * MIB, "division": "disjoint", "divided": True, "kernels": 4,
          "total_workspace_bytes": 11 * MIB, "solver": "glpk", "optimal": True}


def changed(document, path, value):
    """Returns a copy of a document with `value` at `path`; if `value` is `...`, without the entry at `path`."""
    document = copy.deepcopy(document)
    *parents, last = path
    place = functools.reduce(operator.getitem, parents, document)
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return document


def mutations(texts, seed, values, before=":", behind=",}"):
    """Yields each text with one to three random changes. A change replaces the text between a character of `before` and
    a character of `behind` by one of `values`, or changes a few characters."""
    rng = random.Random(seed)
    for text in texts:
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            if rng.random() < 0.5:
                at = rng.choice([i for i, c in enumerate(text) if c in before]) + 1
                end = min(i for i in (*(text.find(c, at) for c in behind), len(text)) if i > 0)
                text = text[:at] + rng.choice(values) + text[end:]
            else:
                text = text[:at] + chr(rng.randrange(32, 127)) + text[at + rng.randrange(0, 4):]
        yield text


class PageTest(CommandTest):
    def written(self, document, name="report.json"):
        self.write(name, document)
        return name

    def source(self, *documents, stem="", words=()):
        names = [self.written(document, f"{stem}{at}.json") for at, document in enumerate(documents)]
        return self.output("report", *names, *words)

    def page(self, *documents, **more):
        return Page(self.source(*documents, **more))

    def rows(self, page, table):
        head, *rows = page.tables[table]
        return [dict(zip(head, row, strict=True)) for row in rows]

    def assert_wrong(self, document, path, value, expected):
        self.assert_refused(["report", self.written(changed(document, path, value))], "ucudnn report: 'report.json': ",
                            expected)

    def assert_shown_or_refused(self, texts):
        for text in texts:
            result = self.run_command("report", self.written(text))
            if result.returncode == 0:
                Page(result.stdout)
            else:
                self.assertEqual((2, "", 1), (result.returncode, result.stdout, result.stderr.count("\n")), text)


class Report(PageTest):

    def test_every_section_is_there_and_ids_are_unique(self):
        page = self.page(REPORT)
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assert_has(page.ids, "totals", "kernels", "tiles", "timeline", "desirable", "memory", "division", "fallbacks")
        self.assertEqual((1, 1, 1), tuple(page.tags.count(tag) for tag in ("script", "style", "h1")))

    def test_tiles_are_drawn_where_they_lie_on_the_image(self):
        plan = [{"engine": "graph:62", "micro_batch": 1, "tile": {"h": 4}, **border, "count": count, "workspace_bytes": MIB,
                 "piece_ms": 4} for border, count in (({"border": "h-"}, 1), ({}, 2), ({"border": "h+"}, 1))]
        image = problem(n=1, h=16, w=32, r=3, s=3, pad_h=1, pad_w=1)
        document = REPORT | {"kernels": [*REPORT["kernels"], kernel("forward", plan, None, problem=image),
                                         kernel("backward_data", plan, None, problem=image)]}
        page = self.page(document)
        self.assertEqual(["tiles-5", "tiles-6"], [id_ for id_ in page.ids if re.fullmatch(r"tiles-\d+", id_)])
        for number in (5, 6):
            figure = self.source(document).split(f'<figure id="tiles-{number}"')[1].split("</figure>")[0]
            self.assertIn("h 2x4 + 2 edges", figure)
            cells = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" class="cell k(\d)"><title>([^:]*):',
                               figure)
            # The drawing is 100 px high for 16 rows and 200 px wide for 32 columns. Each tile is drawn 1 px smaller in
            # both directions. Edge tiles have colour k1, inner tiles k0.
            self.assertEqual(["k1", "k0", "k0", "k1"], ["k" + cell[4] for cell in cells])
            self.assertEqual(["edge h-", "inner tile", "inner tile", "edge h+"], [cell[5] for cell in cells])
            top = float(cells[0][1])
            self.assertEqual([(0, 25 * at, 199, 24) for at in range(4)],
                             [(float(x), float(y) - top, float(width), float(height)) for x, y, width, height, *_ in cells])
        self.assertIn("No kernel is cut into tiles.", self.page(REPORT).text())

    def test_totals_are_of_what_is_known_on_both_sides(self):
        text = self.page(REPORT).text()
        # In the plan, a call of forward takes 4 * 18.5 = 74 ms, and a call of backward_filter 2 * 30 + 8 = 68 ms;
        # backward_data runs undivided in 50.25 ms. The page gives totals for one call of each kernel, and for the
        # reported calls: 3 of each of the first two kernels and 1 of backward_data.
        for calls in (1, 3):
            undivided, best, planned = (calls * forward + calls * filters + 50.25
                                        for forward, filters in ((101.5, 118), (101.5, 81.6), (74, 68)))
            self.assertIn(f"{undivided:.4g} ms undivided, {best:.4g} ms best undivided, {planned:.4g} ms as planned: "
                          f"{undivided / best:.2f}x by better engines, {best / planned:.2f}x by division", text)
        self.assert_has(text, "4 kernels, 2 of them divided.", "Left out: 1 of the 4 kernels")

    def test_the_table_says_of_each_kernel_what_the_report_says(self):
        rows = self.rows(self.page(REPORT), "kernel-table")
        self.assertEqual(["1: 64x27x27 -> 192, 5x5 forward", "2: 64x27x27 -> 192, 5x5 backward_filter",
                          "3: 64x27x27 -> 192, 5x5 backward_data", "4: 8x27x27 -> 192, 5x5 forward"],
                         [row["kernel"] for row in rows])
        self.assertLessEqual({"images": "64", "asked for": "ALGO_0 (legacy:0)", "calls": "3", "undivided": "118 ms",
                          "best undivided": "81.6 ms", "planned": "68 ms", "better engine": "1.45x", "division": "1.20x",
                          "workspace": "7 MiB", "limit": "8 MiB", "micro-batches": "2 x 30 + 4",
                          "engines": "ALGO_1 (legacy:1), FFT_TILING (legacy:6)"}.items(), rows[1].items())
        self.assertEqual(("not known", "not known", "not known", "", "", "not measured yet"), tuple(rows[3][column] for column in (
            "undivided", "best undivided", "planned", "better engine", "division", "why")))

    def test_the_gain_of_a_better_engine_and_that_of_division_are_told_apart(self):
        graph = "graph:5[k2=1]"
        whole, pieces = run(graph, 64, 1, 4 * MIB, 60), [run(graph, 16, 4, 4 * MIB, 10)]
        # Keys: the gain of a better engine over 90 ms undivided, and the gain of division over the best undivided
        # engine.
        kernels = {
            ("1.50x", "1.00x"): kernel("forward", [whole], slow(90), slow(60, engine=graph), reason="a faster engine of the graph API"),
            ("1.00x", "1.80x"): kernel("forward", [run("legacy:1", 16, 4, 4 * MIB, 12.5)], slow(90)),
            ("1.50x", "1.50x"): kernel("forward", pieces, slow(90), slow(60, engine=graph))}
        for (better, divided), one in kernels.items():
            page = self.page(REPORT | {"kernels": [one]})
            row, = self.rows(page, "kernel-table")
            self.assertEqual((better, divided), (row["better engine"], row["division"]))
            gain = f"{divided} by division" if one["plan"][0]["count"] > 1 else "nothing is divided yet"
            self.assertIn(f": {better} by better engines, {gain}", page.text())
        page = self.page(REPORT | {"kernels": list(kernels.values())})
        self.assertIn("270 ms undivided, 210 ms best undivided, 150 ms as planned: 1.29x by better engines, 1.40x by division",
                      page.text())

    def test_what_is_not_divided_yet_is_no_loss_by_division_and_says_why(self):
        graph, whole = "graph:5[k2=1]", [run("legacy:0", 64, 1, 0, 80)]
        waits, told = ("undivided, because the plan was not yet compared with it: the time for measuring is used up",
                       "undivided, as ucudnn answered when it was asked")
        kernels = [kernel("forward", whole, slow(80), slow(60, engine=graph), reason=reason) for reason in (told, waits, waits)]
        page = self.page(REPORT | {"kernels": kernels})
        self.assertIn("240 ms undivided, 180 ms best undivided, 240 ms as planned: 1.00x by better engines, nothing is divided yet",
                      page.text())
        self.assertEqual([[waits, "2"], [told, "1"]], page.tables["reason-table"][1:])
        self.assertEqual(["1.00x"] * 3, [row["division"] for row in self.rows(page, "kernel-table")])
        # An undivided kernel that does not run its best engine must not lower the gain that another kernel's division
        # brings.
        page = self.page(REPORT | {"kernels": [*kernels, kernel("forward", [run("legacy:1", 16, 4, 4 * MIB, 10)], slow(80))]})
        self.assertIn("320 ms undivided, 260 ms best undivided, 280 ms as planned: 1.00x by better engines, 1.14x by division",
                      page.text())

    def test_an_engine_that_is_not_the_programs_is_no_baseline_of_its_api(self):
        """No undivided engine of the legacy API was measured. So nobody knows the gain of the graph engine over the
        legacy API."""
        one = kernel("forward", [run("graph:5", 64, 1, 0, 60)], None)
        row, = self.rows(self.page(REPORT | {"kernels": [one]}), "kernel-table")
        self.assertEqual(("not known", "60 ms", "60 ms", "", ""), tuple(
            row[column] for column in ("undivided", "best undivided", "planned", "better engine", "division")))
        row, = self.rows(self.page(REPORT | {"kernels": [one | {"api": "graph"}]}), "kernel-table")
        self.assertEqual(("60 ms", "1.00x"), (row["undivided"], row["better engine"]))

    def test_memory_is_that_of_the_tensors(self):
        text = self.page(REPORT).text()
        data = 4 * 64 * (64 + 192) * 27 * 27 / MIB
        self.assertIn(f"data: {data:.1f} MiB", text)
        self.assertIn("parameters: 1.2 MiB", text)  # 192 * 64 * 5 * 5 numbers of 4 bytes
        self.assertIn("workspace: 7 MiB", text)

    def test_what_is_absent_is_said(self):
        text = self.page(REPORT).text()
        self.assert_has(text, "a report of a run does not hold what was measured", "there is no budget for all")
        without = REPORT | {"fallbacks": []}
        self.assertIn("everything ran as planned", self.page(without).text())
        kernels = [kernel | {"undivided_calls": 2} for kernel in REPORT["kernels"][:1]]
        told = self.page(without | {"kernels": kernels}).text()
        self.assertIn("2 calls of divided kernels ran undivided", told)
        self.assertNotIn("everything ran as planned", told)
        empty = self.page(REPORT | {"kernels": [], "fallbacks": []})
        self.assert_has(empty.text(), "0 kernels, 0 of them divided.", "There are none.", "No divided kernel to draw.",
                        "There are no layers.", "There are no kernels.", "None: everything ran as planned.")

    def test_desirable_sets_come_from_the_store(self):
        self.import_rows(measurements("64,27,27,192,5,5,2,2", [
            ("legacy:0", 64, 100, 0), ("legacy:1", 64, 30, 16 * MIB), ("legacy:1", 32, 17, 8 * MIB),
            ("legacy:1", 16, 11, 5 * MIB)]))
        page = self.page(REPORT, words=("--db", self.store))
        self.assertIn("desirable-1", page.ids)
        self.assertNotIn("desirable-2", page.ids)
        text = page.text()
        self.assert_has(text, "0 B, 100 ms: 64", "5 MiB, 44 ms: 4 x 16", "8 MiB, 34 ms: 2 x 32", "16 MiB, 30 ms: 64",
                        "what runs: 4 MiB, 74 ms: 4 x 16")
        self.assert_refused(["report", self.written(REPORT | {"device": "Other"}), "--db", self.store],
                            "the report's device 'Other': no measurements", "'Toy GPU'")

    def test_an_offline_plan_shows_its_division(self):
        kernels = [offline_kernel(f"conv{i}", [run("legacy:1", 16, 4, 4 * MIB, 18.5)], None, [WHOLE]) for i in (1, 2)]
        document = changed(OFFLINE, ["undivided_limit_bytes"], ...) | {
            "total_bytes": 9 * MIB, "total_time_ms": 148, "total_workspace_bytes": 8 * MIB,
            "kernels": [changed(kernel, ["undivided"], ...) for kernel in kernels]}
        page = self.page(document)
        text = page.text()
        self.assert_has(text, "One budget of 9 MiB for all kernels, division disjoint; reserved: 8 MiB. Solver: exact.",
                        "1: conv1 forward", "No kernel has both its own and an undivided engine's time.")
        self.assertLessEqual({"desirable-1", "desirable-2"}, set(page.ids))
        self.assert_refused(["report", self.written(document), "--db", "m.db"], "--db: an offline plan holds")

    def test_an_offline_plan_is_compared_with_undivided_engines(self):
        """Each kernel is compared with the fastest undivided engine within an equal share of the budget, which is 12
        MiB / 2 segments. This holds even for an undivided kernel whose own engine needs more."""
        page = self.page(OFFLINE)
        text = page.text()
        self.assertIn(f"250 ms undivided, 168 ms as planned: {250 / 168:.2f}x by division", text)
        self.assertIn("undivided is the fastest undivided engine within 6 MiB of workspace.", text)
        rows = self.rows(page, "kernel-table")
        self.assertEqual([("100 ms", "74 ms", "1.35x"), ("100 ms", "74 ms", "1.35x"), ("50 ms", "20 ms", "2.50x")],
                         [tuple(row[column] for column in ("undivided", "planned", "division")) for row in rows])
        self.assertIn("their sum is 11 MiB", text)  # 4 MiB of segment 0, which two kernels share, and 7 MiB of segment 1
        # If the `undivided` of conv2 is null, no undivided engine fits conv2's share, and the gain of conv2 is unknown.
        text = self.page(changed(OFFLINE, ["kernels", 2, "undivided"], None)).text()
        self.assertIn(f"200 ms undivided, 148 ms as planned: {200 / 148:.2f}x by division", text)
        self.assertIn("Left out: 1 of the 3 kernels", text)

    def test_a_run_within_one_budget_shows_its_division_and_layer_names(self):
        document = changed(REPORT, ["kernels", 0, "layers"], ["conv2", "conv7"]) | {"total_workspace": BUDGET}
        page = self.page(document)
        self.assertIn("One budget of 12 MiB for all kernels, division disjoint; reserved: 11 MiB. Solver: glpk.", page.text())
        self.assertIn("budget 12 MiB", page.text())
        self.assertEqual("1: conv2, conv7 forward", page.tables["kernel-table"][1][0])

    def test_ranks_of_a_split_job_share_a_page(self):
        for ranks in (2, 4, 8):
            with self.subTest(ranks=ranks):
                # The order of the files must not matter, so they are reversed.
                page = self.page(*reversed(split_reports(ranks)), stem="rank")
                self.assertEqual(len(page.ids), len(set(page.ids)))
                self.assert_has(page.ids, "spatial", "split-kernels", "step", "halos", "own-calls", "totals", "kernels")
                self.assertIn(f"From here on the page is of one report of {ranks}: rank{ranks - 1}.json.", page.text())
                self.assertNotIn("There is no report here", page.text())
                rows = self.rows(page, "rank-table")
                self.assertEqual([f"rank {rank}" for rank in range(ranks)], [row["rank"] for row in rows])
                self.assertEqual(f"h {ranks}/{ranks}", rows[-1]["part"])
                self.assertIn("transport nccl library NCCL 2.28.9, /lib", " ".join(page.text().split()))
                self.assertLessEqual({"report": f"rank{ranks - 1}.json", "calls": "9", "sent": "11.7 KiB",
                                      "received": "11.7 KiB", "minimum": "23.4 KiB", "step": "23 ms", "exchange": "10.5 ms",
                                      "exposed": "3.9 ms", "hidden": "6.6 ms"}.items(), rows[0].items())
                rows = self.rows(page, "split-kernel-table")
                sent = 4 * 1000 * 2 * (ranks - 1)
                self.assertEqual(["transparent", "transparent", "refused"], [row["verdict"] for row in rows])
                self.assertEqual(f"{sent / 1024:.1f} KiB", rows[0]["sent"])
                self.assertLessEqual({"of the minimum": "1.000x", "own call": "2 ms", "exposed": "0.5 ms", "hidden": "1 ms",
                                      "sum": "0 ms", "why": ""}.items(), rows[0].items())
                self.assertEqual(("0.5 ms", "0.5 ms"), (rows[1]["sum"], rows[1]["exposed sum"]))
                self.assertEqual(("", "h: the window is too large for pad 0"), (rows[2]["exposed"], rows[2]["why"]))
                self.assertEqual([("cudnnSomething is not split", str(2 * ranks))],
                                 [(row["what"], row["calls"]) for row in self.rows(page, "refused-table")])
                self.assert_has(page.text(), "x of kernel 1", "dy of kernel 2",
                                f"rank {ranks - 1} needs 2 rows of rank {ranks - 2}",
                                f"2: 64x8x27 -> 192, 5x5 backward_filter, rank {ranks - 1}: sum over ranks, 0.5 ms")

    def test_one_report_of_a_split_job_says_which_are_missing(self):
        documents = split_reports(4)
        self.assertIn("There is no report here of ranks 0, 1, 3: give the reports of all ranks to one command.",
                      self.page(documents[2]).text())
        self.assertIn("There is no report here of rank 1: ", self.page(documents[0], *documents[2:]).text())

    def test_what_was_not_timed_is_said(self):
        document = split_reports(2)[0]
        track = document["spatial"]["tracks"][0]
        track["step"] = track["transport"] = track["library"] = None
        for one in track["kernels"]:
            one["times"] = None
        page = self.page(document)
        self.assertIn("No step was timed", page.text())
        self.assertEqual("not timed", self.rows(page, "rank-table")[0]["exposed"])
        self.assertEqual("not timed", self.rows(page, "split-kernel-table")[0]["own call"])
        # Reports of an older ucudnn have no tracks.
        del document["spatial"]["tracks"]
        self.assertNotIn("spatial", self.page(document).ids)

    def test_grids_along_other_axes_are_drawn_with_their_corners(self):
        document = split_reports(2)[0]
        document["spatial"]["grid"] = "n2d2h2w2"
        axis = {"owned": [[0, 4], [4, 8]], "needed": [[0, 5], [3, 8]]}
        for one in document["spatial"]["tracks"][0]["kernels"]:
            one["axes"] = {"d": axis, "h": axis, "w": axis}
        text = self.page(document).text()
        self.assert_has(text, "rank 0 needs 1 row of 1 column of rank 3", "d part 2, 1 plane of part 1",
                        "Each group is like the first.")

    def test_kernels_that_are_no_convolutions_are_called_what_they_are(self):
        documents = split_reports(2)
        for document in documents:
            first, second, _ = document["spatial"]["tracks"][0]["kernels"]
            first |= {"kind": "max pooling", "problem": problem(h=8, r=3, s=3, pad_h=1, k=64)}
            # Batch normalisation exchanges sums of channels, and has no halo.
            second |= {"kind": "batch normalisation", "op": "backward_data", "problem": problem(h=8, r=1, s=1, pad_h=0, pad_w=0, k=64),
                       "axes": {"h": {"owned": [[0, 8], [8, 16]], "needed": [[0, 8], [8, 16]]}}, "summed_bytes": 0}
        page = self.page(*documents)
        rows = self.rows(page, "split-kernel-table")
        self.assertEqual(["1: max pooling 64x8x27 -> 64, 3x3 forward", "2: batch normalisation 64x8x27 -> 64, 1x1 backward_data"],
                         [row["kernel"] for row in rows[:2]])
        self.assertEqual(["transparent", "transparent"], [row["verdict"] for row in rows[:2]])
        self.assertEqual(["7.8 KiB", "15.6 KiB"], [row["sent"] for row in rows[:2]])
        self.assertIn("2: batch normalisation 64x8x27 -> 64, 1x1 backward_data, rank 1: exchange", page.text())
        self.assertIn("x of kernel 1", page.text())
        self.assertNotIn("dy of kernel 2", page.text())

    def test_reports_that_are_not_of_one_job_are_refused(self):
        two = [self.written(document, f"rank{at}.json") for at, document in enumerate(split_reports(2))]
        other = self.written(split_reports(4)[3], "other.json")
        plain = self.written(REPORT, "plain.json")
        self.assert_refused(["report", *two, "rank1.json"], "'rank1.json': rank 1 is also in 'rank1.json'")
        self.assert_refused(["report", *two, other], "'other.json': the grid is h4, and h2 in the reports before")
        self.assert_refused(["report", *two, plain], "'plain.json': splits nothing; several reports are those of the ranks of one job")
        self.assert_refused(["report", self.written(OFFLINE, "table.json"), two[0]], "'table.json': splits nothing")

    def test_what_is_wrong_about_splitting_is_named(self):
        track, first = ("spatial", "tracks", 0), ("spatial", "tracks", 0, "kernels", 0)
        for path, value, expected in (
                (("spatial",), [1], "spatial is an array of 1; expected an object"),
                (("spatial", "grid"), "q4", "spatial.grid is 'q4'; expected n, d, h and w"),
                ((*track, "rank"), 2, "spatial.tracks[0].rank is 2; expected a whole number from 0 to 1"),
                ((*track, "step", "calls", 0, "kernel"), 3, "calls[0].kernel is 3; expected a whole number from 0 to 2"),
                ((*track, "step", "calls", 0, "spans", 0, 0), "nap", "spans[0][0] is 'nap'; expected call, own, exchange"),
                ((*track, "step", "calls", 0, "spans", 0), [1], "spans[0] is an array of 1; expected what, its beginning and its length"),
                ((*first, "verdict"), 1, "kernels[0].verdict is 1; expected text"),
                ((*first, "slices"), 0, "kernels[0].slices is 0"),
                ((*first, "sent_bytes"), -1, "kernels[0].sent_bytes is -1"),
                ((*first, "axes", "h", "owned"), [[0, 8]], "kernels[0].axes.h is an object; expected an entry for each of 2 parts"),
                ((*first, "axes", "h", "needed", 0), [0], "needed[0] is an array of 1; expected two positions"),
                ((*first, "times", "own_ms"), None, "kernels[0].times.own_ms is null; expected milliseconds"),
                (("spatial", "refused", 0, "count"), "x", "spatial.refused[0].count is 'x'")):
            self.assert_wrong(split_reports(2)[0], path, value, expected)

    def test_texts_of_the_report_never_become_markup(self):
        bad = "</td></title><script>alert(1)</script><b onclick='x'>\u0000\u202e\ud83d\ude00\"&"
        document = copy.deepcopy(REPORT)
        document |= {"device": bad, "mode": bad, "ucudnn": bad}
        document["fallbacks"][0] |= {"kernel": bad, "cause": bad}
        for one in document["kernels"]:
            one |= {"layers": [bad], "reason": bad, "api": bad}
            for piece in one["plan"]:
                piece["engine"] = bad
        page = self.page(document)
        self.assertEqual((1, 0), (page.tags.count("script"), page.tags.count("b")))
        self.assertIn("</td></title><script>alert(1)</script><b onclick='x'>", page.text())

    def test_the_page_goes_where_it_is_told(self):
        self.written(REPORT)
        for path in ("page.html", "none/such/page.html"):
            self.assertEqual("", self.output("report", "report.json", "-o", path))
        self.assertTrue(self.read("page.html").startswith("<!DOCTYPE html>"))
        self.assertEqual(self.read("page.html"), self.read("none/such/page.html"))

    def test_what_is_wrong_is_named(self):
        for text, expected in (('{"a": 1, "a": 2}', "there twice"), ("[" * 100_000, "nested too deeply")):
            self.assert_refused(["report", self.written(text)], "ucudnn report: 'report.json': ", expected)
        first = ("kernels", 0)
        piece = (*first, "plan", 0)
        for path, value, expected in (
                (("format",), "ucudnn-workspace-plan", "format is 'ucudnn-workspace-plan'; expected \"ucudnn-report\", \"ucudnn-workspace-table\" or \"ucudnn-multigrid\""),
                (("version",), 1, "version is 1; expected 2: an older ucudnn wrote it; run the program again with --report\n"),
                (("version",), 3, "version is 3; expected 2\n"),
                (("version",), "2", "version is '2'; expected 2\n"),
                (("version",), None, "version is null; expected 2\n"),
                (("device",), 7, "device is 7; expected text"),
                (("kernels",), {"a": 1}, "kernels is an object; expected a list"),
                (first, None, "kernels[0] is null; expected an object"),
                ((*first, "op"), "sideways", "kernels[0].problem makes no convolution: "),
                ((*first, "problem", "n"), 0, "kernels[0].problem.n is 0; expected a whole number from 1 to"),
                ((*first, "problem", "c"), -3, "kernels[0].problem makes no convolution: column 'c'"),
                ((*first, "problem", "h"), 1 << 40, "kernels[0].problem makes no convolution: column 'h'"),
                ((*first, "problem", "k"), 1.5, "kernels[0].problem makes no convolution: column 'k'"),
                ((*first, "calls"), -1, "kernels[0].calls is -1"),
                ((*first, "lanes"), 1, "kernels[0].lanes is 1; expected a list"),
                ((*first, "lanes"), [0, 64], "kernels[0].lanes[1] is 64; expected a whole number from 0 to 63"),
                ((*first, "lanes"), [-1], "kernels[0].lanes[0] is -1; expected a whole number from 0 to 63"),
                ((*first, "lanes"), [1.5], "kernels[0].lanes[0] is 1.5; expected a whole number from 0 to 63"),
                ((*first, "lanes"), ["0"], "kernels[0].lanes[0] is '0'; expected a whole number from 0 to 63"),
                ((*first, "workspace_bytes"), "big", "kernels[0].workspace_bytes is 'big'"),
                ((*first, "limit_bytes"), -8, "kernels[0].limit_bytes is -8"),
                ((*first, "undivided"), "legacy:0", "kernels[0].undivided is 'legacy:0'; expected an object"),
                ((*first, "undivided", "total_ms"), 1e300, "kernels[0].undivided.total_ms is 1e+300; expected milliseconds"),
                ((*first, "best_undivided"), 7, "kernels[0].best_undivided is 7; expected an object"),
                ((*first, "best_undivided", "engine"), None, "kernels[0].best_undivided.engine is null; expected text"),
                ((*first, "asked"), 1, "kernels[0].asked is 1; expected text"),
                ((*piece, "piece_ms"), -1, "kernels[0].plan[0].piece_ms is -1; expected milliseconds from 0 to 1e9, or null"),
                ((*piece, "count"), 0, "kernels[0].plan[0].count is 0; expected a whole number from 1 to 64"),
                ((*piece, "count"), 5, "kernels[0].plan has more images than the 64 of its problem"),
                ((*piece, "count"), 3, "kernels[0].plan has fewer images than the 64 of its problem"),
                ((*piece, "micro_batch"), 1 << 62, "kernels[0].plan[0].micro_batch is "),
                ((*piece, "engine"), None, "kernels[0].plan[0].engine is null; expected text"),
                (("fallbacks", 0, "count"), "x", "fallbacks[0].count is 'x'"),
                (("total_workspace",), [1], "total_workspace is an array of 1; expected an object")):
            self.assert_wrong(REPORT | {"total_workspace": BUDGET}, path, value, expected)
        for version, expected in (
                (1, "version is 1; expected 2: an older ucudnn wrote it; plan again with `ucudnn workspace --json`\n"),
                (3, "version is 3; expected 2\n")):
            self.assert_refused(["report", self.written(OFFLINE | {"version": version}, "table.json")],
                                "ucudnn report: 'table.json': ", expected)

    def test_mutated_reports_are_shown_or_refused_in_one_line(self):
        values = ["-1", "1e999", "null", "{}", "[]", "9223372036854775807", "18446744073709551615", '"x"', "0", "1e9"]
        texts = [json.dumps(REPORT)] * 60 + [json.dumps(split_reports(2)[1])] * 30
        self.assert_shown_or_refused(mutations(texts, 20, values))

    def test_the_largest_numbers_can_be_drawn(self):
        large = problem(n=2**31 - 1, c=1, h=1, w=1, k=1, r=1, s=1, pad_h=0, pad_w=0)
        document = REPORT | {"kernels": [
            kernel("forward", [run("legacy:1", 1, 2**31 - 1, 1 << 62, 1e9)], slow(1e9, 1 << 62), problem=large,
                   workspace_bytes=1 << 62, owned_workspace_bytes=1 << 62, calls=1 << 62, limit_bytes=2**64 - 1)] * 3}
        page = self.page(document)
        self.assertNotIn("nan", page.text())
        self.assertEqual("none", self.rows(page, "kernel-table")[0]["limit"])

    def test_many_kernels_are_listed_and_the_heaviest_drawn(self):
        plan = [run("legacy:1", 16, 4, 4 * MIB, 18.5)]
        document = REPORT | {"kernels": [kernel("forward", plan, slow(100 + i), problem=problem(c=i + 1)) for i in range(200)]}
        page = self.page(document)
        self.assertEqual(201, len(page.tables["kernel-table"]))
        self.assertIn("The 60 of 200 with the most time:", page.text())

    def test_budgets_of_many_kernels_are_drawn_whole(self):
        plan = [run("legacy:1", 16, 4, 4 * MIB, 18.5)]
        document = OFFLINE | {"total_bytes": 700 * MIB, "total_workspace_bytes": 636 * MIB, "kernels": [
            offline_kernel(f"conv{i}", plan, problem=problem(c=i + 1), segment=i) for i in range(159)]}
        text = self.page(document).text()
        self.assert_has(text, "The 60 of 159 with the most workspace:", "all, side by side", "99 others: 396 MiB",
                        "their sum is 636 MiB", "budget 700 MiB")


if __name__ == "__main__":
    unittest.main()
