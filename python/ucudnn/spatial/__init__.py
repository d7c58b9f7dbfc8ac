"""PyTorch models whose images are cut into stripes, one on each rank of torch.distributed: shard, gather, convert
(docs/spatial.md, "PyTorch models"). Needs torch, which is imported with the first of these names that uses it and not
before."""
from ucudnn.lazily import getter

_HOMES = {
    "NotSupported": "errors", "RankLost": "errors", "Stripe": "stripe", "convert": "conversion", "from_local": "reduce",
    "gather": "reduce", "init": "cells", "ranks": "cells", "shard": "reduce", "to_local": "stripe", "verdict": "vouched",
    "whole_shape": "reduce",
}
__all__ = sorted(_HOMES)

__getattr__ = getter(__name__, _HOMES)
