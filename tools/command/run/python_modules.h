// The modules that a Python would find, as far as that can be known without starting it. Reads
// folders only.
#pragma once

#include <string>

namespace ucudnn::command {

// Returns whether it is a Python, by its name.
bool IsPython(const std::string& program);

// Returns the folder of the cudnn package (nvidia-cudnn-frontend), which opens libcudnn.so.9 of
// NVIDIA's wheel by path and looks everything up on that handle. Empty if `python` has no such
// package. `module_path` is the value of PYTHONPATH, `user_base` the folder of packages that only
// its user installed (empty: none).
std::string CudnnPackage(const std::string& python, const std::string& module_path,
                         const std::string& user_base);

}  // namespace ucudnn::command
