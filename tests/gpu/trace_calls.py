"""Shortens sequences of cuDNN calls: what a loop repeats is written once, with how often."""

LONGEST_LOOP = 200  # calls


def compress(calls):
    """Returns `calls` (names, in order) as entries [name, ...] or [count, [name, ...]]: every run of equal blocks, the shortest
    block first, becomes one entry."""
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
    """Returns one line an entry: `3 x cudnnA, cudnnB`, or names alone where nothing repeats."""
    lines = []
    for count, block in compress(calls):
        lines.append((f"{count} x " if count > 1 else "") + ", ".join(block))
    return "\n".join(lines) + "\n"


def expand(lines):
    """Inverts text()."""
    calls = []
    for line in lines.splitlines():
        count, _, rest = line.rpartition(" x ")
        calls += int(count or 1) * rest.split(", ")
    return calls
