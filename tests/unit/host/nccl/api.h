// Includes NCCL's own header where it is installed, so that the tests check the stand-in's ABI, and
// the stand-in's header elsewhere.
#pragma once

#include <cuda_runtime_api.h>

#if __has_include(<nccl.h>)
#include <nccl.h>
#else
#include "shim/host/nccl/api.h"
#define NCCL_CONFIG_INITIALIZER                                                                 \
  {                                                                                             \
    sizeof(ncclConfig_t), kNcclConfigMagic, 22809, INT_MIN, INT_MIN, INT_MIN, INT_MIN, nullptr, \
        INT_MIN, INT_MIN, nullptr, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN         \
  }
#endif
