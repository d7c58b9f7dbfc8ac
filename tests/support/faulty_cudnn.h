// The stand-in's cuDNN made wrong at one convolution call: right before it is enqueued, or once it
// has run. One fault a process at a time.
#pragma once

#include "cudnn/convolution_call.h"
#include "cudnn/functions.h"

namespace ucudnn::test {

struct Fault {
  int at = 0;  // which convolution call, 0 = the next
  void (*after)(const cudnn::ConvolutionCall& call) = nullptr;  // the call has run
  void (*before)(cudnn::ConvolutionCall& call) = nullptr;       // changes what is called
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  // an error to give instead of running
  void (*later)(const cudnn::ConvolutionCall& call) = nullptr;  // every call behind it
};

// Sets `fault` and begins to count calls.
cudnn::Functions FaultyStandIn(const Fault& fault);

// Changes the byte at a device address.
void WriteByte(void* device_address);

}  // namespace ucudnn::test
