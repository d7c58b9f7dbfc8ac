// Runs a program and gathers what it printed. Tests of loading need real processes, because the
// loader acts before main.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ucudnn::testing {

using Environment = std::map<std::string, std::string>;

struct Outcome {
  int exit_code = -1;  // 128 + signal when one ended the program
  std::string out;
  std::string err;
};

// Adds `environment` to this process's, from which it removes what would change loading or ucudnn.
Outcome RunProgram(const std::vector<std::string>& arguments, const Environment& environment = {});

}  // namespace ucudnn::testing
