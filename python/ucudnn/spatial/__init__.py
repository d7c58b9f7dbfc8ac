"""PyTorch models whose images are cut into stripes, one on each rank of torch.distributed: shard, gather, convert
(docs/spatial.md, "PyTorch models"). Needs torch, which is imported with the first of these names and not before."""
import importlib

_HOMES = {
    "NotSupported": "errors", "RankLost": "errors", "Stripe": "stripe", "convert": "conversion", "gather": "reduce",
    "init": "cells", "ranks": "cells", "shard": "reduce", "verdict": "vouched",
}
__all__ = sorted(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
