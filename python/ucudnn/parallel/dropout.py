"""Masks of random numbers that do not depend on the partition: each number is a function of the seed, the step, the
node and the element's place in the whole tensor."""
import torch

# Constants of splitmix64, as signed numbers.
_A, _B, _C = -7046029254386353131, -4658895280553007687, -7723592293110705685


def mixed(x):
    """Applies the output function of splitmix64 to each element. The bit masks make the right shifts logical."""
    x = (x ^ ((x >> 30) & (1 << 34) - 1)) * _B
    x = (x ^ ((x >> 27) & (1 << 37) - 1)) * _C
    return x ^ ((x >> 31) & (1 << 33) - 1)


def seed_of(seed, number):
    """Returns the seed of model number `number`, if several models are made from one `seed`. Model 0 has `seed`
    itself."""
    return seed if number == 0 else mixed(torch.tensor(_signed(seed)) + torch.tensor(number) * _A).item()


def _signed(number):
    return ((number + 2**63) % 2**64) - 2**63


def kept(seed, step, node, box, whole, axes, rate, per, device, images=None):
    """Returns the dropout mask of `box`, a part of a tensor with the box `whole`: true (kept) with probability 1 -
    rate. `per`: the unit that is kept or dropped: "element", "channel" or "image". `images`: None if `box` has numbers
    of images in the whole batch; otherwise `box` has indices into the list `images`, which has these numbers."""
    key = torch.zeros((), dtype=torch.int64, device=device)
    for number in (seed, step, node):
        key = mixed(key + torch.tensor(_signed(number), device=device) + _A)
    counted = {"element": len(axes), "channel": 2, "image": 1}[per]
    place = torch.zeros((), dtype=torch.int64, device=device)
    for dim, axis in enumerate(axes):
        if dim >= counted:
            place = place.unsqueeze(-1)
            continue
        begin, end = box[axis]
        own = torch.arange(begin, end, device=device)
        if axis == 0 and images is not None:
            own = torch.tensor(images, device=device)[own]
        place = place.unsqueeze(-1) * (whole[axis][1] - whole[axis][0]) + own
    numbers = (mixed(mixed(place * _A + key)) >> 11) & ((1 << 53) - 1)
    return numbers >= int(rate * (1 << 53))
