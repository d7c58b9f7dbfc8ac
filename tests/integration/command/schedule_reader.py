"""Counts what devices send, receive and keep, from the boxes, parts and groups of a schedule (planner/schedule/FORMAT.md)."""

import collections
import math

AXES = "ncdhw"


def part(elements, parts, index):
    share, more = divmod(elements, parts)
    begin = index * share + min(index, more)
    return begin, begin + share + (index < more)


def overlap(a, b):
    return max(a[0], b[0]), min(a[1], b[1])


def meet(a, b):
    return {axis: overlap(a[axis], b[axis]) for axis in AXES if axis in a}


def volume(box):
    return math.prod(max(0, box[axis][1] - box[axis][0]) for axis in AXES if axis in box)


def sum_messages(schedule, one):
    """Returns (from, to, elements) for each message of the sum `one`: first messages to the devices that add, then
    messages back with the results."""
    owned = {device: [(0, one["elements"])] for device in one["devices"]}
    messages, size = [], 1
    for groups in schedule["levels"] if schedule["update"] == "hierarchical" else [schedule["devices"]]:
        given = collections.defaultdict(list)
        for first in range(0, schedule["devices"], size * groups):
            ports = (range(port, port + size) for port in range(first, first + size * groups, size))
            members = [present for port in ports if (present := [device for device in port if device in owned])]
            cuts = sorted({end for present in members for device in present for piece in owned[device] for end in piece})
            for begin, end in zip(cuts, cuts[1:]):
                owners = [next(device for device in present if any(a <= begin and end <= b for a, b in owned[device]))
                          for present in members]
                for index, owner in enumerate(owners):
                    a, b = part(end - begin, len(owners), index)
                    if a < b:
                        given[owner].append((begin + a, begin + b))
                        messages += [(device, owner, b - a) for device in owners if device != owner]
        owned, size = given, size * groups
    return messages + [(to, sender, elements) for sender, to, elements in messages]


class Counted:
    """The counts of each device. `devices` has a dict for each device: "transfer", "update", "statistics" and "labels"
    are [elements sent, elements received], and "memory" has what the device keeps."""

    def __init__(self, schedule):
        self.schedule = schedule
        self.nodes = {node["name"]: node for node in schedule["nodes"]}
        self.passes = schedule.get("passes", {"nodes": [], "images": []})
        self.devices = [{kind: [0, 0] for kind in ("transfer", "update", "statistics", "labels")} |
                        {"device": device, "memory": {"parameters": 0, "outputs": 0, "copies": 0}}
                        for device in range(schedule["devices"])]
        self.gradients = set()  # names of nodes that have a trained parameter or depend on such a node
        for node in schedule["nodes"]:
            if self.gradients & set(node["inputs"]) or any(one.get("trained", True) for one in node.get("parameters", [])):
                self.gradients.add(node["name"])
        for exchange in schedule["exchanges"]:
            self.count_exchange(exchange)
        for one in schedule["sums"]:
            for sender, to, elements in sum_messages(schedule, one):
                self.move("update", sender, to, elements)
        for one, group in ((one, group) for one in schedule["statistics"] for group in one["groups"]):
            numbers = group["forward"] + (group["backward"] if one["node"] in self.gradients else 0)
            for device in group["devices"][1:]:
                self.move("statistics", device, group["devices"][0], numbers)
                self.move("statistics", group["devices"][0], device, numbers)
        for one in schedule["labels"]:
            self.move("labels", one["from"], one["to"], one["n"][1] - one["n"][0])
        for node in schedule["nodes"]:
            self.count_memory(node)

    def move(self, kind, sender, to, elements):
        self.devices[sender][kind][0] += elements
        self.devices[to][kind][1] += elements

    def images(self, name):
        """Returns a list with the images of each pass of a node. A node outside of the passes has a single pass with
        all images."""
        return self.passes["images"] if name in self.passes["nodes"] else [[[0, self.schedule["batch"]]]]

    def count_exchange(self, exchange):
        node, consumer = self.nodes[exchange["node"]], self.nodes[exchange["consumer"]]
        partial = exchange["input"] is None
        held, needed = (node["partial"], node["boxes"]) if partial else (node["boxes"], consumer["needs"][exchange["input"]])
        passes = self.images(consumer["name"])
        arriving = [[0] * len(passes) for _ in self.devices]
        moved = 0
        for a in held:
            for b in needed:
                box = meet(a, b)
                if a["device"] == b["device"] or volume(box) == 0:
                    continue
                moved += volume(box)
                self.move("transfer", a["device"], b["device"], volume(box))
                if node["name"] in self.gradients:
                    self.move("transfer", b["device"], a["device"], volume(box))
                for number, images in enumerate(passes):
                    arriving[b["device"]][number] += sum(volume(box | {"n": overlap(box["n"], one)}) for one in images)
        assert moved == exchange["elements"], exchange
        ahead = consumer["name"] in self.passes["nodes"] and node["name"] not in self.passes["nodes"]
        for device, arrived in zip(self.devices, arriving):
            following = [*arrived[1:], 0] if ahead else [0] * len(arrived)
            device["memory"]["copies"] += 0 if partial else max(a + b for a, b in zip(arrived, following))

    def count_memory(self, node):
        for parameter in node.get("parameters", []):
            for one in parameter["parts"]:
                rest = math.prod(parameter["shape"][len(one["ranges"]):])
                self.devices[one["device"]]["memory"]["parameters"] += rest * math.prod(b - a for a, b in one["ranges"])
        if node["op"] == "input" or "layer" in node:
            return
        kept = [(box, 1 + node.get("inner", 0)) for box in node["boxes"]] + [(box, 1) for box in node.get("partial", [])]
        for box, times in kept:
            elements = [sum(volume(box | {"n": overlap(box["n"], one)}) for one in images) for images in self.images(node["name"])]
            self.devices[box["device"]]["memory"]["outputs"] += int(max(elements) * times)
