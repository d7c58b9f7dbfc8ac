"""The exchange of labels between the ranks that load images and the ranks that need their labels."""
import torch


class Labels:
    """`rows`: {device: interval of images that it loads}. `wanted`: {device: interval of images whose labels it needs}.
    If a device needs a label and has not loaded it, the first device that has loaded it sends the label."""

    def __init__(self, rank, rows, wanted):
        self.rows, self.wanted = rows.get(rank), wanted.get(rank)
        self.receives = self._sources(rank, rows, wanted)
        self.sends = {}
        for device in wanted:
            for source, intervals in self._sources(device, rows, wanted).items():
                if source == rank and device != rank:
                    self.sends[device] = intervals

    def _sources(self, device, rows, wanted):
        """Returns {source device: intervals of images} for the labels that `device` needs."""
        if device not in wanted:
            return {}
        left, found = [wanted[device]], {}
        for source in [device, *sorted(set(rows) - {device})]:
            if source not in rows:
                continue
            low, high = rows[source]
            rest = []
            for begin, end in left:
                inner = (max(begin, low), min(end, high))
                if inner[0] >= inner[1]:
                    rest.append((begin, end))
                    continue
                found.setdefault(source, []).append(inner)
                rest += [piece for piece in ((begin, inner[0]), (inner[1], end)) if piece[0] < piece[1]]
            left = rest
        return found

    def elements(self, each):
        """Returns [sent, received]: this rank's numbers of elements, if the label of an image has `each` elements."""
        def count(found, own):
            return each * sum(end - begin for device, pieces in found.items() if device != own for begin, end in pieces)
        return [count(self.sends, None), count(self.receives, None)]

    def bring(self, transport, labels, rank, kind="labels"):
        """Exchanges labels. `labels` belong to the images of `rows`; if `rows` is None, only their type and shape are
        used. Returns the labels of the images of `wanted`, or None if `wanted` is None."""
        rest, device = labels.shape[1:], labels.device

        def packed(pieces):
            return torch.cat([labels[begin - self.rows[0]:end - self.rows[0]] for begin, end in pieces])
        receives = {source: ((sum(end - begin for begin, end in pieces), *rest), labels.dtype)
                    for source, pieces in self.receives.items() if source != rank}
        sends = {peer: packed(pieces) for peer, pieces in self.sends.items()}
        arrived = transport.post("labels", kind, sends, receives, device).wait() if sends or receives else {}
        if self.wanted is None:
            return None
        result = labels.new_empty((self.wanted[1] - self.wanted[0], *rest))
        for source, pieces in self.receives.items():
            values, at = packed(pieces) if source == rank else arrived[source], 0
            for begin, end in pieces:
                result[begin - self.wanted[0]:end - self.wanted[0]] = values[at:at + end - begin]
                at += end - begin
        return result
