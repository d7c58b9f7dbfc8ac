// Reads /etc/ld.so.cache, which the loader searches after the run paths. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::cudnn {

// Returns the paths of the x86-64 libraries called `soname`, in the cache's order. `bytes` is the
// file, in the format of glibc 2.2 and newer, alone or behind the older format; empty if it is in
// neither. Nothing in the file is trusted. Source: glibc, sysdeps/generic/dl-cache.h.
std::vector<std::string> FindInLoaderCache(std::string_view bytes, std::string_view soname);

}  // namespace ucudnn::cudnn
