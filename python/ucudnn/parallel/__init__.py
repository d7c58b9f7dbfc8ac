"""PyTorch models that run by a plan of `ucudnn plan --schedule`: each rank of torch.distributed computes its boxes of
every layer (docs/parallel.md). Importing this package does not import torch; the first use of a name that needs torch
does."""
from ucudnn.lazily import getter

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
    "pins": "pinning",
    "report": "reporting",
    "save": "state",
    "state_dict": "state",
    "whole_state_dict": "state",
}
__all__ = sorted(_HOMES)

__getattr__ = getter(__name__, _HOMES)
