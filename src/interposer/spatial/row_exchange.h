// ucudnnSpatialExchange: copies a stripe together with the rows beside it, which are received from
// other ranks.
#pragma once

#include <cudnn.h>

#include <string>

#include "interposer/spatial/splitter.h"

namespace ucudnn::interposer {

struct RowExchangeCall {
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x_descriptor = nullptr;
  const void* x = nullptr;
  cudnnTensorDescriptor_t y_descriptor = nullptr;
  void* y = nullptr;
};

// Runs the exchange. If calls are not split, x is the whole image. If an argument is wrong, returns
// BAD_PARAM and sets `why` to the reason.
cudnnStatus_t RunRowExchange(const SplitContext& context, const RowExchangeCall& call,
                             std::string& why);

}  // namespace ucudnn::interposer
