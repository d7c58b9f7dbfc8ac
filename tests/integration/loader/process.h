// Runs a program and collects its output. Tests of loading need real processes, because the loader
// acts before main.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ucudnn::testing {

using Environment = std::map<std::string, std::string>;

struct Outcome {
  int exit_code = -1;  // 128 + the signal's number if a signal ended the program
  std::string out;
  std::string err;
};

// Runs a program with `environment` and this process's variables, except LD_* and UCUDNN_*, which
// would change loading or ucudnn.
Outcome RunProgram(const std::vector<std::string>& arguments, const Environment& environment = {});

}  // namespace ucudnn::testing
