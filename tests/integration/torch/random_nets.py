"""Makes random small networks as ucudnn-net files, and computes them with plain torch. The networks have residual
sums, concatenations, tensors with two readers, odd sizes and groups."""
import json

import torch
import torch.nn.functional as F

EXACT = ("relu", "conv", "depthwise", "transposed", "maxpool", "add", "cat", "two", "pad", "up")
OTHER = (*EXACT, "gate", "bn", "groups", "avgpool", "lrn", "scale", "sigmoid", "dropout0")


class Maker:
    def __init__(self, rng, is_exact, rank=2):
        self.rng, self.kinds, self.rank = rng, EXACT if is_exact else OTHER, rank
        self.nodes, self.shapes = [], {}

    def add(self, op, inputs, shape, **members):
        name = f"{op}{len(self.nodes)}"
        self.nodes.append({"name": name, "op": op, **({"inputs": inputs} if inputs else {}), **members})
        self.shapes[name] = tuple(shape)
        return name

    def conv(self, x, filters, k=None, stride=1, groups=1):
        rng, (_, *extents) = self.rng, self.shapes[x]
        window = [min(k or rng.choice([1, 2, 3]), extent) for extent in extents]
        pad = [rng.randint(0, (w - 1) // 2 + (w > 1)) if k is None else (w - 1) // 2 for w in window]
        dilation = [
            rng.choice([1, 1, 2]) if k is None and (w - 1) * 2 + 1 <= extent else 1 for w, extent in zip(window, extents)
        ]
        shape = [(e + 2 * p - (w - 1) * d - 1) // stride + 1 for e, p, w, d in zip(extents, pad, window, dilation)]
        return self.add("convolution", [x], (filters, *shape),
                        filters=filters,
                        window=window,
                        stride=[stride] * len(shape),
                        pad=pad,
                        dilation=dilation,
                        groups=groups,
                        bias=rng.random() < 0.7)

    def step(self, x):
        rng, shape = self.rng, self.shapes[x]
        channels, *extents = shape
        kind = rng.choice(self.kinds)
        small = min(extents) < 4
        if kind == "relu":
            return self.add("activation", [x], shape, kind="relu")
        if kind == "sigmoid":
            return self.add("activation", [x], shape, kind="sigmoid")
        if kind == "bn":
            return self.add("batch_normalization", [x], shape)
        if kind == "groups":
            groups = rng.choice([count for count in range(1, channels + 1) if channels % count == 0])
            return self.add("group_normalization", [x], shape, groups=groups, by_position=groups < channels and rng.random() < 0.4,
                            scale_and_shift=rng.random() < 0.7)
        if kind == "scale":
            return self.add("scale", [x], shape, shift=rng.random() < 0.5)
        if kind == "dropout0":
            return self.add("dropout", [x], shape, rate=0.0)
        if kind == "lrn":
            return self.add("lrn", [x], shape, size=rng.choice([3, 5]))
        if kind == "conv":
            return self.conv(x, rng.randint(2, 6), stride=1 if small else rng.choice([1, 1, 2]))
        if kind == "depthwise":
            groups = rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
            return self.conv(x, groups * rng.randint(1, 3), groups=groups)
        if kind == "transposed":
            if max(extents) > 14:
                return x
            k, stride, filters = rng.choice([2, 3]), rng.choice([1, 2]), rng.randint(2, 5)
            pad = rng.randint(0, 1)
            return self.add("transposed_convolution", [x], (filters, *[(e - 1) * stride - 2 * pad + k for e in extents]),
                            filters=filters, window=[k] * self.rank, stride=[stride] * self.rank, pad=[pad] * self.rank,
                            bias=rng.random() < 0.5) if min(extents) > 2 else x
        if kind in ("maxpool", "avgpool"):
            if small:
                return x
            k, s = rng.choice([(2, 2), (3, 2), (3, 1)])
            pad, up = rng.choice([0, 1 if k == 3 else 0]), rng.random() < 0.4
            found = []
            for e in extents:
                rest = e + 2 * pad - k
                count = (-(-rest // s) if up else rest // s) + 1
                found.append(count - (up and (count - 1) * s >= e + pad))
            return self.add("pooling", [x], (channels, *found), kind="maximum" if kind == "maxpool" else "average",
                            window=[k] * self.rank, stride=[s] * self.rank, pad=[pad] * self.rank, round_up=up)
        if kind in ("add", "two"):
            other = self.conv(x, channels, k=3)
            if kind == "two":
                other = self.add("activation", [other], self.shapes[other], kind="relu")
            return self.add("add", [other, x], shape) if self.shapes[other] == shape else x
        if kind == "cat":
            other = self.conv(x, rng.randint(1, 4), k=3)
            if self.shapes[other][1:] != shape[1:]:
                return x
            inputs = [x, other] if rng.random() < 0.5 else [other, x, other]
            return self.add("concat", inputs, (sum(self.shapes[i][0] for i in inputs), *extents), axis="c")
        if kind == "pad":
            before, after = [rng.randint(0, 1) for _ in extents], [rng.randint(0, 1) for _ in extents]
            return self.add("padding", [x], (channels, *[e + b + a for e, b, a in zip(extents, before, after)]), before=before,
                            after=after)
        if kind == "up":
            return x if max(extents) > 8 else self.add("upsampling", [x], (channels, *[e * 2 for e in extents]),
                                                       factor=[2] * self.rank)
        if kind == "gate":
            pooled = self.add("global_pooling", [x], (channels, *[1] * self.rank), kind="maximum")
            return self.add("multiply", [x, pooled], shape)

    def network(self):
        rng = self.rng
        extents = [rng.randint(5, 11) for _ in range(self.rank)]
        x = self.add("input", [], (rng.randint(1, 3), *extents), channels=None, extents=extents)
        self.nodes[0]["channels"] = self.shapes[x][0]
        x = self.conv(x, rng.randint(2, 5))
        for _ in range(rng.randint(2, 5)):
            x = self.step(x)
        if rng.random() < 0.3:
            x = self.add("flatten", [x], (_product(self.shapes[x]), *[1] * self.rank))
            x = self.add("activation", [x], self.shapes[x], kind="relu")
        if rng.random() < 0.5:
            hidden = rng.randint(3, 7)
            x = self.add("fully_connected", [x], (hidden, *[1] * self.rank), outputs=hidden)
            x = self.add("activation", [x], self.shapes[x], kind="relu")
        classes = rng.randint(3, 6)
        self.add("fully_connected", [x], (classes, *[1] * self.rank), outputs=classes, bias=rng.random() < 0.7)
        return self.text()

    def text(self):
        nodes, read = [], {self.nodes[-1]["name"]}
        for node in reversed(self.nodes):  # keep only nodes on which the last node depends
            if node["name"] in read:
                nodes.insert(0, node)
                read.update(node.get("inputs", ()))
        return json.dumps({"format": "ucudnn-net", "version": 1, "name": "random", "nodes": nodes})


def _product(values):
    total = 1
    for value in values:
        total *= value
    return total


def plain(model, text, x, most=None):
    """Returns the network's output, computed by torch's functions. If `most` is given, appends the largest absolute
    value of each tensor to `most`."""
    values = {}
    for node in json.loads(text)["nodes"]:
        a = [values[i] for i in node.get("inputs", ())]
        own = getattr(model, node["name"], None)
        weight, bias = getattr(own, "weight", None), getattr(own, "bias", None)
        three = x.ndim == 5
        op = node["op"]
        if op == "input":
            y = x
        elif op == "convolution":
            y = (F.conv3d if three else F.conv2d)(a[0], weight, bias, node["stride"], node["pad"], node["dilation"],
                                                  node["groups"])
        elif op == "transposed_convolution":
            y = (F.conv_transpose3d if three else F.conv_transpose2d)(a[0], weight, bias, node["stride"], node["pad"])
        elif op == "pooling":
            name = ("max" if node["kind"] == "maximum" else "avg") + ("_pool3d" if three else "_pool2d")
            y = getattr(F, name)(a[0], node["window"], node["stride"], node["pad"], ceil_mode=node["round_up"])
        elif op == "global_pooling":
            y = a[0].amax(tuple(range(2, x.ndim)), keepdim=True)
        elif op == "activation":
            y = torch.relu(a[0]) if node["kind"] == "relu" else torch.sigmoid(a[0])
        elif op == "batch_normalization":
            y = F.batch_norm(a[0], None, None, weight, bias, True)
        elif op == "group_normalization":
            at = a[0].movedim(1, -1).flatten(0, -2) if node["by_position"] else a[0]  # make each position an image
            y = F.group_norm(at, node["groups"], weight, bias)
            y = y.view(a[0].movedim(1, -1).shape).movedim(-1, 1) if node["by_position"] else y
        elif op == "scale":
            shape = (1, -1, *[1] * (x.ndim - 2))
            y = a[0] * weight.view(shape)
            y = y if bias is None else y + bias.view(shape)
        elif op == "lrn":
            y = F.local_response_norm(a[0], node["size"])
        elif op == "dropout":
            y = a[0]
        elif op == "add":
            y = a[0] + a[1]
        elif op == "multiply":
            y = a[0] * a[1]
        elif op == "concat":
            y = torch.cat(a, 1)
        elif op == "padding":
            pads = [n for b, e in zip(reversed(node["before"]), reversed(node["after"])) for n in (b, e)]
            y = F.pad(a[0], pads)
        elif op == "upsampling":
            y = F.interpolate(a[0], scale_factor=2, mode="nearest")
        elif op == "flatten":
            y = a[0].flatten(1).reshape(len(x), -1, *[1] * (x.ndim - 2))
        elif op == "fully_connected":
            y = F.linear(a[0].flatten(1), weight, bias).reshape(len(x), -1, *[1] * (x.ndim - 2))
        values[node["name"]] = y
        if most is not None:
            most.append(y.abs().max().item())
    return y.flatten(1)
