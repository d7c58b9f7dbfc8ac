// Checks of `ucudnn doctor` that do not depend on the program: this installation, the driver, the
// real cuDNN, the UCUDNN_ variables and the measurement stores. Used from main's thread only; opens
// the driver and the real library.
#pragma once

#include <map>
#include <string>

#include "command/doctor/diagnosis.h"
#include "command/installation.h"
#include "options/options.h"

namespace ucudnn::command {

using VariableMap = std::map<std::string, std::string>;  // by name

// Returns the variable's value; empty if it is not set, or if `name` is null.
std::string ValueOf(const VariableMap& variables, const char* name);

// Returns this process's environment.
VariableMap OwnVariables();

// Returns the options that `variables` set. Adds a fact for each UCUDNN_ variable, and a finding
// for each variable that is unknown, outdated or not accepted, or that limits what ucudnn does.
Options CheckVariables(const VariableMap& variables, Diagnosis& diagnosis);

// Adds each store of `options`, and the store's faults, to `diagnosis`.
void CheckStores(const Options& options, Diagnosis& diagnosis);

// Describes the driver and its first device; `cuda_driver` receives cuDriverGetVersion. If no
// driver works, the error says why.
Result<std::string> FindDriver(int& cuda_driver);

struct FoundMachine {
  Status drop_in;  // whether this installation's libraries exist
  Status stand_ins;
  Status driver;          // whether there is a driver with a device
  Status real;            // whether a program without a run path finds a real cuDNN
  std::string real_file;  // path of the real cuDNN; empty if there is none
  int cuda_driver = 0;    // cuDriverGetVersion; 0: unknown
};

// Checks this machine. If `host` (the CPU stand-ins are used), does not look for a driver and the
// real cuDNN.
FoundMachine CheckMachine(const Installation& installation, const Options& options, bool host,
                          Diagnosis& diagnosis);

// Adds a warning, once for each library, if `real` exports functions that `drop_in` does not. A
// program that is linked with such a function does not start if the drop-in is in front of `real`.
void CheckExports(const std::string& drop_in, const std::string& real, Diagnosis& diagnosis);

// Returns the remedy for a missing driver on this machine.
std::string DriverAdvice();

}  // namespace ucudnn::command
