#include "libraries.h"

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

#include "base/shared_library.h"
#include "shim/host/hostgpu.h"

namespace ucudnn::test {

const cudnn::Functions& DropIn() {
  static const cudnn::Functions functions = [] {
    cudnn::Functions linked;
#define LINKED(name) linked.name = &::name;
    UCUDNN_CUDNN_FUNCTIONS(LINKED)
    UCUDNN_CUDNN_GRAPH_FUNCTIONS(LINKED)
#undef LINKED
    return linked;
  }();
  return functions;
}

const cudnn::Functions& Undivided() {
  static const cudnn::Functions functions = [] {
    cudnn::Functions loaded;
    const Result<SharedLibrary> library = SharedLibrary::Open(STANDIN_CUDNN);
    const Status status =
        library.ok()
            ? cudnn::LoadFunctions([&](const char* name) { return library->Symbol(name); }, loaded)
            : library.status();
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.message().c_str());
      std::abort();
    }
    return loaded;
  }();
  return functions;
}

planning::Platform CurrentPlatform() {
  planning::Platform platform;
  char name[256] = {};
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetName(name, sizeof name - 1, 0) != CUDA_SUCCESS ||
      cuDriverGetVersion(&platform.driver) != CUDA_SUCCESS) {
    std::abort();
  }
  platform.device = name;
  platform.cudnn = static_cast<int>(Undivided().cudnnGetVersion());
  return platform;
}

long ConvolutionsRun() {
  const long count = hostgpuFaultCount("convolution");
  hostgpuInjectFault("convolution", 0);
  return count;
}

}  // namespace ucudnn::test
