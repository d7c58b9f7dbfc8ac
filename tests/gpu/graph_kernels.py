"""Asks the driver for the kernels in a CUDA graph. Kernels in child graphs are left out."""

import ctypes

KERNEL_NODE = 0  # the value of CU_GRAPH_NODE_TYPE_KERNEL


class KernelNode(ctypes.Structure):
    """Has the layout of CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared_bytes", ctypes.c_uint), ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p),
                ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p)]


def launches(graph):
    """Returns (grid, block) of each kernel in a cudaGraph_t, sorted."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def ask(function, *arguments):
        status = getattr(cuda, function)(*arguments)
        if status != 0:
            raise RuntimeError(f"{function} returns {status}")

    count = ctypes.c_size_t()
    ask("cuGraphGetNodes", ctypes.c_void_p(graph), None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    ask("cuGraphGetNodes", ctypes.c_void_p(graph), nodes, ctypes.byref(count))
    found = []
    for node in nodes:
        kind, told = ctypes.c_int(), KernelNode()
        ask("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value == KERNEL_NODE:
            ask("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(told))
            found.append(f"{'x'.join(map(str, told.grid))} {'x'.join(map(str, told.block))}")
    return sorted(found)
