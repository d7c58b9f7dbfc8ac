"""PyTorch models whose images are cut into stripes, one on each rank of torch.distributed: shard, gather, convert
(docs/spatial.md, "PyTorch models"). Needs torch, which is imported with the first of these names and not before."""
import importlib
import sys

_HOMES = {
    "NotSupported": "errors", "RankLost": "errors", "Stripe": "stripe", "convert": "conversion", "from_local": "reduce",
    "gather": "reduce", "init": "cells", "ranks": "cells", "shard": "reduce", "to_local": "stripe", "verdict": "vouched",
    "whole_shape": "reduce",
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
