"""Chooses how a convolution runs, by the backend that torch selects (torch._C._select_conv_backend). A pure function,
without torch."""
UCUDNN, EXCHANGE, LOCAL, REFUSE = "ucudnn", "exchange", "local", "refuse"

# cuDNN: torch's call stays unchanged, and ucudnn exchanges rows inside it.
_CUDNN = {"Cudnn", "CudnnTranspose"}
# Kernels of torch or other libraries: this package fetches rows first, then the kernel runs on them.
_OTHERS = {"CudaDepthwise2d", "CudaDepthwise3d", "Slow2d", "Slow3d", "SlowTranspose2d", "SlowTranspose3d", "SlowDilated2d",
           "SlowDilated3d", "Mkldnn", "MkldnnTranspose", "NnpackSpatial", "Winograd3x3Depthwise", "Xnnpack2d", "Overrideable"}
_EMPTY = {"Empty", "MkldnnEmpty"}


def route(backend, is_cuda=False, is_aligned=True):
    """Returns UCUDNN (the call stays plain), EXCHANGE (rows are fetched first, and a call that would reach cuDNN is
    declared the rank's own), LOCAL (nothing is computed) or REFUSE. REFUSE is for an unknown backend on a GPU, which
    may call cuDNN. On other devices no backend calls cuDNN, and torch does not name all of them (it returns "???" for
    transposed convolutions with oneDNN). `is_aligned`: on every cut axis, the call has equal padding before and behind,
    as ucudnn requires of calls of cuDNN."""
    if backend in _EMPTY:
        return LOCAL
    if backend in _CUDNN:
        return UCUDNN if is_cuda and is_aligned else EXCHANGE
    return EXCHANGE if backend in _OTHERS or not is_cuda else REFUSE
