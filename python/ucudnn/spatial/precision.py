"""In which types stripes are computed: what is added of 16-bit numbers, on a rank or between ranks, is added in fp32 and
rounded once; operands under autocast are what torch makes of them."""
import torch

_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def wide_type(dtype):
    return _WIDE.get(dtype, dtype)


def wide(x):
    return x.to(wide_type(x.dtype))


def lowered(*operands):
    """Operands of a function that torch's autocast runs in its lower precision: for those that are computed here by other
    functions than the program called, which autocast may not know."""
    device = operands[0].device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return operands
    lower = torch.get_autocast_dtype(device)
    return [x.to(lower) if x is not None and x.dtype in (torch.float32, *_WIDE) else x for x in operands]
