"""Shortens sequences of cuDNN calls. A block of calls that a loop repeats is written once, with the number of repeats."""

LONGEST_LOOP = 200  # the largest number of calls in a block


def compress(calls):
    """Returns the names `calls` as a list of (count, [name, ...]). At each place, the repeated block that covers the most
    calls becomes one entry. If several blocks cover equally many calls, the shortest block is taken. If no repeat begins with
    a call, the call is an entry of its own."""
    entries, at = [], 0
    while at < len(calls):
        block, count = 1, 1
        for length in range(1, min(LONGEST_LOOP, (len(calls) - at) // 2) + 1):
            if calls[at + length] != calls[at]:
                continue
            repeats = 1
            while calls[at + repeats * length:at + (repeats + 1) * length] == calls[at:at + length]:
                repeats += 1
            if repeats > 1 and repeats * length > block * count:
                block, count = length, repeats
        entries.append((count, calls[at:at + block]))
        at += block * count
    return entries


def text(calls):
    """Returns one line for each entry of compress(): `3 x cudnnA, cudnnB`, or only names where nothing repeats."""
    lines = []
    for count, block in compress(calls):
        lines.append((f"{count} x " if count > 1 else "") + ", ".join(block))
    return "\n".join(lines) + "\n"


def expand(lines):
    """Returns the calls that text() wrote as `lines`."""
    calls = []
    for line in lines.splitlines():
        count, _, rest = line.rpartition(" x ")
        calls += int(count or 1) * rest.split(", ")
    return calls
