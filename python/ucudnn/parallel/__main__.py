"""`python3 -m ucudnn.parallel describe MODULE:FUNCTION --input CxHxW -o net.json`: writes a model as the planner reads
it."""
import argparse
import importlib
import json
import pathlib
import sys


def build(text, arguments):
    """Returns the result of MODULE:FUNCTION(**arguments), built without memory for its weights if that is possible."""
    import torch
    module, colon, function = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r}: expected MODULE:FUNCTION, as torchvision.models:alexnet")
    make = importlib.import_module(module)
    for name in function.split("."):
        make = getattr(make, name)
    try:
        with torch.device("meta"):
            return make(**arguments)
    except NotImplementedError:  # the function computes with its weights' values
        return make(**arguments)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m ucudnn.parallel")
    command = parser.add_subparsers(required=True).add_parser("describe", help="writes a model as a ucudnn-net file")
    command.add_argument("model", metavar="MODULE:FUNCTION")
    command.add_argument("--args", type=json.loads, default={}, metavar="JSON", help="keyword arguments of the function")
    command.add_argument("--input", required=True, metavar="CxHxW", help="the shape of one image")
    command.add_argument("--loss", action="append", choices=["cross_entropy", "logistic"],
                         help="of the output, or of each, as a node of the network")
    command.add_argument("-o", "--output", type=pathlib.Path, metavar="FILE", help="(standard output)")
    words = parser.parse_args()
    from . import NotSupported, describe
    try:
        shape = [int(extent) for extent in words.input.split("x")]
        text = describe(build(words.model, words.args), shape, words.model.rpartition(":")[2], words.loss).text()
    except (NotSupported, ValueError, AttributeError, ImportError) as error:
        sys.exit(f"ucudnn.parallel: {words.model}: {error}")
    if words.output:
        words.output.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
