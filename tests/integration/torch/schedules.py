"""Writes schedules of random configurations by planner/schedule/FORMAT.md. This code shares nothing with `ucudnn plan
--schedule`, so that tests can compare the schedules of both."""
import itertools
import json
import math

from ucudnn.parallel import boxes as b

FOLLOWERS = ("activation", "batch_normalization", "scale", "dropout", "softmax", "cross_entropy", "logistic_loss")
BUNDLE = 25 * (1 << 20) // 4


def machine(*counts):
    """Returns a ucudnn-machine file of P100s. `counts`: the number of members on each level of links, the innermost
    level first."""
    device = {"name": "Tesla P100-SXM2-16GB", "memory_bytes": 17179869184, "tflops": 10.6, "memory_gb_per_s": 732}
    return json.dumps({"format": "ucudnn-machine", "version": 1, "name": f"p100x{'x'.join(map(str, counts))}", "device": device,
                       "levels": [{"name": f"level{place}", "count": count, "gb_per_s": 80 >> place, "latency_us": 10}
                                  for place, count in enumerate(counts)]})


def degrees_of(rng, network, node, devices, allowed="nchwr"):
    """Returns (random degrees of a layer along the axes `allowed`, with at most `devices` parts; the first device)."""
    shape, op = node.shape, node.op
    extents = {"n": 1 << 30, "c": shape[0], "h": shape[-2], "w": shape[-1], "r": 1}
    if op in ("convolution", "fully_connected", "linear") and node.members.get("groups", 1) == 1:
        extents["r"] = network.by_name[node.inputs[0]].shape[0]
    parts = node.members.get("channel_parts", 1)
    if op == "opaque":
        extents |= {"c": parts} | {axis: 1 for axis, key in (("h", "rows"), ("w", "columns")) if not node.members.get(key)}
    if op == "flatten":
        extents |= {"h": 1, "w": 1}
    if op == "transposed_convolution" and node.members.get("groups", 1) > 1:
        extents["c"] = 1
    while True:
        degrees = {axis: rng.choice([1, 1, 2, 3, devices]) if axis in allowed else 1 for axis in "nchwr"}
        workers = math.prod(degrees.values())
        if workers <= devices and all(degrees[axis] <= extents[axis] for axis in "chwr") and \
                degrees["c"] * degrees["r"] <= max(shape[0], 1) and (op != "opaque" or parts % degrees["c"] == 0):
            return degrees, rng.randint(0, devices - workers)


class Writer:
    def __init__(self, network, batch, devices, choose, update="owner", levels=None, passes=None):
        """`choose(node)` returns (degrees, first device) of a layer. `passes`: (scheme, images of each pass,
        update_every), or None."""
        self.passes = passes
        self.network, self.batch, self.devices, self.update = network, batch, devices, update
        self.levels = levels or [devices]
        self.configs, self.layers = {}, {}
        for node in network.nodes:
            if not node.inputs:
                continue
            source = network.by_name[node.inputs[0]]
            if node.op in FOLLOWERS and source.inputs:
                self.layers[node.name] = self.layers[source.name]
                self.configs[node.name] = self.configs[source.name]
            else:
                self.layers[node.name] = node.name
                self.configs[node.name] = choose(node)
                if self.configs[node.name][0]["n"] > batch:
                    self.configs[node.name] = ({**self.configs[node.name][0], "n": 1}, self.configs[node.name][1])

    def parts(self, name):
        """Returns {device: (the box that it keeps, the box that it computes, the input channels that it sums over)}."""
        node, (degrees, first) = self.network.by_name[name], self.configs[name]
        whole, found = b.whole(node.shape, self.batch), {}
        inputs = self.network.by_name[self.network.by_name[self.layers[name]].inputs[0]].shape[0]
        for worker in range(math.prod(degrees.values())):
            rest, at = worker, {}
            for axis in "whrcn":
                rest, at[axis] = divmod(rest, degrees[axis])
            computed = list(whole)
            for axis, place in (("n", b.N), ("c", b.C), ("h", b.H), ("w", b.W)):
                computed[place] = b.part(whole[place][1], degrees[axis], at[axis])
            kept = list(computed)
            low, high = computed[b.C]
            begin, end = b.part(high - low, degrees["r"], at["r"])
            kept[b.C] = (low + begin, low + end)
            found[first + worker] = tuple(kept), tuple(computed), b.part(inputs, degrees["r"], at["r"])
        return found

    def ranges(self, node, place, name, device, parts):
        kept, computed, summed = parts[device]
        shape = self.network.parameters[name].shape
        if node.op == "opaque":
            return (math.prod(shape),), ((0, math.prod(shape)),)
        if node.op in ("batch_normalization", "group_normalization", "scale") or place == 1:
            return (math.prod(shape),), (kept[b.C],)
        if node.op == "transposed_convolution":
            groups = node.members.get("groups", 1)
            if groups == 1:
                return shape, (summed, computed[b.C])
            first, last = computed[b.C][0] // shape[1], computed[b.C][1] // shape[1]  # whole groups
            return shape, ((first * shape[0] // groups, last * shape[0] // groups), (0, shape[1]))
        source = self.network.by_name[node.inputs[0]].shape
        each = shape[1] if node.members.get("groups", 1) > 1 else 1
        if node.members.get("groups", 1) > 1:
            return shape, (computed[b.C], (0, each))
        positions = math.prod(source[1:]) if node.op == "fully_connected" else 1
        return shape, (computed[b.C], (summed[0] * positions, summed[1] * positions))

    def text(self):
        return json.dumps(self.schedule())

    def schedule(self):
        nodes, sends, reads = [], {}, {}
        by_name = {}
        self.exchanges = []
        for node in self.network.nodes:
            written = {"name": node.name, "op": node.op, "inputs": list(node.inputs), "shape": [self.batch, *node.shape]}
            by_name[node.name] = written
            nodes.append(written)
            if not node.inputs:
                continue
            parts, degrees = self.parts(node.name), self.configs[node.name][0]
            written["config"] = {axis: value for axis, value in degrees.items() if axis != "r" or value > 1}
            if self.configs[node.name][1]:
                written["config"]["first_device"] = self.configs[node.name][1]
            written["boxes"] = [_box(device, kept) for device, (kept, _, _) in parts.items() if b.elements(kept)]
            written["parameters"] = []
            names = ["weight", "bias"] if node.op != "opaque" else [f"parameter{i}" for i in range(9)]
            if node.op == "group_normalization":
                written["groups"] = node.members.get("groups", 1)
                if node.members.get("by_position"):
                    written["by_position"] = True
            for place, name in enumerate(node.parameters):
                bias_alone = node.op == "scale" and node.has_shift
                each = {"name": "bias" if bias_alone else names[place], "shape": [], "parts": []}
                each |= {} if self.network.parameters[name].trained else {"trained": False}
                for device in parts:
                    shape, ranges = self.ranges(node, 1 if bias_alone else place, name, device, parts)
                    each["shape"] = list(shape)
                    if all(end > begin for begin, end in ranges):
                        each["parts"].append({"device": device, "ranges": ranges})
                written["parameters"].append(each)
            if self.layers[node.name] != node.name:
                written["layer"] = self.layers[node.name]
                continue
            if degrees["r"] > 1:
                written["partial"] = [_box(device, computed) for device, (_, computed, _) in parts.items()]
            shapes = [self.network.by_name[source].shape for source in node.inputs]
            written["needs"] = []
            for place in range(len(node.inputs)):
                needs = []
                for device, (kept, computed, summed) in parts.items():
                    box = b.needed(node, place, computed, shapes, summed if degrees["r"] > 1 else None)
                    if b.elements(box) and (degrees["r"] > 1 or b.elements(kept)):
                        needs.append(_box(device, box))
                written["needs"].append(needs)
        self.load(nodes, by_name)
        self.connect(nodes, by_name, sends, reads)
        sums = self.sums(nodes)
        statistics, first = self.statistics(nodes)
        order = []
        inner = self.connected() if self.passes else []
        feeds = [one["id"] for one in self.exchanges if one["node"] not in inner and one["consumer"] in inner]

        def run(name, *number):
            order.extend(["wait", id, *number] for id in reads.get(name, []))
            order.extend(["statistics", id, *number] for id in first.get(name, []))
            order.append(["forward", name, *number])
            for id, is_partial in sends.get(name, []):
                if id not in feeds:
                    order.append(["exchange", id, *number])
                    order.extend([["wait", id, *number]] if is_partial else [])
        for node in nodes:
            if node["inputs"] and node["name"] not in inner:
                run(node["name"])
        images = self.passes[1] if self.passes else []
        classifiers = [one["id"] for one in statistics if one["kind"] == "classifier"]
        order += [["exchange", id, 0] for id in feeds] if images else []
        for number in range(len(images)):
            order += [["exchange", id, number + 1] for id in feeds] if number + 1 < len(images) else []
            for node in nodes:
                if node["name"] in inner:
                    run(node["name"], number)
            order += [["statistics", id, number] for id in classifiers]
            order.append(["backward", number])
        order += [["statistics", id] for id in classifiers] if not images else []
        order += [["statistics", one["id"]] for one in statistics if one["kind"] == "loss"]
        passes = {
            "passes": {
                "scheme": self.passes[0],
                "update_every": self.passes[2],
                "nodes": inner,
                "images": images
            }
        } if images else {}
        return {"format": "ucudnn-schedule", "version": 1, "name": self.network.name, "network": self.network.hash(),
                "batch": self.batch, "devices": self.devices, "update": self.update, "levels": self.levels, "nodes": nodes,
                "exchanges": self.exchanges, "sums": sums, "statistics": statistics, "order": order,
                "elements": {"transfer": 2 * sum(one["elements"] for one in self.exchanges),
                             "update": sum(2 * (len(one["devices"]) - 1) * one["elements"] for one in sums),
                             "statistics": sum(2 * (len(group["devices"]) - 1) * (group["forward"] + group["backward"])
                                               for one in statistics for group in one["groups"])}} | passes

    def connected(self):
        """Returns the names of the fully connected layers, and of all nodes that depend on such a layer."""
        found = []
        for node in self.network.nodes:
            if node.op == "fully_connected" or any(source in found for source in node.inputs):
                found.append(node.name)
        return found

    def load(self, nodes, by_name):
        for node in nodes:
            if node["inputs"]:
                continue
            loaded = {}
            for reader in nodes:
                for source, needs in zip(reader["inputs"], reader.get("needs", [])):
                    if source == node["name"]:
                        for one in needs:
                            box = _of(one, node)
                            loaded[one["device"]] = b.hull(loaded.get(one["device"], box), box)
            node["boxes"] = [_box(device, box) for device, box in sorted(loaded.items())]

    def connect(self, nodes, by_name, sends, reads):
        found = {node["name"]: [] for node in nodes}
        for node in nodes:
            for place, source in enumerate(node["inputs"] if "needs" in node else []):
                if by_name[source]["inputs"]:
                    found[source].append((node["name"], place))
            if node.get("partial"):
                found[node["name"]].insert(0, (node["name"], None))
        for name, consumers in found.items():
            for consumer, place in consumers:
                held = by_name[name]["partial" if place is None else "boxes"]
                needed = by_name[name]["boxes"] if place is None else by_name[consumer]["needs"][place]
                count = sum(b.elements(b.meet(_of(one, by_name[name]), _of(other, by_name[name])))
                            for one in held for other in needed if one["device"] != other["device"])
                if count:
                    id = len(self.exchanges)
                    self.exchanges.append({"id": id, "node": name, "consumer": consumer, "input": place, "elements": count})
                    sends.setdefault(name, []).append((id, place is None))
                    if place is not None:
                        reads.setdefault(consumer, []).append(id)

    def sums(self, nodes):
        opened, done, seen = {}, [], set()
        for at, node in reversed(list(enumerate(nodes))):
            for place, parameter in enumerate(node.get("parameters", [])):
                name = self.network.by_name[node["name"]].parameters[place]
                if name in seen or not self.network.parameters[name].trained:
                    continue
                groups = {}
                for one in parameter["parts"]:
                    groups.setdefault(tuple(map(tuple, one["ranges"])), []).append(one["device"])
                rest = parameter["shape"]
                for ranges, devices in groups.items():
                    if len(devices) < 2:
                        continue
                    count = math.prod(end - begin for begin, end in ranges) * math.prod(rest[len(ranges):])
                    bundle = opened.setdefault(tuple(devices), {"parameters": [], "devices": devices, "elements": 0})
                    if bundle["parameters"] and bundle["elements"] + count > BUNDLE:
                        done.append(bundle)
                        bundle = opened[tuple(devices)] = {"parameters": [], "devices": devices, "elements": 0}
                    bundle["parameters"].append([node["name"], parameter["name"]])
                    bundle["elements"] += count
                    bundle["last"] = (-at, place, devices[0])
        first = {}
        for node in self.network.nodes:
            for name in node.parameters:
                first.setdefault(name, node.name)
        done += opened.values()
        done.sort(key=lambda bundle: bundle["last"])
        return [{
            "id": id,
            **{
                key: bundle[key]
                for key in ("parameters", "devices", "elements")
            }
        } for id, bundle in enumerate(done)]

    def statistics(self, nodes):
        read = {source for node in nodes for source in node["inputs"]}
        found, first = [], {}

        def add(node, kind, axes, forward, backward):
            groups = {}
            for one in node["boxes"]:
                groups.setdefault(tuple(tuple(one[axis]) for axis in axes), []).append(one["device"])
            groups = [{
                "devices": devices,
                "forward": forward * math.prod(e - s for s, e in key),
                "backward": backward * math.prod(e - s for s, e in key)
            } for key, devices in groups.items() if len(devices) > 1]
            if groups:
                found.append({"id": len(found), "node": node["name"], "kind": kind, "groups": groups})
                return found[-1]["id"]

        def add_groups(node):
            """Adds the groups of devices of a normalization. Devices that share a mean are in one group, also if they
            share means only through other devices. A group sums two numbers for each of its means, in each
            direction."""
            width, joined = node["shape"][1] // node["groups"], []
            for one in node["boxes"]:
                _, *axes = _of(one, node)
                positions = itertools.product(*(range(*axis) for axis in axes[1:])) if node.get("by_position") else [()]
                means = set(itertools.product(range(*one["n"]), {c // width for c in range(*axes[0])}, positions))
                devices = [one["device"]]
                for other in [other for other in joined if other[0] & means]:
                    joined.remove(other)
                    means, devices = means | other[0], devices + other[1]
                joined.append((means, devices))
            groups = [{"devices": sorted(devices), "forward": 2 * len(means), "backward": 2 * len(means)}
                      for means, devices in joined if len(devices) > 1]
            if groups:
                found.append({"id": len(found), "node": node["name"], "kind": "group_normalization", "groups": groups})
                return found[-1]["id"]
        for node in nodes:
            if node["op"] == "batch_normalization" and (id := add(node, "batch_normalization", "c", 2, 2)) is not None:
                first[node["name"]] = [id]
            if node["op"] == "group_normalization" and (id := add_groups(node)) is not None:
                first[node["name"]] = [id]
        for node in nodes:
            if node["name"] in read or not node["inputs"]:
                continue
            if node["op"] in ("cross_entropy", "softmax", "fully_connected", "linear", "convolution"):
                add(node, "classifier", "nhw", 3, 0)
            found.append({"id": len(found), "node": node["name"], "kind": "loss",
                          "groups": [{"devices": list(range(self.devices)), "forward": 1, "backward": 0}]})
        return found, first


def _box(device, box):
    return {"device": device, "n": box[b.N], "c": box[b.C], "h": box[b.H], "w": box[b.W]}


def _of(one, node):
    depth = node["shape"][2] if len(node["shape"]) == 5 else 1
    return tuple((0, depth) if axis == "d" else tuple(one[axis]) for axis in "ncdhw")
