"""What cannot be done exactly is refused, on all ranks alike, before anything is exchanged."""


class NotSupported(RuntimeError):
    """The message says which function or module, and which value prevents it."""
