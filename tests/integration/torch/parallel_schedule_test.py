"""Tests that schedules can be read without torch, and reads randomly changed files. Such a file is refused in one line,
or it is a schedule that works: each message that a rank waits for is sent, and every image is computed once, in a batch
of another size as well."""
import json
import pathlib
import random
import re
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python"))

import schedules  # noqa: E402
from ucudnn.parallel import boxes, schedule  # noqa: E402
from ucudnn.parallel.reading import network_in  # noqa: E402

MUTATIONS = 10000

NET = """{"format": "ucudnn-net", "version": 1, "name": "tiny", "nodes": [
  {"name": "data", "op": "input", "channels": 3, "extents": [9, 8]},
  {"name": "conv", "op": "convolution", "inputs": ["data"], "filters": 6, "window": [3, 3], "pad": [1, 1]},
  {"name": "bn", "op": "batch_normalization", "inputs": ["conv"]},
  {"name": "next", "op": "convolution", "inputs": ["bn"], "filters": 6, "window": [3, 3], "pad": [1, 1], "groups": 2},
  {"name": "groups", "op": "group_normalization", "inputs": ["next"], "groups": 3},
  {"name": "sum", "op": "add", "inputs": ["groups", "bn"]},
  {"name": "pool", "op": "pooling", "inputs": ["sum"], "kind": "maximum", "window": [2, 2], "stride": [2, 2]},
  {"name": "fc", "op": "fully_connected", "inputs": ["pool"], "outputs": 5}]}"""


def written(seed, devices=4, batch=6, update="owner", levels=None):
    network, rng = network_in(NET), random.Random(seed)
    return network, schedules.Writer(network, batch, devices, lambda node: schedules.degrees_of(
        rng, network, node, devices, "ncr" if node.name == "fc" else "nchwr"), update, levels).text()


def in_passes(letter, update_every):
    """Returns (network, text of a schedule) in which fc runs in three passes of Krizhevsky's scheme `letter`. The layer
    before it divides the 6 images over two devices."""
    network = network_in(NET)
    images = [[(0, 2)], [(2, 4)], [(4, 6)]] if letter == "b" else [[(at, at + 1), (3 + at, 4 + at)] for at in range(3)]

    def choose(node):
        return {"n": 1 if node.name == "fc" else 2, "c": 3 if node.name == "fc" else 1, "h": 1, "w": 1, "r": 1}, 1
    return network, schedules.Writer(network, 6, 4, choose, passes=(letter, images, update_every)).text()


def mutated(rng, value):
    """Returns a copy of a JSON value with one random change."""
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {other: value[other] for other in value if other != key}
        return {**value, key: mutated(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.95:
        place = rng.randrange(len(value))
        if rng.random() < 0.1:
            return value[:place] + value[place + 1:] + rng.choice([[], [value[place]] * 2])
        return value[:place] + [mutated(rng, value[place])] + value[place + 1:]
    return rng.choice([None, True, -1, 0, 1, 2, 7, 10**30, 1.5, "", "conv", "x", [], {}, [0, 1], [[0, 1]]])


def stalled(found):
    """Returns the ranks that never reach the end of a schedule's order. A "wait" step waits for messages that its rank
    reads; a normalization waits for all ranks of its group."""
    meetings = {one.node: one.groups for one in found.statistics.values() if "normalization" in one.kind}
    places, posted, arrived = [0] * found.devices, set(), set()

    def is_ready(rank, step):
        kind, of = step[:2]
        if kind == "wait":
            held, needed = found.boxes_of(found.exchanges[of])
            return all((device, *step[1:]) in posted for device, box in held.items() if device != rank and rank in needed and
                       boxes.elements(boxes.meet(box, needed[rank])))
        groups = [group.devices for group in meetings.get(of, ()) if rank in group.devices] if kind == "forward" else []
        arrived.add((rank, step))
        return all((device, step) in arrived for devices in groups for device in devices)
    moved = True
    while moved:
        moved = False
        for rank in range(found.devices):
            while places[rank] < len(found.order) and is_ready(rank, step := found.order[places[rank]]):
                if step[0] == "exchange":
                    posted.add((rank, *step[1:]))
                places[rank], moved = places[rank] + 1, True
    return [rank for rank, place in enumerate(places) if place < len(found.order)]


class Schedules(unittest.TestCase):
    def check_computed(self, found, text):
        """Expects that sums end and add up all replicas, and that passes have every image once. The boxes of the batch,
        and of a smaller batch, must cover all images."""
        for one in found.sums:
            moved = sum(end - begin for phase in schedule.phases_of(found, one.devices, 64) for _, _, (begin, end) in phase)
            self.assertEqual((len(one.devices) - 1) * 64, moved, text)
        if found.passes:
            self.assertTrue(all(found.passes.images), text)
            images = [image for intervals in found.passes.images for begin, end in intervals for image in range(begin, end)]
            self.assertEqual(list(range(found.batch)), sorted(images), text)
        for batch in (found.batch, 5) if not found.passes else (found.batch,):
            for node in found.with_batch(batch).nodes.values():
                if node.inputs:
                    count = sum(map(boxes.elements, node.boxes.values()))
                    self.assertEqual(boxes.elements(boxes.whole(node.shape, batch)), count, (node.name, batch, text))

    def test_AWrittenSchedule_IsThatOfItsNetwork(self):
        for network, text in [*map(written, range(30)), *(in_passes(letter, every) for letter in "bc" for every in ("batch", "pass"))]:
            found = schedule.parse(text)
            schedule.compare(found, network)
            self.assertEqual(6, found.batch)
            self.assertEqual([], stalled(found))
            self.check_computed(found, text)

    def refuse(self, pattern, text, change):
        """Makes change(JSON of `text`). Expects that the changed schedule is refused with a message that matches
        `pattern`."""
        root = json.loads(text)
        change(root)
        with self.assertRaisesRegex(schedule.ScheduleError, pattern):
            schedule.parse(json.dumps(root))

    def test_LevelsOfAnotherNumberOfDevices_AreRefused(self):
        _, text = written(1, update="hierarchical", levels=[2, 2])
        for levels in ([10**12], [2, 10**30], [3, 2], [2], []):
            self.refuse(rf"'levels': {re.escape(str(levels))}; expected a product of 4, the devices", text,
                        lambda root: root.update(levels=levels))

    def test_PassesThatLackOrRepeatImages_AreRefused(self):
        for letter, images in (("b", [[[0, 2]], [[2, 4]], [[4, 6]]]), ("c", [[[0, 1], [3, 4]], [[1, 2], [4, 5]], [[2, 3], [5, 6]]])):
            _, text = in_passes(letter, "batch")
            first, second, last = images
            for wrong, told in (([first, first, last], "since every image is in one pass"),
                                ([first, [[second[0][0] + 1, second[-1][1]]], last], f"expected one from {second[0][0]},"),
                                ([first, second, [[last[0][0], last[0][1]], [last[-1][1] - 1, 8]]], "'images'"),
                                ([first, second, [*last, [6, 8]]], "'images' end at 8; expected the batch of 6"),
                                ([[], second, last], r"'images' of pass 0 are \[\]; expected ascending intervals that are not empty"),
                                ([[[2, 2], *first], second, last], "'images' of pass 0 are"),
                                ([first, second, [[6, 4]]], r"'images' of pass 2 are \[\[6, 4\]\]; expected ascending intervals")):
                self.refuse(told, text, lambda root: root["passes"].update(images=wrong))
            for name, value, known in (("scheme", "z", "b, c"), ("update_every", "x", "batch, pass")):
                self.refuse(f"'passes': '{name}' '{value}'; expected one of {known}", text,
                            lambda root: root["passes"].update({name: value}))

    def test_AConfigThatIsNotThatOfTheBoxes_IsRefused(self):
        network = network_in(NET)
        one = {axis: 1 for axis in "nchwr"}
        text = schedules.Writer(network, 8, 4, lambda node: ({**one, "n": 3}, 1)).text()
        schedule.parse(text)

        def change(name, **values):
            return lambda root: next(node for node in root["nodes"] if node["name"] == name)["config"].update(values)
        for name in ("conv", "fc"):
            self.refuse(f"node '{name}': 'boxes' of device 1 is .* expected .* by 'config' {{'n': 2,", text, change(name, n=2))
            self.refuse(f"node '{name}': 'boxes' of device 1 is .* expected .* by 'config' {{'n': 1, 'c': 3", text, change(name, n=1, c=3))
            self.refuse(f"node '{name}': 'boxes' of device 0 is None; expected ", text, change(name, first_device=0))
            self.refuse(f"node '{name}': 'config' .* has 4 parts; expected parts on 4 devices", text, change(name, n=4))
            self.refuse(f"node '{name}': 'boxes' of device 1 is .* 'r': 3, 'first_device': 1}}", text, change(name, n=1, r=3))
        summed = schedules.Writer(network, 8, 4, lambda node: ({**one, "r" if node.name == "fc" else "n": 3}, 1)).text()
        self.refuse("node 'fc': 'partial' of device 1 is .* expected None by 'config'", summed, change("fc", c=3, r=1))
        # With two images, three parts along n have the same boxes as two parts.
        text = schedules.Writer(network, 2, 4, lambda node: ({**one, "n": 2}, 0)).text()
        self.refuse("node 'bn': 'config' {'n': 3, .*; expected {'n': 2, .* as of 'conv'", text, change("bn", n=3))

    def test_ChangedFiles_AreReadOrRefused(self):
        rng, refused = random.Random(1), 0
        sources = [*(written(seed) for seed in range(10)),
                   *(written(seed, update="hierarchical", levels=[2, 2]) for seed in range(10)),
                   *(in_passes(letter, every) for letter in "bc" for every in ("batch", "pass"))]
        sources = [(network, text, json.loads(text)) for network, text in sources]
        began = time.process_time()
        for _ in range(MUTATIONS):
            network, text, root = rng.choice(sources)
            if rng.random() < 0.1:  # change one character, so that the text is no JSON or has other numbers
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice(["", "9", "]", '"', "\x00"]) + text[at + 1:]
            else:
                changed = mutated(rng, root)
                for name in ("levels", "passes"):  # both are small, so changes of the whole file seldom hit them
                    if name in root and rng.random() < 0.1:
                        changed = {**root, name: mutated(rng, root[name])}
                text = json.dumps(changed)
            try:
                found = schedule.parse(text)
                schedule.compare(found, network)
                self.assertEqual([], stalled(found), text)
                self.check_computed(found, text)
            except schedule.ScheduleError as error:
                self.assertNotIn("\n", str(error))
                refused += 1
        self.assertGreater(refused, MUTATIONS // 2)
        self.assertLess(time.process_time() - began, 120)

    def test_AnotherNetwork_IsNamed(self):
        network, text = written(1)
        other = network_in(NET.replace('"next"', '"second"'))
        with self.assertRaisesRegex(schedule.ScheduleError, "its node 'second' where the plan has 'next'"):
            schedule.compare(schedule.parse(text), other)

    def test_AnotherVersion_IsNamed(self):
        _, text = written(1)
        with self.assertRaisesRegex(schedule.ScheduleError, "'version': 2; expected 1"):
            schedule.parse(text.replace('"version": 1', '"version": 2'))
        with self.assertRaisesRegex(schedule.ScheduleError, "'update': 'ring'; expected one of owner, hierarchical"):
            schedule.parse(text.replace('"update": "owner"', '"update": "ring"'))

    def test_AFileThatIsCutOff_IsCalledSo(self):
        _, text = written(1)
        for count in (0, 1, 40, len(text) // 2, text.rindex("}")):
            with self.assertRaisesRegex(schedule.ScheduleError, f"^plan: the file is cut off behind {count} characters"):
                schedule.parse(text[:count], "plan")
        with self.assertRaisesRegex(ValueError, "the file is cut off behind 300 characters"):
            network_in(NET[:300])

    def test_ADividedBatch_HasTheSameConfigurations(self):
        """with_batch(n) of a schedule equals the schedule that is written for n images."""
        for seed in range(20):
            for batch in (1, 2, 5, 11):
                network, rng = network_in(NET), random.Random(seed)
                choices = {node.name: schedules.degrees_of(rng, network, node, 4) for node in network.nodes if node.inputs}
                if batch < max(degrees["n"] for degrees, _ in choices.values()):
                    continue  # the writer changes degrees of layers that have more parts than images
                ours, theirs = (schedule.parse(schedules.Writer(network, each, 4, lambda node: choices[node.name]).text())
                                for each in (12, batch))
                ours = ours.with_batch(batch)
                for name in ours.nodes:
                    for what in ("boxes", "needs", "partial"):
                        self.assertEqual(getattr(theirs.nodes[name], what), getattr(ours.nodes[name], what), (name, what))

    def test_Sums_MoveTwiceTheReplicasLessOne(self):
        """The messages that add up R replicas carry R - 1 numbers for each element, for both kinds of update."""
        for update, levels in (("owner", [8]), ("hierarchical", [2, 4]), ("hierarchical", [4, 2]), ("hierarchical", [2, 2, 2])):
            found = schedule.parse(written(1, 8, 8, update, levels)[1])
            for devices in ((0, 1), (0, 3, 5), (1, 2, 3, 4, 6, 7), tuple(range(8))):
                for elements in (1, 5, 64):
                    phases = schedule.phases_of(found, devices, elements)
                    moved = sum(end - begin for phase in phases for _, _, (begin, end) in phase)
                    self.assertEqual((len(devices) - 1) * elements, moved)

    def test_Parts_AreTheFirstOnesLarger(self):
        self.assertEqual([(0, 3), (3, 6), (6, 8)], [boxes.part(8, 3, place) for place in range(3)])


if __name__ == "__main__":
    unittest.main()
