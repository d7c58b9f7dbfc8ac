// Runs a program and gathers what it printed. Tests of loading need real processes: what the loader
// does happens before main.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ucudnn::testing {

struct Outcome {
  int exit_code = -1;  // 128 + signal when one ended the program
  std::string out;
  std::string err;
};

// `environment` is added to this process's, less what would change loading or ucudnn.
Outcome RunProgram(const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string>& environment = {});

}  // namespace ucudnn::testing
