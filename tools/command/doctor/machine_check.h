// What `ucudnn doctor` looks at whatever the program: this installation, the driver, the real
// cuDNN, the UCUDNN_ variables and the measurement stores. Used from main's thread only; opens the
// driver and the real library.
#pragma once

#include <map>
#include <string>

#include "base/options.h"
#include "command/doctor/diagnosis.h"
#include "command/installation.h"

namespace ucudnn::command {

using VariableMap = std::map<std::string, std::string>;  // name to value

// Empty where it is not set, or `name` is null.
std::string ValueOf(const VariableMap& variables, const char* name);

// This process's environment.
VariableMap OwnVariables();

// The options `variables` stand for. Adds what is set, and a warning for each variable that is
// unknown, ignored, outdated or left over.
Options CheckVariables(const VariableMap& variables, Diagnosis& diagnosis);

// Adds each store of `options` and what is wrong with it.
void CheckStores(const Options& options, Diagnosis& diagnosis);

// The driver and its first device in words; `cuda_driver` becomes cuDriverGetVersion. The error
// says why there is none that works.
Result<std::string> FindDriver(int& cuda_driver);

struct FoundMachine {
  Status drop_in;  // this installation's libraries
  Status stand_ins;
  Status driver;          // a driver with a device
  Status real;            // where a program without a run path of its own finds cuDNN
  std::string real_file;  // that one; empty: none
  int cuda_driver = 0;    // cuDriverGetVersion; 0: unknown
};

// For the stand-ins (`host`) driver and real library are not looked for.
FoundMachine CheckMachine(const Installation& installation, const Options& options, bool host,
                          Diagnosis& diagnosis);

// Adds a warning, once a library, that names what `real` exports and `drop_in` does not: a
// program linked with such a function does not start with the drop-in in front of it.
void CheckExports(const std::string& drop_in, const std::string& real, Diagnosis& diagnosis);

// What to do about a missing driver, here.
std::string DriverAdvice();

}  // namespace ucudnn::command
