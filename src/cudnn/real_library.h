// The real cuDNN, which stays open as long as the process lives. It is searched for at the first
// call; threads that call at the same time all search, and keep one result. Thread-safe, also in a
// child that was forked while another thread opened the library.
#pragma once

#include <optional>

#include "base/shared_library.h"
#include "cudnn/real_path.h"

namespace ucudnn::cudnn {

struct RealLibrary {
  RealSearch search;
  std::optional<SharedLibrary> library;  // none: no real cuDNN 9 was found
};

// Opens the library at the first call; FindReal describes the arguments. Later calls return the
// same library, whatever their arguments are.
const RealLibrary& OpenReal(const char* configured, const void* self);

}  // namespace ucudnn::cudnn
