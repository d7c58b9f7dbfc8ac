// The genuine cuDNN, opened once per process and never closed. Thread-safe, also in a child that
// was forked while another thread was opening it.
#pragma once

#include <optional>

#include "base/shared_library.h"
#include "cudnn/genuine_path.h"

namespace ucudnn::cudnn {

struct GenuineLibrary {
  GenuineSearch search;
  std::optional<SharedLibrary> library;  // none: no genuine cuDNN 9 was found
};

// Opens the library at the first call, whose arguments (FindGenuine's) decide; later calls return
// the same.
const GenuineLibrary& OpenGenuine(const char* configured, const void* self);

}  // namespace ucudnn::cudnn
