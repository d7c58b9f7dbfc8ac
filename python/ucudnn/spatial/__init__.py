"""PyTorch models whose images are cut into stripes, one on each rank of torch.distributed: shard, gather, convert
(docs/spatial.md, "PyTorch models"). Importing this package does not import torch; the first use of a name that needs
torch does."""
from ucudnn.lazily import getter

_HOMES = {
    "NotSupported": "errors", "RankLost": "errors", "Stripe": "stripe", "convert": "conversion", "from_local": "reduce",
    "gather": "reduce", "init": "cells", "ranks": "cells", "shard": "reduce", "to_local": "stripe", "verdict": "vouched",
    "whole_shape": "reduce",
}
__all__ = sorted(_HOMES)

__getattr__ = getter(__name__, _HOMES)
