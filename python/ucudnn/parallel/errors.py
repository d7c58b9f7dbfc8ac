"""Errors. NotSupported: an operation cannot be done exactly; all ranks refuse it by name before anything is exchanged
for it. RankLost: an exchange failed."""
from ucudnn.spatial.errors import NotSupported, RankLost

__all__ = ["NotSupported", "RankLost"]
