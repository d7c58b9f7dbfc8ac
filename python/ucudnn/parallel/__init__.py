"""PyTorch models that run by a plan of `ucudnn plan --schedule`: each rank of torch.distributed computes its boxes of every
layer (docs/parallel.md). Needs torch, which is imported with the first of these names and not before."""
import importlib
import sys

_HOMES = {
    "NotSupported": "errors",
    "RankLost": "errors",
    "ScheduleError": "schedule",
    "Sum": "losses",
    "apply": "model",
    "batch_sampler": "sampler",
    "count": "counting",
    "describe": "tracing",
    "load": "state",
    "load_state_dict": "state",
    "module": "building",
    "report": "report",
    "save": "state",
    "state_dict": "state",
    "whole_state_dict": "state",
}
__all__ = sorted(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise ImportError(f"{__name__}.{name} needs torch, and this Python ({sys.executable}) has none that it finds: "
                          "pip install torch") from error
    globals()[name] = value
    return value
