"""Reads a schedule that `ucudnn plan --schedule` has written (planner/schedule/FORMAT.md), and compares it with the
network that will run by it. Plain values, without torch."""
import hashlib
import math
import pathlib
from dataclasses import dataclass, field, replace

from . import boxes as b
from .errors import NotSupported
from .reading import json_in

UPDATES = ("owner", "hierarchical")
SCHEMES, UPDATES_OF_PASSES = ("b", "c"), ("batch", "pass")


class ScheduleError(ValueError):
    """The file is not a schedule, or is for another model or number of ranks. The message is one line with the wrong
    value and the expected one."""


@dataclass
class ParameterParts:
    name: str
    shape: tuple
    parts: dict  # {device: ranges of the first axes}
    trained: bool = True
    tensor: int | None = None  # nodes with the same number read the same values


    def replicas(self):
        """Returns {ranges of a part: devices that have it}."""
        found = {}
        for device, ranges in self.parts.items():
            found[ranges] = (*found.get(ranges, ()), device)
        return found


@dataclass
class ScheduledNode:
    name: str
    op: str
    inputs: tuple
    layer: str  # name of the layer to which the node belongs; the node's own name if it is a layer
    shape: tuple  # shape of one image: channels, (d,) h, w
    degrees: dict  # number of parts by axis: n, c, h, w, and r (reduction)
    first_device: int
    boxes: dict  # {device: box of the output}
    needs: list = field(default_factory=list)  # for each input, {device: box that it reads}
    partial: dict = field(default_factory=dict)  # {device: box of its partial sums}
    parameters: list = field(default_factory=list)
    groups: int = 0  # of a group normalization
    by_position: bool = False

    @property
    def is_layer(self):
        return self.layer == self.name


@dataclass(frozen=True)
class Exchange:
    id: int
    node: str
    consumer: str
    input: int | None  # None if the exchange moves partial sums


@dataclass(frozen=True)
class Sum:
    id: int
    parameters: tuple  # pairs (node, name)
    devices: tuple
    elements: int


@dataclass(frozen=True)
class Group:
    devices: tuple
    forward: int
    backward: int


@dataclass(frozen=True)
class Statistics:
    id: int
    node: str
    kind: str
    groups: tuple


@dataclass(frozen=True)
class Passes:
    scheme: str
    update_every: str
    nodes: frozenset
    images: tuple  # for each pass, the intervals of its images


@dataclass
class Schedule:
    name: str
    network: str
    batch: int
    devices: int
    update: str
    levels: tuple
    nodes: dict  # by name
    exchanges: dict  # by id
    sums: tuple
    statistics: dict  # by id
    order: tuple
    elements: dict
    passes: Passes | None = None
    digest: str = ""

    def boxes_of(self, exchange):
        """Returns (boxes that each device has before the exchange, boxes that it needs after), each by device."""
        node = self.nodes[exchange.node]
        if exchange.input is None:
            return node.partial, node.boxes
        return node.boxes, self.nodes[exchange.consumer].needs[exchange.input]

    def with_batch(self, batch):
        """Returns this schedule for another number of images; the layers' configurations stay."""
        if batch == self.batch:
            return self
        if self.passes:
            raise NotSupported(f"a batch of {batch} images in passes of a schedule for {self.batch}")
        nodes = {}
        for name, node in self.nodes.items():
            if node.inputs:
                images = {
                    device: b.part(batch, node.degrees["n"], _places(node, device)["n"])
                    for device in node.boxes | node.partial
                }
                nodes[name] = replace(node, boxes=_with_images(node.boxes, images), partial=_with_images(node.partial, images),
                                      needs=[_with_images(needs, images) for needs in node.needs])
        for name, node in self.nodes.items():
            if not node.inputs:
                loaded = {}
                for reader in nodes.values():
                    for source, needs in zip(reader.inputs, reader.needs):
                        if source == name:
                            for device, box in needs.items():
                                loaded[device] = b.hull(loaded.get(device, box), box)
                nodes[name] = replace(node, boxes=loaded)
        statistics = {}
        for key, one in self.statistics.items():
            # Devices without images still take part in sums of the loss and in batch statistics, to keep their running
            # statistics equal to their replicas'.
            if one.kind in ("loss", "batch_normalization"):
                statistics[key] = one
                continue
            has, before, groups = nodes[one.node].boxes, self.nodes[one.node].boxes, []
            # A group's numbers are proportional to its number of images, which is the same on all its devices.
            for group in one.groups:
                now, full = (b.elements(found.get(group.devices[0], ((0, 0),))[:1]) for found in (has, before))
                groups.append(replace(group, devices=tuple(d for d in group.devices if d in has),
                                      forward=group.forward * now // full, backward=group.backward * now // full))
            statistics[key] = replace(one, groups=tuple(groups))
        return replace(self, batch=batch, nodes={name: nodes[name] for name in self.nodes}, statistics=statistics)


def _with_images(found, images):
    return {device: (images[device], *box[1:]) for device, box in found.items() if images[device][1] > images[device][0]}


def read(path):
    """Reads the schedule in the file `path`. Raises ScheduleError, which says what is wrong."""
    if not isinstance(path, (str, pathlib.PurePath)):
        raise ScheduleError(f"a plan that is a {type(path).__name__}: the path of a file of `ucudnn plan --schedule` is expected")
    try:
        text = pathlib.Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ScheduleError(f"{path}: {error}") from None
    return parse(text, str(path))


def parse(text, path="schedule"):
    try:
        try:
            root = json_in(text)
        except ValueError as error:
            raise ScheduleError(str(error)) from None
        if not isinstance(root, dict) or root.get("format") != "ucudnn-schedule":
            found = root.get("format") if isinstance(root, dict) else type(root).__name__
            raise ScheduleError(f"'format': {found!r}; expected 'ucudnn-schedule', as `ucudnn plan --schedule` writes")
        if root["version"] != 1:
            raise ScheduleError(f"'version': {root['version']!r}; expected 1")
        schedule = _Reader(root).schedule()
        _check(schedule)
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise ScheduleError(f"{path}: {type(error).__name__} of {error}: not as planner/schedule/FORMAT.md has it") from None
    schedule.digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return schedule


def _whole(value, least=0):
    if type(value) is not int or value < least:
        raise ScheduleError(f"{value!r}; expected a whole number of at least {least}")
    return value


def _text(value):
    if not isinstance(value, str):
        raise ScheduleError(f"{value!r}; expected text")
    return value


def _interval(value):
    begin, end = map(_whole, value)
    return begin, end


def _boxes(values, shape, what):
    depth = shape[1] if len(shape) == 4 else 1
    found = {}
    for one in values:
        box = tuple(_interval(one[axis]) if axis != "d" else (0, depth) for axis in "ncdhw")
        found[_whole(one["device"])] = box
        if b.elements(box) == 0:
            raise ScheduleError(f"{what}: the box of device {one['device']} is empty")
    return found


class _Reader:
    def __init__(self, root):
        self.root = root

    def schedule(self):
        root = self.root
        nodes = {}
        for one in root["nodes"]:
            node = self.node(one, nodes)
            if node.name in nodes:
                raise ScheduleError(f"two nodes {node.name!r}")
            if any(source not in nodes for source in node.inputs):
                raise ScheduleError(f"node {node.name!r} has an input that is not before it")
            nodes[node.name] = node
        exchanges = {}
        for one in root["exchanges"]:
            place = one["input"] if one["input"] is None else _whole(one["input"])
            exchanges[_whole(one["id"])] = Exchange(one["id"], _text(one["node"]), _text(one["consumer"]), place)
        sums = tuple(Sum(_whole(one["id"]), tuple((_text(node), _text(name)) for node, name in one["parameters"]),
                         tuple(map(_whole, one["devices"])), _whole(one["elements"])) for one in root["sums"])
        statistics = {}
        for one in root["statistics"]:
            groups = tuple(Group(tuple(map(_whole, group["devices"])), _whole(group["forward"]), _whole(group["backward"]))
                           for group in one["groups"])
            statistics[_whole(one["id"])] = Statistics(one["id"], _text(one["node"]), _text(one["kind"]), groups)
        return Schedule(_text(root["name"]), _text(root["network"]), _whole(root["batch"], 1), _whole(root["devices"], 1),
                        root["update"], tuple(_whole(level, 1) for level in root["levels"]), nodes, exchanges, sums, statistics,
                        tuple(tuple(step) for step in root["order"]), root["elements"], self.passes())

    def node(self, one, nodes):
        name = _text(one["name"])
        batch, *shape = (_whole(extent, 1) for extent in one["shape"])
        if len(shape) not in (3, 4):
            raise ScheduleError(f"node {name!r}: shape {one['shape']}; expected n, c, (d,) h, w")
        config = one.get("config", {})
        degrees = {axis: _whole(config.get(axis, 1), 1) for axis in "nchwr"}
        parameters = [ParameterParts(_text(p["name"]), tuple(_whole(extent, 1) for extent in p["shape"]),
                                     {_whole(each["device"]): tuple(map(_interval, each["ranges"])) for each in p["parts"]},
                                     bool(p.get("trained", True)), None if p.get("tensor") is None else _whole(p["tensor"]))
                      for p in one.get("parameters", [])]
        inputs = tuple(map(_text, one["inputs"]))
        needs = [
            _boxes(each, nodes[source].shape, name)
            for source, each in zip(inputs, one.get("needs", []), strict=bool(one.get("needs")))
        ]
        return ScheduledNode(name, _text(one["op"]), inputs, _text(one.get("layer", name)), tuple(shape),
                             degrees, _whole(config.get("first_device", 0)), _boxes(one["boxes"], shape, name),
                             needs, _boxes(one.get("partial", []), shape, name), parameters, _whole(one.get("groups", 0)),
                             bool(one.get("by_position", False)))

    def passes(self):
        one = self.root.get("passes")
        if not one:
            return None
        return Passes(_text(one["scheme"]), _text(one["update_every"]), frozenset(map(_text, one["nodes"])),
                      tuple(tuple(map(_interval, images)) for images in one["images"]))


def _check(schedule):
    """Checks what the executor relies on: no rank may wait for a message that no rank sends."""
    if schedule.update not in UPDATES:
        raise ScheduleError(f"'update': {schedule.update!r}; expected one of {', '.join(UPDATES)}: others are not executed")
    if math.prod(schedule.levels) != schedule.devices:
        raise ScheduleError(f"'levels': {list(schedule.levels)}; expected a product of {schedule.devices}, the devices")
    if schedule.passes:
        _check_passes(schedule.passes, schedule.batch)
    for node in schedule.nodes.values():
        _check_node(schedule, node)
    steps = {"forward": schedule.nodes, "exchange": schedule.exchanges, "wait": schedule.exchanges,
             "statistics": schedule.statistics, "backward": range(len(schedule.passes.images) if schedule.passes else 0)}
    for step in schedule.order:
        if step[0] not in steps or step[1] not in steps[step[0]]:
            raise ScheduleError(f"'order': {list(step)}; no such step")
    _check_exchanges(schedule)
    _check_order(schedule)
    _check_sums(schedule)
    _check_statistics(schedule)


def _check_passes(passes, batch):
    """Checks that every image of the batch is in exactly one pass. The executor relies on ascending images in a pass."""
    for name, found, known in (("scheme", passes.scheme, SCHEMES), ("update_every", passes.update_every, UPDATES_OF_PASSES)):
        if found not in known:
            raise ScheduleError(f"'passes': '{name}' {found!r}; expected one of {', '.join(known)}")
    for number, images in enumerate(passes.images):
        edges = [edge for interval in images for edge in interval]
        if not edges or edges != sorted(edges) or any(begin == end for begin, end in images):
            raise ScheduleError(f"'passes': 'images' of pass {number} are {list(map(list, images))}; expected ascending intervals "
                                "that are not empty")
    covered = 0
    for begin, end in sorted(interval for images in passes.images for interval in images):
        if begin != covered:
            raise ScheduleError(f"'passes': an interval of 'images' is {[begin, end]}; expected one from {covered}, since every image "
                                "is in one pass")
        covered = end
    if covered != batch:
        raise ScheduleError(f"'passes': 'images' end at {covered}; expected the batch of {batch}")


def _check_exchanges(schedule):
    """Checks that an exchange brings each input that is not where it is needed, and the partial sums of each layer. No
    exchange may come twice."""
    found = set()
    for exchange in schedule.exchanges.values():
        node, consumer = schedule.nodes[exchange.node], schedule.nodes[exchange.consumer]
        if exchange.input is None:
            if node is not consumer or not node.partial:
                raise ScheduleError(f"exchange {exchange.id}: {node.name!r} has no partial sums")
        elif exchange.input >= len(consumer.needs) or consumer.inputs[exchange.input] != node.name or not node.inputs:
            raise ScheduleError(f"exchange {exchange.id}: {node.name!r} is not input {exchange.input} of {consumer.name!r}")
        if (consumer.name, exchange.input) in found:
            raise ScheduleError(f"exchange {exchange.id}: a second one of {node.name!r} for {consumer.name!r}; one is expected")
        found.add((consumer.name, exchange.input))
    for name, node in schedule.nodes.items():
        if node.partial and (name, None) not in found and node.partial != node.boxes:
            raise ScheduleError(f"node {name!r}: no exchange of its partial sums")
        for place, (source, needs) in enumerate(zip(node.inputs, node.needs)):
            has = schedule.nodes[source].boxes
            lacking = [device for device, box in needs.items() if device not in has or not b.holds(has[device], box)]
            if lacking and (not schedule.nodes[source].inputs or (name, place) not in found):
                raise ScheduleError(f"node {name!r}: device {lacking[0]} needs {list(needs[lacking[0]])} of {source!r}, which "
                                    "no exchange brings")


def _check_sums(schedule):
    """Checks that every trained part that several devices have is summed over them exactly once."""
    summed = {}
    for one in schedule.sums:
        if len(set(one.devices)) < len(one.devices) or list(one.devices) != sorted(one.devices) or \
                one.devices[-1] >= schedule.devices:
            raise ScheduleError(f"sum {one.id}: devices {list(one.devices)}; expected rising ones below {schedule.devices}")
        for node, name in one.parameters:
            parameter = next((p for p in schedule.nodes[node].parameters if p.name == name), None)
            if parameter is None or parameter.replicas().get(parameter.parts.get(one.devices[0])) != one.devices:
                raise ScheduleError(f"sum {one.id}: {name!r} of {node!r} is not the part of devices {list(one.devices)} alone")
            key = (node, name) if parameter.tensor is None else parameter.tensor
            if one.devices in summed.setdefault(key, set()):
                raise ScheduleError(f"sum {one.id}: {name!r} of {node!r} is summed over devices {list(one.devices)} twice")
            summed[key].add(one.devices)
    for node in schedule.nodes.values():
        for parameter in node.parameters:
            key = (node.name, parameter.name) if parameter.tensor is None else parameter.tensor
            for devices in parameter.replicas().values() if parameter.trained else ():
                if len(devices) > 1 and devices not in summed.get(key, ()):
                    raise ScheduleError(f"'sums': none of {parameter.name!r} of {node.name!r} over devices {list(devices)}")


def _check_statistics(schedule):
    """Checks that the groups of devices that exchange statistics are the groups that the boxes require."""
    read = {source for node in schedule.nodes.values() for source in node.inputs}
    expected = {}
    for name, node in schedule.nodes.items():
        if not node.inputs:
            continue
        if node.op == "batch_normalization":
            expected["batch_normalization", name] = _groups(node, lambda box: (box[b.C],), 2, 2)
        elif node.groups:
            expected["group_normalization", name] = _groups_of_channels(node)
        if name not in read:
            if node.op in ("cross_entropy", "softmax", "fully_connected", "linear", "convolution"):
                expected["classifier", name] = _groups(node, lambda box: (box[b.N], *box[b.D:]), 3, 0)
            expected["loss", name] = {(tuple(range(schedule.devices)), 1, 0)}
    found = {}
    for one in schedule.statistics.values():
        groups = {(group.devices, group.forward, group.backward) for group in one.groups}
        if (one.kind, one.node) in found or expected.get((one.kind, one.node)) != groups:
            raise ScheduleError(f"statistics {one.id}: {one.kind} of {one.node!r} over {sorted(groups)}; "
                                f"{sorted(expected.get((one.kind, one.node)) or ()) or 'none'} follow from the boxes")
        found[one.kind, one.node] = groups
    for (kind, name), groups in expected.items():
        if groups and (kind, name) not in found:
            raise ScheduleError(f"'statistics': {kind} of {name!r} is missing")


def _groups(node, shared, forward, backward):
    """Returns a set of (devices, numbers sent in the forward pass, numbers sent in the backward pass). Each entry is
    for devices whose boxes are equal in `shared`."""
    found = {}
    for device, box in node.boxes.items():
        found.setdefault(shared(box), []).append(device)
    counts = {key: b.elements(key) for key in found}
    return {(tuple(devices), forward * counts[key], backward * counts[key])
            for key, devices in found.items() if len(devices) > 1}


def _groups_of_channels(node):
    """Like _groups, for a group normalization: devices with channels of the same group form a set. A box with channels
    of two groups joins their sets."""
    found = {}
    for device, box in node.boxes.items():
        place = (box[b.N], *(box[b.D:] if node.by_position else ()))
        groups, devices = b.groups_of(box[b.C], node.shape[0], node.groups), [device]
        for other in [other for other in found.get(place, ()) if other[0][0] < groups[1] and groups[0] < other[0][1]]:
            found[place].remove(other)
            groups, devices = (min(groups[0], other[0][0]), max(groups[1], other[0][1])), devices + other[1]
        found.setdefault(place, []).append((groups, devices))
    counted = [(tuple(sorted(devices)), 2 * b.elements((groups, *place)))
               for place, joined in found.items() for groups, devices in joined]
    return {(devices, count, count) for devices, count in counted if len(devices) > 1}


def _check_order(schedule):
    """Checks that every step comes once (in passes, once in each pass). A wait must come after its exchange, and a node
    after the nodes that it reads."""
    waits = {name: [] for name in schedule.nodes}  # {node: exchanges that bring its inputs}
    for exchange in schedule.exchanges.values():
        readers = [exchange.consumer] if exchange.input is not None else [
            name for name, node in schedule.nodes.items() if exchange.node in node.inputs]
        for reader in readers:
            waits[reader].append(exchange.id)
    inner, counts = (schedule.passes.nodes, range(len(schedule.passes.images))) if schedule.passes else ((), ())
    done = set()
    for kind, of, *number in schedule.order:
        step = (kind, of, *number)

        def require(kind, of):
            if not {(kind, of), (kind, of, *number)} & done:
                raise ScheduleError(f"'order': {list(step)} before {[kind, of, *number]}")
        if step in done:
            raise ScheduleError(f"'order': {list(step)} twice")
        if kind == "wait":
            require("exchange", of)
        elif kind == "forward":
            for source in schedule.nodes[of].inputs:
                if schedule.nodes[source].inputs:
                    require("forward", source)
            for exchange in waits[of]:
                require("wait", exchange)
        elif kind == "exchange":
            require("forward", schedule.exchanges[of].node)
        elif kind == "backward":
            number = (of,)
            for name in inner:
                require("forward", name)
        done.add(step)
    expected = {("backward", number) for number in counts}
    for kind, names in (("forward", [name for name, node in schedule.nodes.items()
                                     if node.inputs]), ("exchange", schedule.exchanges), ("wait", schedule.exchanges)):
        for name in names:
            node = name if kind == "forward" else schedule.exchanges[name].consumer
            expected |= {(kind, name, number) for number in counts} if node in inner else {(kind, name)}
    for step in expected ^ {step for step in done if step[0] != "statistics"}:
        raise ScheduleError(f"'order': {list(step)} {'is missing' if step in expected else 'does not belong there'}")


def _check_node(schedule, node):
    whole = b.whole(node.shape, schedule.batch)
    for what, found in (("boxes", node.boxes), ("partial", node.partial)):
        for device, box in found.items():
            if device >= schedule.devices or not b.holds(whole, box):
                raise ScheduleError(f"node {node.name!r}: '{what}' of device {device} is {list(box)}; expected a box of "
                                    f"{node.shape} on one of {schedule.devices} devices")
    if node.groups and node.shape[0] % node.groups:
        raise ScheduleError(f"node {node.name!r}: 'groups': {node.groups}; expected a divisor of {node.shape[0]} channels")
    if not node.inputs:
        return
    _check_config(schedule, node, whole)
    if schedule.nodes.get(node.layer) is None:
        raise ScheduleError(f"node {node.name!r}: 'layer': {node.layer!r}; expected a node")
    if node.is_layer:
        if len(node.needs) != len(node.inputs):
            raise ScheduleError(f"node {node.name!r}: 'needs' of {len(node.needs)} inputs; expected {len(node.inputs)}")
    else:
        source = schedule.nodes[node.inputs[0]]
        if node.boxes != source.boxes or len(node.inputs) != 1:
            raise ScheduleError(f"node {node.name!r}: its boxes differ from those of {source.name!r}, with which it is computed")
        if (node.degrees, node.first_device) != (source.degrees, source.first_device):
            raise ScheduleError(f"node {node.name!r}: 'config' {_config(node)}; expected {_config(source)} as of {source.name!r}, with "
                                "which it is computed")
    for parameter in node.parameters:
        for device, ranges in parameter.parts.items():
            if len(ranges) > len(parameter.shape) or any(begin >= end or end > extent
                                                         for (begin, end), extent in zip(ranges, parameter.shape)):
                raise ScheduleError(f"node {node.name!r}: the part {list(ranges)} of {parameter.name!r} on device {device}; "
                                    f"expected one of {parameter.shape}")


def _places(node, device):
    """Returns {axis: number of the part that a device has, from 0}."""
    rest, places = device - node.first_device, {}
    for axis in "whrcn":
        rest, places[axis] = divmod(rest, node.degrees[axis])
    return places


def _config(node):
    return {**node.degrees, "first_device": node.first_device}


def _check_config(schedule, node, whole):
    """Checks that the boxes of a node follow from its 'config' (planner/report/FORMAT.md, `layers[].config`). So they
    cover the output once, and with_batch() divides other batches in the same way."""
    workers = math.prod(node.degrees.values())
    if node.first_device + workers > schedule.devices:
        raise ScheduleError(f"node {node.name!r}: 'config' {_config(node)} has {workers} parts; expected parts on {schedule.devices} "
                            "devices")
    kept, computed = {}, {}
    for device in range(node.first_device, node.first_device + workers):
        box, at = list(whole), _places(node, device)
        for axis, place in (("n", b.N), ("c", b.C), ("h", b.H), ("w", b.W)):
            box[place] = b.part(whole[place][1], node.degrees[axis], at[axis])
        computed[device] = tuple(box)
        begin, end = box[b.C]
        low, high = b.part(end - begin, node.degrees["r"], at["r"])
        box[b.C] = (begin + low, begin + high)
        kept[device] = tuple(box)
    if node.degrees["r"] == 1 or not node.is_layer:
        computed = {}
    for what, found, expected in (("boxes", node.boxes, kept), ("partial", node.partial, computed)):
        expected = {device: box for device, box in expected.items() if b.elements(box)}
        for device in sorted({*found, *expected}):
            has, wanted = found.get(device), expected.get(device)
            if has != wanted:
                raise ScheduleError(f"node {node.name!r}: '{what}' of device {device} is {has and list(has)}; expected "
                                    f"{wanted and list(wanted)} by 'config' {_config(node)}")


def compare(schedule, network):
    """Raises ScheduleError if the schedule is for another network, or if a box of an input lacks elements that the
    operator reads."""
    if schedule.network not in (network.hash(), network.hash(is_all_trained=True)):
        names = [node.name for node in network.nodes]
        other = next((f"its node {ours!r} where the plan has {theirs!r}" for ours, theirs in zip(names, schedule.nodes)
                      if ours != theirs), f"{len(names)} nodes where the plan has {len(schedule.nodes)}"
                     if len(names) != len(schedule.nodes) else "the same names with other shapes, inputs or parameters")
        raise ScheduleError(
            f"a plan of the network {schedule.network} ({schedule.name}); this model is {network.hash()}, with {other}. "
            "`ucudnn plan` plans the model's own description; parallel.pins takes the degrees of another network's plan")
    for node in network.nodes:
        scheduled = schedule.nodes.get(node.name)
        if scheduled is None or scheduled.op != node.op or scheduled.inputs != node.inputs or scheduled.shape != node.shape:
            raise ScheduleError(f"node {node.name!r} is not that of the model")
        groups = (node.members.get("groups", 1), node.members.get("by_position", False))
        if node.op == "group_normalization" and (scheduled.groups, scheduled.by_position) != groups:
            raise ScheduleError(f"node {node.name!r}: 'groups' {scheduled.groups}, 'by_position' {scheduled.by_position}; expected "
                                f"{groups[0]} and {groups[1]}")
        if len(scheduled.parameters) != len(node.parameters):
            raise ScheduleError(f"node {node.name!r}: {len(scheduled.parameters)} parameters; expected {len(node.parameters)}")
        for ours, theirs in zip(node.parameters, scheduled.parameters):
            shape = network.parameters[ours].shape
            if math.prod(shape) != math.prod(theirs.shape):
                raise ScheduleError(f"node {node.name!r}: {theirs.name!r} of shape {theirs.shape}; expected {shape}")
        if not node.inputs:
            continue
        shapes = [network.by_name[source].shape for source in node.inputs]
        _compare_parts(node, scheduled, shapes[0], schedule.nodes[scheduled.layer])
        computed = scheduled.partial or scheduled.boxes
        for place in range(len(node.inputs)):
            source = schedule.nodes[node.inputs[place]]
            for device, box in computed.items():
                has = scheduled.needs[place].get(device) if scheduled.is_layer else source.boxes.get(device)
                summed = has[b.C] if has and scheduled.partial else None
                reads = b.needed(node, place, box, shapes, summed)
                if b.elements(reads) and (has is None or not b.holds(has, reads)):
                    raise ScheduleError(f"node {node.name!r}: device {device} reads {list(reads)} of {source.name!r} for "
                                        f"{list(box)}; the plan gives it {has and list(has)}")


def _compare_parts(node, scheduled, source, layer):
    """Raises ScheduleError if a device's part of a parameter is not the part that its boxes need. `source`: the shape
    of the input."""
    for place, parameter in enumerate(scheduled.parameters):
        for device in scheduled.boxes | scheduled.partial:
            computed, kept = ((found.get(device) or ((0, 0),) * 5)[b.C] for found in (
                scheduled.partial or scheduled.boxes, scheduled.boxes))
            wanted = b.part_of_parameter(node, place, parameter.shape, source, computed, kept,
                                         layer.needs[0][device][b.C] if scheduled.partial else (0, source[0]))
            has = parameter.parts.get(device)
            has = has and (*has, *((0, extent) for extent in parameter.shape[len(has):]))
            if (b.elements(wanted) or has) and has != wanted:
                raise ScheduleError(f"node {node.name!r}: device {device} has {has and list(has)} of {parameter.name!r}; its "
                                    f"box needs {list(wanted)}")
        if any(device not in scheduled.boxes | scheduled.partial for device in parameter.parts):
            raise ScheduleError(f"node {node.name!r}: a part of {parameter.name!r} on a device without a box")


def phases_of(schedule, devices, elements):
    """Returns the phases of a sum, each a list of messages (from, to, interval). The messages add up the gradients
    level by level. The results go back by the same messages in reversed order (planner/schedule/FORMAT.md, "Sums")."""
    levels = schedule.levels if schedule.update == "hierarchical" else (schedule.devices,)
    pieces = [((0, elements), device) for device in devices]  # (interval, the device that has its sum so far)
    phases, size = [], 1
    for groups in levels:
        parent, owned, messages = size * groups, [], []
        for first in range(0, schedule.devices, parent):
            subgroups = [[piece for piece in pieces if piece[1] // size == port]
                         for port in range(first // size, (first + parent) // size)]
            _give(list(filter(None, subgroups)), owned, messages)
        phases.append(messages)
        pieces, size = owned, parent
    return phases


def _give(subgroups, owned, messages):
    cuts = sorted({end for subgroup in subgroups for interval, _ in subgroup for end in interval})
    for begin, end in zip(cuts, cuts[1:]):
        owners = [next(device for interval, device in subgroup if interval[0] <= begin < interval[1]) for subgroup in subgroups]
        for place, owner in enumerate(owners):
            low, high = b.part(end - begin, len(owners), place)
            if high > low:
                interval = (begin + low, begin + high)
                owned.append((interval, owner))
                messages += [(other, owner, interval) for other in owners if other != owner]
