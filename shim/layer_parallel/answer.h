// The result of a function of the C API: a status, and a message for
// ucudnnLayerParallelGetLastError.
#pragma once

#include <string>

#include "base/status.h"
#include "ucudnn/layer_parallel.h"

namespace ucudnn::layer_parallel {

struct [[nodiscard]] Answer {
  ucudnnLayerParallelStatus_t status = UCUDNN_LAYER_PARALLEL_SUCCESS;
  std::string message;    // empty on success
  int callback_code = 0;  // for UCUDNN_LAYER_PARALLEL_CALLBACK_FAILED: the callback's return value

  bool ok() const { return status == UCUDNN_LAYER_PARALLEL_SUCCESS; }
};

inline Answer BadParameter(std::string message) {
  return {UCUDNN_LAYER_PARALLEL_BAD_PARAM, std::move(message)};
}
inline Answer NotSupported(std::string message) {
  return {UCUDNN_LAYER_PARALLEL_NOT_SUPPORTED, std::move(message)};
}

}  // namespace ucudnn::layer_parallel
