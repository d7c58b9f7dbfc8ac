#include "command/run/launch.h"

#include <cstdlib>
#include <vector>

namespace ucudnn::command {
namespace {

void Prepend(const char* name, const std::string& value) {
  const std::string before = Environment(name);
  setenv(name, (before.empty() ? value : value + ":" + before).c_str(), 1);
}

// Returns the libraries for LD_PRELOAD, which come before all libraries that the program needs.
std::vector<std::string> Preloads(const Installation& installation, const Launch& launch,
                                  const Reach& reach) {
  std::vector<std::string> preloads;
  if (!launch.off) preloads.push_back(installation.drop_in);
  if (!launch.off && reach.dlsym_hook) preloads.push_back(installation.dlsym_hook);
  if (launch.host) {
    if (launch.off) preloads.push_back(installation.host_cudnn);
    // LD_LIBRARY_PATH alone would not load these stand-ins if a program's DT_RPATH leads to the
    // real libraries.
    preloads.push_back(installation.host_cuda);
    preloads.push_back(installation.host_cudart);
  }
  return preloads;
}

// Returns the folder in which `pip install --user` puts packages; empty if the environment forbids
// Python to use this folder.
std::string PythonUserBase() {
  if (!Environment("PYTHONNOUSERSITE").empty()) return {};
  const std::string base = Environment("PYTHONUSERBASE");
  if (!base.empty()) return base;
  const std::string home = Environment("HOME");
  return home.empty() ? home : home + "/.local";
}

}  // namespace

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void AddDlsym(CLI::App& app, Launch& launch) {
  AddOption(app, "--dlsym", launch.dlsym, "WHEN",
            "also answer look-ups in a cuDNN that was opened by its path: auto (default: for "
            "commands that seem to do that), on, off");
}

Result<Reach> ReachOf(const Launch& launch, const std::string& program, const ProgramWords& words) {
  UCUDNN_ASSIGN_OR_RETURN(const DlsymHook wanted, ParseDlsymHook(launch.dlsym));
  ReachEnvironment environment;
  environment.path = Environment("PATH");
  environment.library_path = Environment("LD_LIBRARY_PATH");
  environment.module_path = Environment("PYTHONPATH");
  environment.user_base = PythonUserBase();
  environment.xla_path = Environment("XLA_GPU_LIBRARY_PATH");
  return ChooseReach(wanted, program, {words.begin() + 1, words.end()}, environment);
}

Status SetLaunchEnvironment(const Launch& launch, const Reach& reach,
                            const VariableOptions& variables) {
  const Installation installation = FindInstallation();
  if (launch.host) UCUDNN_RETURN_IF_ERROR(CheckStandIns(installation));
  std::string preload;
  for (const std::string& path : Preloads(installation, launch, reach)) {
    if (!FileExists(path)) return Status::Error(WhyMissing(installation, path));
    if (path.find_first_of(": ") != std::string::npos) {
      return Status::Error("'" + path +
                           "': LD_PRELOAD has no form for a path with a space or colon");
    }
    preload += (preload.empty() ? "" : ":") + path;
  }
  variables.Export();
  if (!preload.empty()) Prepend("LD_PRELOAD", preload);
  if (launch.off) setenv("UCUDNN_MODE", "off", 1);
  if (launch.host) {
    Prepend("LD_LIBRARY_PATH", installation.host_folder);
    setenv("UCUDNN_REAL_CUDNN", installation.host_cudnn.c_str(), 1);
    if (!launch.devices.empty()) setenv("HOSTGPU_DEVICES", launch.devices.c_str(), 1);
    if (!launch.device_memory.empty()) setenv("HOSTGPU_MEMORY", launch.device_memory.c_str(), 1);
  }
  return Status::Ok();
}

}  // namespace ucudnn::command
