"""NotSupported: an operation cannot be done exactly. All ranks raise it, with the operation's name, before they
exchange anything for the operation. RankLost: an exchange failed."""
from ucudnn.spatial.errors import NotSupported, RankLost

__all__ = ["NotSupported", "RankLost"]
