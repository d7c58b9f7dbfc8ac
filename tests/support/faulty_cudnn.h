// The stand-in's cuDNN with a fault at one convolution call (forward, backward data or backward
// filter): changed arguments, an error instead of a run, or changed results. Later calls can be
// observed. A process has one fault at a time.
#pragma once

#include "cudnn/convolution_call.h"
#include "cudnn/functions.h"

namespace ucudnn::test {

struct Fault {
  int at = 0;  // number of the convolution call, 0 = the next
  void (*after)(const cudnn::ConvolutionCall& call) = nullptr;  // runs after the call's work
  void (*before)(cudnn::ConvolutionCall& call) = nullptr;       // may change the call
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  // an error to return instead of running
  void (*later)(const cudnn::ConvolutionCall& call) = nullptr;  // runs before every later call
};

// Returns functions with `fault`. Their count of convolution calls begins at 0.
cudnn::Functions FaultyStandIn(const Fault& fault);

// Changes the byte at a device address.
void WriteByte(void* device_address);

}  // namespace ucudnn::test
