"""The route of a convolution for the backend that torch chooses (torch._C._select_conv_backend). A pure function,
without torch."""
UCUDNN, EXCHANGE, LOCAL, REFUSE = "ucudnn", "exchange", "local", "refuse"

# Calls of cuDNN stay as they are: ucudnn exchanges inside them.
_CUDNN = {"Cudnn", "CudnnTranspose"}
# Kernels of torch itself, or of other libraries: this package fetches rows first, and the kernels run on them.
_OTHERS = {"CudaDepthwise2d", "CudaDepthwise3d", "Slow2d", "Slow3d", "SlowTranspose2d", "SlowTranspose3d", "SlowDilated2d",
           "SlowDilated3d", "Mkldnn", "MkldnnTranspose", "NnpackSpatial", "Winograd3x3Depthwise", "Xnnpack2d", "Overrideable"}
_EMPTY = {"Empty", "MkldnnEmpty"}


def route(backend, is_cuda=False, is_aligned=True):
    """Returns UCUDNN (the call stays plain), EXCHANGE (rows are fetched first, and a call that would reach cuDNN is
    declared the rank's own), LOCAL (nothing is computed) or REFUSE, for an unknown backend on a GPU, which may call
    cuDNN. On other devices none does; torch does not even name all of them (for transposed ones with oneDNN it returns
    "???"). `is_aligned`: the same padding stands before and behind every cut axis in the call itself, as ucudnn
    requires of a call of cuDNN."""
    if backend in _EMPTY:
        return LOCAL
    if backend in _CUDNN:
        return UCUDNN if is_cuda and is_aligned else EXCHANGE
    return EXCHANGE if backend in _OTHERS or not is_cuda else REFUSE
