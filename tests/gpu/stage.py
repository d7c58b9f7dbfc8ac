"""Runs one stage of tools/gpu-check in a process of its own, as `stage.py CONTEXT.json`. sitting.Run writes CONTEXT.json. The
stage's outcome, reason and figures are written as JSON to the path that CONTEXT.json names."""

import importlib
import json
import os
import pathlib
import sys
import types


def attempt(context):
    for folder in (context.get("modules"), str(pathlib.Path(__file__).resolve().parent)):
        if folder:
            sys.path.insert(0, folder)
    import figures
    import machine
    name, *arguments = context["work"]
    module, function = name.split(".")
    sitting = types.SimpleNamespace(**{key: pathlib.Path(context[key]) for key in ("output", "scratch", "store")},
                                    slug=context["slug"])
    told = lambda outcome, failure: {"outcome": outcome, "reason": str(failure.args[0])} | (
        {"figures": failure.args[1]} if len(failure.args) > 1 else {})
    try:
        return {"outcome": "passed", "figures": getattr(importlib.import_module(module), function)(
            sitting, context["seconds"], *arguments)}
    except figures.Skipped as reason:
        return {"outcome": "skipped", "reason": str(reason)}
    except machine.TimedOut as failure:
        return told("cut", failure)
    except machine.Failed as failure:
        return told("failed", failure)
    except Exception as error:  # a fault of a stage's own code must not look like a fault of ucudnn
        return {"outcome": "failed", "reason": f"{type(error).__name__}: {error} (a fault of tests/gpu/{module}.py)"}


def main():
    sys.dont_write_bytecode = True
    context = json.loads(pathlib.Path(sys.argv[1]).read_text())
    os.environ.update(context["environment"])
    result = pathlib.Path(context["result"])
    temporary = result.with_suffix(".part")
    temporary.write_text(json.dumps(attempt(context)))
    temporary.replace(result)


if __name__ == "__main__":
    main()
