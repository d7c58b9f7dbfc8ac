// Which modules a Python would find, as far as they show without starting it. Reads folders only.
#pragma once

#include <string>

namespace ucudnn::command {

// By its name.
bool IsPython(const std::string& program);

// The folder of the cudnn package (nvidia-cudnn-frontend), which opens libcudnn.so.9 of NVIDIA's
// wheel by path and looks everything up on that handle. Empty when `python` has none. `module_path`
// is PYTHONPATH's value, `user_base` the folder of packages that its user installed alone (empty:
// none).
std::string CudnnPackage(const std::string& python, const std::string& module_path,
                         const std::string& user_base);

}  // namespace ucudnn::command
