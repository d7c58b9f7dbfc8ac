// Finds files of the program's build by their paths relative to the program, since a build may be
// moved elsewhere.
#pragma once

#include <filesystem>
#include <string>

namespace ucudnn::bench {

// Returns the absolute form of `path`, which is relative to the program's folder,
// build/PRESET/tests/bench.
inline std::string Beside(const char* path) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / path;
}

inline std::string DropIn() { return Beside("../../lib/ucudnn/libcudnn.so.9"); }

}  // namespace ucudnn::bench
