"""Errors. Operations that cannot be done exactly are refused by name, on all ranks, before anything is exchanged."""
from ucudnn.spatial.errors import NotSupported, RankLost

__all__ = ["NotSupported", "RankLost"]
