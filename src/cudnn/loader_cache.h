// Finds libraries in the content of /etc/ld.so.cache, which the loader searches after run paths and
// LD_LIBRARY_PATH. Pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::cudnn {

// Returns the paths of the x86-64 libraries called `soname`, in the cache's order. `bytes` is the
// content of the file. It must have the format of glibc 2.2 and newer, alone or after the older
// format; otherwise the result is empty. Nothing in the file is trusted. Source: glibc,
// sysdeps/generic/dl-cache.h.
std::vector<std::string> FindInLoaderCache(std::string_view bytes, std::string_view soname);

}  // namespace ucudnn::cudnn
