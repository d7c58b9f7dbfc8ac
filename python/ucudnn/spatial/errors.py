"""What cannot be done exactly is refused, on all ranks alike, before anything is exchanged."""


class NotSupported(RuntimeError):
    """The message says which function or module, and which value prevents it."""


class RankLost(RuntimeError):
    """torch.distributed failed in an exchange, because a rank ended, say: the message has what was waited for, with whom, and
    the reason given. There is no result."""
