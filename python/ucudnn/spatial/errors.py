"""Operations that cannot be done exactly raise NotSupported on all ranks, before anything is exchanged."""


class NotSupported(RuntimeError):
    """The message names the function or module, and the value that prevents it."""


class RankLost(RuntimeError):
    """An exchange of torch.distributed failed: a rank ended, or did not come within the time-out
    (UCUDNN_SPATIAL_TIMEOUT, or timeout_s of parallel.apply). The message says what was awaited, from which ranks, which
    rank did not come if known, and torch's reason. There is no result."""
