// The function tables of the stand-in's cuDNN (shim/host/cudnn), which a test program links instead
// of the real library.
#pragma once

#include "cudnn/functions.h"

namespace ucudnn::test {

inline cudnn::Functions StandIn() {
  cudnn::Functions functions;
#define STAND_IN_MEMBER(name) functions.name = &::name;
  UCUDNN_CUDNN_FUNCTIONS(STAND_IN_MEMBER)
  UCUDNN_CUDNN_OP_TENSOR_FUNCTIONS(STAND_IN_MEMBER)
  UCUDNN_CUDNN_SPLIT_FUNCTIONS(STAND_IN_MEMBER)
  UCUDNN_CUDNN_POOLING_FUNCTIONS(STAND_IN_MEMBER)
  UCUDNN_CUDNN_ACTIVATION_FUNCTIONS(STAND_IN_MEMBER)
#undef STAND_IN_MEMBER
  functions.cudnnBackendInitialize = &::cudnnBackendInitialize;
  return functions;
}

// Returns the stand-in's cuDNN with its graph API.
inline cudnn::Functions StandInGraphs() {
  cudnn::Functions functions = StandIn();
#define STAND_IN_MEMBER(name) functions.name = &::name;
  UCUDNN_CUDNN_GRAPH_FUNCTIONS(STAND_IN_MEMBER)
#undef STAND_IN_MEMBER
  return functions;
}

}  // namespace ucudnn::test
