// The real cuDNN, opened once per process and never closed. Thread-safe, also in a child that
// was forked while another thread was opening it.
#pragma once

#include <optional>

#include "base/shared_library.h"
#include "cudnn/real_path.h"

namespace ucudnn::cudnn {

struct RealLibrary {
  RealSearch search;
  std::optional<SharedLibrary> library;  // none: no real cuDNN 9 was found
};

// Opens the library at the first call, whose arguments (see FindReal) determine it; later calls
// return the same library.
const RealLibrary& OpenReal(const char* configured, const void* self);

}  // namespace ucudnn::cudnn
