#!/usr/bin/env python3
"""`digits_net.py N` prints a ucudnn-net file: a small residual network with N layers that classifies digits of 8 x 8 pixels."""

import json
import sys


def digits_net(layers):
    """Returns the network: a convolution to 4 maps of 4 x 4, then `layers` steps u + h relu(K u + b) with 3 x 3 convolutions K,
    then a fully connected layer."""
    nodes = [{"name": "image", "op": "input", "channels": 1, "extents": [8, 8]}]

    def add(name, op, inputs=None, **members):
        nodes.append({"name": name, "op": op, "inputs": inputs or [nodes[-1]["name"]]} | members)
        return name

    add("open", "convolution", filters=4, window=[3, 3], pad=[1, 1], stride=[2, 2])
    last = add("open.relu", "activation", kind="relu")
    for layer in range(1, layers + 1):
        add(f"step{layer}", "convolution", [last], filters=4, window=[3, 3], pad=[1, 1])
        add(f"step{layer}.relu", "activation", kind="relu")
        last = add(f"step{layer}.add", "add", [f"step{layer}.relu", last])
    add("close", "fully_connected", outputs=10)
    add("softmax", "softmax")
    return {"format": "ucudnn-net", "version": 1, "name": f"digits{layers}", "nodes": nodes}


if __name__ == "__main__":
    json.dump(digits_net(int(sys.argv[1])), sys.stdout)
