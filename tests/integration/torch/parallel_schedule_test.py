"""Tests that schedules can be read without torch. A randomly changed file must be refused in one line, or be a schedule
in which no rank waits for a message that no rank sends."""
import json
import pathlib
import random
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
    def test_AWrittenSchedule_IsThatOfItsNetwork(self):
        for seed in range(30):
            network, text = written(seed)
            found = schedule.parse(text)
            schedule.compare(found, network)
            self.assertEqual(6, found.batch)

    def test_ChangedFiles_AreReadOrRefused(self):
        rng, refused = random.Random(1), 0
        sources = [(*written(seed), json.loads(written(seed)[1])) for seed in range(10)]
        began = time.process_time()
        for _ in range(MUTATIONS):
            network, text, root = rng.choice(sources)
            if rng.random() < 0.1:  # change one character, so that the text is no JSON or has other numbers
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice(["", "9", "]", '"', "\x00"]) + text[at + 1:]
            else:
                text = json.dumps(mutated(rng, root))
            try:
                found = schedule.parse(text)
                schedule.compare(found, network)
                self.assertEqual([], stalled(found), text)
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
        """For both kinds of update, messages to the devices that sum move as many elements as all but one of the
        replicas have."""
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
