"""The types in which stripes are computed. 16-bit numbers are added in fp32, on a rank and between ranks, and rounded
once. Under autocast, operands are converted as torch converts them."""
import torch

_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def wide_type(dtype):
    return _WIDE.get(dtype, dtype)


def wide(x):
    return x.to(wide_type(x.dtype))


def lowered(*operands):
    """Converts the operands of a function that autocast runs in its lower precision. Autocast itself might not convert
    them, because the rules call other functions than the program did."""
    device = operands[0].device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return operands
    lower = torch.get_autocast_dtype(device)
    return [x.to(lower) if x is not None and x.dtype in (torch.float32, *_WIDE) else x for x in operands]
