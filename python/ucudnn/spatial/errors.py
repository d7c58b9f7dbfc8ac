"""Errors. Operations that cannot be done exactly are refused on all ranks, before anything is exchanged."""


class NotSupported(RuntimeError):
    """The message says which function or module, and which value prevents it."""


class RankLost(RuntimeError):
    """torch.distributed failed in an exchange, because a rank ended, or lives but did not come within the time-out
    (UCUDNN_SPATIAL_TIMEOUT, or timeout_s of parallel.apply). The message says what was awaited, with which ranks, which
    rank did not come if that is known, and torch's reason. There is no result."""
