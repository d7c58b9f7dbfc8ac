// The modules that a Python would find, as far as this can be known without starting it. Only reads
// folders, and pyvenv.cfg of a virtual environment.
#pragma once

#include <string>

namespace ucudnn::command {

// Returns whether `program` is a Python, by its name.
bool IsPython(const std::string& program);

// Returns the folder of the cudnn package (nvidia-cudnn-frontend), which opens the libcudnn.so.9 of
// NVIDIA's wheel by path and looks up all functions on that handle. Returns an empty path if
// `python` has no such package. `module_path` is the value of PYTHONPATH; `user_base` is the folder
// of packages that only this user installed (empty: none).
std::string CudnnPackage(const std::string& python, const std::string& module_path,
                         const std::string& user_base);

}  // namespace ucudnn::command
