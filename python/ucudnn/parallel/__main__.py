"""`python3 -m ucudnn.parallel describe MODULE:FUNCTION --input CxHxW -o net.json`: writes a model as a ucudnn-net file,
which the planner reads. `python3 -m ucudnn.parallel pins PLAN JSON`: prints options of the planner that divide a
model's nodes as another network's plan divides its layers."""
import argparse
import importlib
import json
import pathlib
import shlex
import sys

from .errors import NotSupported


def build(text, arguments):
    """Returns the result of MODULE:FUNCTION(**arguments). Builds it on torch's meta device, without memory for weights,
    if the function allows that."""
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
    except RuntimeError:  # the function computes with values of its weights, which meta tensors do not have
        return make(**arguments)


def shape_in(text):
    extents = text.split("x")
    if len(extents) not in (1, 3, 4) or not all(extent.isascii() and extent.isdigit() and int(extent) for extent in extents):
        raise argparse.ArgumentTypeError(f"{text!r}; expected channels and extents, as 3x224x224, or a number of features")
    return [int(extent) for extent in extents]


def object_in(text):
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}; expected JSON, as '{{\"name\": 10}}'") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r}; expected a JSON object, as '{{\"num_classes\": 10}}'")
    return found


def described(words):
    from . import describe
    return describe(build(words.model, words.args), words.input, words.model.rpartition(":")[2], words.loss).text()


def pinned(words):
    from . import pins
    return " ".join(map(shlex.quote, pins(words.plan, words.names))) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="python3 -m ucudnn.parallel")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("describe", help="writes a model as a ucudnn-net file")
    command.add_argument("model", metavar="MODULE:FUNCTION", help="what makes the model, as torchvision.models:resnet18")
    command.add_argument("--args", type=object_in, default={}, metavar="JSON", help="keyword arguments of the function")
    command.add_argument("--input", required=True, type=shape_in, metavar="CxHxW", help="the shape of one image")
    command.add_argument("--loss", action="append", choices=["cross_entropy", "logistic"],
                         help="of the output, or of each, as a node of the network")
    command.set_defaults(text_of=described)
    command = commands.add_parser("pins", help="prints --pin options that give a model the degrees of another network's plan")
    command.add_argument("plan", metavar="PLAN", help="a file of `ucudnn plan --schedule`, for example of a built-in network")
    command.add_argument("names", type=object_in, metavar="JSON", help="nodes of the model by layers of the plan: "
                         '\'{"conv1": "features.0"}\'')
    command.set_defaults(text_of=pinned)
    for command in commands.choices.values():
        command.add_argument("-o", "--output", type=pathlib.Path, metavar="FILE", help="(standard output)")
    words = parser.parse_args()
    try:
        text = words.text_of(words)
        if words.output:
            words.output.write_text(text)
        else:
            sys.stdout.write(text)
    except (NotSupported, ValueError, LookupError, AttributeError, ImportError, TypeError, ArithmeticError, RuntimeError,
            OSError) as error:
        subject = f"{words.model}: " if "model" in words else ""
        sys.exit(f"ucudnn.parallel: {subject}{(str(error) or type(error).__name__).strip().splitlines()[0]}")


if __name__ == "__main__":
    main()
