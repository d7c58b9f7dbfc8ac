// How a program can be reached: nearly all by preloading the drop-in; those that open cuDNN by its
// path, and look its functions up on that handle, with the dlsym hook besides. Known from the
// program's file and what belongs to it, before it runs; reads files, starts nothing.
// Thread-compatible.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn::command {

enum class DlsymHook { kAuto, kOn, kOff };

// "auto", "on" or "off".
Result<DlsymHook> ParseDlsymHook(const std::string& text);

struct Reach {
  bool dlsym_hook = false;
  std::string reason;  // why the hook is there, or why it is not
};

// `program` is a file (FindProgram's). `library_path` is LD_LIBRARY_PATH's value, `module_path`
// PYTHONPATH's, `user_base` the folder of packages that its user installed alone (empty: none),
// `xla_path` XLA_GPU_LIBRARY_PATH's value: folders XLA opens libraries in by path.
Reach ChooseReach(DlsymHook wanted, const std::string& program, const std::string& library_path,
                  const std::string& module_path, const std::string& user_base,
                  const std::string& xla_path);

}  // namespace ucudnn::command
