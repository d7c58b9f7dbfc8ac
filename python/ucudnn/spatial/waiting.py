"""How long a rank waits for others, and what an error says about it. Without torch.

A rank that waits long reports this in torch.distributed's store, with the ranks that it waits for. A rank that has
reported nothing is late. So an error can name the rank that did not come, even if this rank waits for a rank that waits
for that one, and even if torch.distributed only knows that a connection broke."""
import atexit
import contextlib
import json
import os
import socket
import sys
import threading
import time

LONGEST = 1e6  # seconds, as in libucudnn
STORE_SECONDS = 5  # the store does not answer while its process is stopped


def patience(text=None):
    """Returns the time-out in seconds for a rank that lives and does not come (UCUDNN_SPATIAL_TIMEOUT)."""
    if text is None:
        text = os.environ.get("UCUDNN_SPATIAL_TIMEOUT", "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"UCUDNN_SPATIAL_TIMEOUT='{text}': accepted are seconds above 0, up to a million")
    return seconds


def late(rank, waits):
    """Returns the ranks that have not come, among those that `rank` waits for, directly or through other waiting ranks.
    `waits`: {waiting rank: ranks that it waits for}."""
    found, seen, todo = [], {rank}, list(waits[rank])
    while todo:
        other = todo.pop()
        if other not in seen:
            seen.add(other)
            found += [] if other in waits else [other]
            todo += waits.get(other, ())
    return sorted(found)


def named(ranks):
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks}"


def _started(process):
    """Returns the time at which a process of this machine started, in clock ticks since boot; None if it has ended."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{process}/stat") as file:
            state, *fields = file.read().rpartition(")")[2].split()
        return None if state in "ZX" else int(fields[18])
    return None


def identity():
    """Returns a description of this process, for `has_ended` in other processes."""
    return [socket.gethostname(), os.stat("/proc/self/ns/pid").st_ino, os.getpid(), _started(os.getpid())]


def has_ended(process):
    """Returns whether the process with this `identity` has ended; False if this process cannot see it."""
    own = identity()
    return process[:2] == own[:2] and _started(process[2]) != process[3]


class _Wait:
    def __init__(self, what, members):
        self.what, self.members, self.began = what, members, time.monotonic()

    def seconds(self):
        return time.monotonic() - self.began


class Waiting:
    """The waits of one rank. `store` is torch.distributed's store. Its keys there begin with `prefix`, which is the
    same on all ranks and new for each grid or transport. A thread reports long waits at intervals, so a short wait
    costs only two assignments. `module`: name for messages."""

    def __init__(self, rank, count, store, prefix, seconds, module="ucudnn.spatial"):
        self.rank, self.seconds, self._module = rank, seconds, module
        self._count, self._store, self._prefix = count, store, prefix
        self._told_after, self._said_after = min(60.0, seconds) / 10, min(60.0, seconds / 2)
        self._current = self._thread = None
        self._closed = threading.Event()
        self._processes = {}  # identities of the ranks' processes that are known so far
        store.set(f"{prefix}/process/{rank}", json.dumps(identity()))

    def close(self):
        """Ends the thread. Must be called before the interpreter ends, because a thread that returns from the store
        later would abort the process."""
        self._closed.set()
        atexit.unregister(self.close)
        if self._thread:
            self._thread.join(STORE_SECONDS)

    def meet(self):
        """Returns when all ranks have made their Waiting. Raises RuntimeError after `seconds`. Asks the store at
        intervals, because a wait in the store would keep this process's thread from reporting there."""
        began, keys = time.monotonic(), [f"{self._prefix}/process/{rank}" for rank in range(self._count)]
        while not self._store.check(keys):
            waited = time.monotonic() - began
            if waited > self.seconds:
                raise RuntimeError("not all ranks have come")
            time.sleep(min(0.001 + waited / 10, 0.1))
        self._meet()

    @contextlib.contextmanager
    def awaiting(self, what, members, lost, limit):
        """A context for an exchange of torch.distributed. Turns the exchange's error into lost(text). The text says
        what was awaited, from which ranks, and how many seconds the time-out is. `limit` is the name of the
        time-out."""
        members = sorted(set(members) - {self.rank})
        wait = self.begin(what, members)
        try:
            yield
        except RuntimeError as error:
            why = self.why(wait) or "one ended, failed or came too late"
            raise lost(f"rank {self.rank} waited {wait.seconds():.1f} s for {what} with {named(members or [self.rank])}: "
                       f"{why} ({limit} is {self.seconds:g} s; {error})") from error
        self.end()

    def begin(self, what, members):
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name=self._module, daemon=True)
            self._thread.start()
            atexit.register(self.close)
        self._current = _Wait(what, members)
        return self._current

    def end(self):
        """Ends a wait that succeeded. A failed wait stays in the store, for ranks that come later."""
        self._current = None

    def why(self, wait):
        """Returns a text about the ranks that have not come, for a wait that failed. Empty if all ranks failed
        immediately."""
        told = {self.rank: (wait.seconds(), wait.members, wait.what)} | self._others(wait)
        # A rank in `told` was waiting, too. If such a rank has ended, another rank ended before it, so it is not named.
        if ended := sorted(rank for rank, process in list(self._processes.items()) if rank not in told and has_ended(process)):
            return f"{named(ended)} ended"
        if max(seconds for seconds, _, _ in told.values()) < self._told_after:
            return ""
        if missing := late(self.rank, {rank: members for rank, (_, members, _) in told.items()}):
            return f"{named(missing)} did not come"
        others = named(sorted(set(told) - {self.rank}))
        is_same = len({(tuple(members), what) for _, members, what in told.values()}) == 1  # all ranks wait in one call
        if wait.seconds() < self.seconds / 2 or is_same:
            return f"rank {self.rank} came too late, {others} had waited for it"
        calls = "; ".join(f"rank {rank} for {what}" for rank, (_, _, what) in sorted(told.items()))
        return f"{others} waited for something else meanwhile ({calls}): ranks do not make the same calls in the same order"

    def _key(self, rank):
        return f"{self._prefix}/waits/{rank}"

    def _tell(self, wait):
        self._store.set(self._key(self.rank), json.dumps([wait.seconds(), wait.members, wait.what]) if wait else "")

    def _read(self):
        found = {}
        for rank in range(self._count):
            if rank != self.rank and self._store.check([self._key(rank)]):
                if text := self._store.get(self._key(rank)):
                    found[rank] = tuple(json.loads(text))
        return found

    def _meet(self):
        for rank in range(self._count):
            key = f"{self._prefix}/process/{rank}"
            if rank not in (self.rank, *self._processes) and self._store.check([key]):
                self._processes[rank] = json.loads(self._store.get(key))

    def _others(self, wait):
        """Returns {rank: (seconds, ranks, what)} of ranks that wait or have given up: for how long, for which ranks,
        and for what. Also reports this rank's own wait."""
        found = {}

        def ask():
            with contextlib.suppress(RuntimeError):  # the process with the store has ended
                self._meet()
                self._tell(wait)
                time.sleep(min(0.2, self._told_after))  # lets ranks that give up at the same time read each other's report
                found.update(self._read())
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(STORE_SECONDS)
        return dict(found)

    def _watch(self):
        told = said = None
        while not self._closed.wait(min(1.0, self._told_after / 2)):
            wait = self._current
            with contextlib.suppress(RuntimeError):  # the process with the store has ended; waiting ranks notice it themselves
                self._meet()
                if told and wait is not told:
                    self._tell(None)
                    told = None
                if wait and not told and wait.seconds() >= self._told_after:
                    self._tell(wait)
                    told = wait
                if wait and said is not wait and wait.seconds() >= self._said_after:
                    said = wait
                    missing = late(self.rank, {rank: members for rank, (_, members, _) in self._read().items()} |
                                   {self.rank: wait.members})
                    print(f"{self._module}: rank {self.rank} has waited {wait.seconds():.1f} s for {wait.what} with "
                          f"{named(wait.members)}" + (f": {named(missing)} did not come yet" if missing else ""),
                          file=sys.stderr, flush=True)
