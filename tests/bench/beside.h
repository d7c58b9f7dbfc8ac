// Finds files of the same build from the program's own place, since a build may be moved elsewhere.
#pragma once

#include <filesystem>
#include <string>

namespace ucudnn::bench {

// `path` is relative to the program's folder, build/PRESET/tests/bench.
inline std::string Beside(const char* path) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / path;
}

inline std::string DropIn() { return Beside("../../lib/ucudnn/libcudnn.so.9"); }

}  // namespace ucudnn::bench
