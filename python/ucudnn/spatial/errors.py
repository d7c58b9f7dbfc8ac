"""What cannot be done exactly is refused, on all ranks alike, before anything is exchanged."""


class NotSupported(RuntimeError):
    """The message says which function or module, and which value prevents it."""


class RankLost(RuntimeError):
    """torch.distributed failed in an exchange, because a rank ended, or lives and did not come within UCUDNN_SPATIAL_TIMEOUT: the
    message has what was waited for, with whom, who did not come, and the reason given. There is no result."""
