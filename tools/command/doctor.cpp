// `ucudnn doctor`: what was found on this machine, what works, what does not and why.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "base/options.h"
#include "base/shared_library.h"
#include "base/version.h"
#include "command/command.h"
#include "command/installation.h"
#include "command/program.h"
#include "command/versions.h"
#include "cudnn/genuine_path.h"

namespace ucudnn::command {
namespace {

constexpr int kNameColumn = 16;

void Print(const std::string& name, const std::string& text) {
  std::cout << std::left << std::setw(kNameColumn) << name << text << "\n";
}

void Print(const std::string& name, const Status& status, const std::string& text) {
  Print(name, status.ok() ? text : "no: " + status.message());
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Where a program without a run path of its own finds the genuine cuDNN, with its version.
Result<std::string> FindGenuineCudnn(const Options& options) {
  const cudnn::GenuineSearch search = cudnn::FindGenuine(options.real_cudnn.c_str(), nullptr);
  std::string ignored;
  for (const std::string& why : search.ignored) {
    ignored += "\n  UCUDNN_REAL_CUDNN is ignored: " + why;
  }
  if (search.path.empty()) {
    std::string message =
        "no libcudnn.so.9 where the loader searches; UCUDNN_REAL_CUDNN can name it";
    for (const std::string& tried : search.tried) message += "\n  tried " + tried;
    return Status::Error(message + ignored);
  }
  UCUDNN_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open(search.path));
  using GetVersion = size_t (*)();
  const auto get_version = reinterpret_cast<GetVersion>(library.Symbol("cudnnGetVersion"));
  if (get_version == nullptr) return Status::Error(search.path + " has no cudnnGetVersion");
  return CudnnVersion(get_version()) + ", " + search.path + ignored;
}

Result<std::string> FindDriver() {
  UCUDNN_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open("libcuda.so.1"));
  const auto init = reinterpret_cast<int (*)(unsigned)>(library.Symbol("cuInit"));
  const auto version = reinterpret_cast<int (*)(int*)>(library.Symbol("cuDriverGetVersion"));
  const auto count = reinterpret_cast<int (*)(int*)>(library.Symbol("cuDeviceGetCount"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(library.Symbol("cuDeviceGetName"));
  if (init == nullptr || version == nullptr || count == nullptr || name == nullptr) {
    return Status::Error("libcuda.so.1 lacks functions every driver has");
  }
  int cuda = 0;
  int devices = 0;
  char device[256] = "";
  if (const int error = init(0); error != 0) {
    return Status::Error("cuInit fails with error " + std::to_string(error));
  }
  if (version(&cuda) != 0 || count(&devices) != 0 || devices == 0 ||
      name(device, sizeof device, 0) != 0) {
    return Status::Error("the driver has no device");
  }
  return "CUDA " + DriverVersion(cuda) + ", " + std::to_string(devices) +
         (devices == 1 ? " device, " : " devices, the first ") + device;
}

Status CheckStandIns(const Installation& installation) {
  for (const std::string& path :
       {installation.host_cuda, installation.host_cudart, installation.host_cudnn}) {
    if (!FileExists(path)) return Status::Error(path + " is missing");
  }
  return Status::Ok();
}

std::string StoreState(const std::string& path, bool first) {
  if (!first) return FileExists(path) ? "read only" : "no: cannot be read";
  if (access(path.c_str(), F_OK) == 0) {
    if (access(path.c_str(), R_OK) != 0) return "no: cannot be read";
    return access(path.c_str(), W_OK) == 0 ? "read and written" : "read only: no right to write";
  }
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  while (!folder.empty() && !std::filesystem::exists(folder, error)) {
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  if (!std::filesystem::is_directory(folder, error)) {
    return "no: " + folder.string() + " is not a folder";
  }
  return access(folder.c_str(), W_OK) == 0 ? "made when first used"
                                           : "no: " + folder.string() + " cannot be written";
}

void PrintStores(const Options& options) {
  if (options.databases.empty()) Print("store", "none: every process measures anew");
  for (size_t i = 0; i < options.databases.size(); ++i) {
    Print(i == 0 ? "store" : "",
          options.databases[i] + " (" + StoreState(options.databases[i], i == 0) + ")");
  }
}

void PrintVariables(const std::vector<std::string>& warnings) {
  bool any = false;
  for (const Variable& variable : Variables()) {
    for (const char* name : {variable.name, variable.old_name}) {
      if (name == nullptr || Environment(name).empty()) continue;
      Print(any ? "" : "environment", name + ("=" + Environment(name)));
      any = true;
    }
  }
  if (!any) Print("environment", "no UCUDNN_ variable is set: the defaults hold");
  for (const std::string& warning : warnings) Print("", warning);
}

// Whether the drop-in reaches cuDNN in `program`, and where it would take the genuine one from.
Status CheckProgram(const std::string& program) {
  UCUDNN_RETURN_IF_ERROR(CheckPreload(program));
  for (const NeededLibrary& library :
       NeededLibraries(program, "", Environment("LD_LIBRARY_PATH"))) {
    if (library.name.starts_with("libcudnn.so.") && library.name != "libcudnn.so.9") {
      return Status::Error("it needs " + library.name + ", and ucudnn is for libcudnn.so.9");
    }
    if (library.name != "libcudnn.so.9") continue;
    if (library.path.empty()) {
      Print("program", program + " needs a libcudnn.so.9 that the loader will not find");
    } else {
      Print("program", program + " needs " + library.path);
    }
    return Status::Ok();
  }
  Print("program", program + " does not name libcudnn.so.9; it may still load it while running");
  return Status::Ok();
}

int Diagnose(const ProgramWords& words) {
  std::vector<std::string> warnings;
  const Options options =
      ParseOptions([](const char* name) { return std::getenv(name); }, warnings);
  const Installation installation = FindInstallation();
  const Result<std::string> genuine = FindGenuineCudnn(options);
  const Result<std::string> driver = FindDriver();
  const Status drop_in = FileExists(installation.drop_in)
                             ? Status::Ok()
                             : Status::Error(installation.drop_in + " is missing");
  const Status stand_ins = CheckStandIns(installation);

  Print("ucudnn", kVersion);
  Print("drop-in", drop_in, installation.drop_in);
  Print("genuine cuDNN", genuine.status(), genuine.ok() ? *genuine : "");
  Print("driver", driver.status(), driver.ok() ? *driver : "");
  Print("stand-ins", stand_ins, installation.host_folder);
  PrintStores(options);
  PrintVariables(warnings);

  Status run = drop_in;
  if (run.ok() && !driver.ok()) run = Status::Error("there is no driver");
  Status host = stand_ins.ok() ? drop_in : stand_ins;
  if (!words.empty()) {
    const Result<std::string> program = FindProgram(words[0], Environment("PATH"));
    const Status usable = program.ok() ? CheckProgram(*program) : program.status();
    if (!usable.ok()) run = host = usable;
    if (host.ok()) {
      host = CheckHost(*program, installation.host_folder, Environment("LD_LIBRARY_PATH"));
    }
  } else if (run.ok() && !genuine.ok()) {
    // With a program, its own run path may still lead to one.
    run = Status::Error("there is no genuine cuDNN");
  }
  Print("run", run, "works");
  Print("run --host", host, "works");
  return run.ok() || host.ok() ? 0 : 1;
}

}  // namespace

Command AddDoctor(CLI::App& ucudnn) {
  CLI::App* app = AddSubcommand(ucudnn, "doctor", "doctor [-- PROGRAM]",
                                "say what was found, what works, what does not and why");
  return {app, [](const ProgramWords& program) { return Diagnose(program); }, true};
}

}  // namespace ucudnn::command
