// Finds modules that a Python would import, without starting the Python. Only reads folders, and
// pyvenv.cfg of a virtual environment.
#pragma once

#include <string>

namespace ucudnn::command {

// Returns whether the name of `program` is that of a Python interpreter.
bool IsPython(const std::string& program);

// Returns the folder of the cudnn package (nvidia-cudnn-frontend). This package opens the
// libcudnn.so.9 of NVIDIA's wheel by path and looks up all functions on the handle from dlopen.
// Returns an empty path if `python` has no such package. `module_path` is the value of PYTHONPATH;
// `user_base` is the folder of packages that only this user installed (empty: none).
std::string CudnnPackage(const std::string& python, const std::string& module_path,
                         const std::string& user_base);

}  // namespace ucudnn::command
