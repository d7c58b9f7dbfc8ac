"""Operations that cannot be done exactly raise NotSupported on all ranks, before anything is exchanged."""
import re

# Clauses of a refusal that say what to do instead begin with one of these words.
_STEP = re.compile("[:;,.] (?:and |or )?(?:call|change|compute|convert|count|draw|gather|install|join|keep|leave|make|multiply|name|pass|"
                   "register|return|roll|run|save|seed|set|shard|start|sum|take|the next size|trace|unless|use|write) ", re.IGNORECASE)


class NotSupported(RuntimeError):
    """The message names the function or module, the value that prevents it, and what to do instead."""


def names_step(text):
    """Returns whether the text of a refusal says what to do instead."""
    return bool(_STEP.search(text))


class RankLost(RuntimeError):
    """An exchange of torch.distributed failed: a rank ended, or did not come within the time-out
    (UCUDNN_SPATIAL_TIMEOUT, or timeout_s of parallel.apply). The message says what was awaited, from which ranks, which
    rank did not come if known, and torch's reason. There is no result."""
