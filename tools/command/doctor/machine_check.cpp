#include "command/doctor/machine_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/shared_library.h"
#include "base/text.h"
#include "command/file_check.h"
#include "command/numbers.h"
#include "command/run/elf.h"
#include "cudnn/real_path.h"
#include "db/store_choice.h"
#include "options/variable_names.h"

namespace ucudnn::command {
namespace {

bool InContainer() {
  return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

// Returns a text about a failure of cuInit, with the cause of errors that are known (cuda.h).
std::string InitFailure(int error) {
  const std::string number = "cuInit fails with error " + std::to_string(error);
  switch (error) {
    case 100:
      return number + ": no device is visible (CUDA_VISIBLE_DEVICES, or a container without GPUs)";
    case 803:
      return number + ": the driver's library and the kernel module differ in version";
    case 804:
      return number + ": the forward compatibility package does not serve this GPU";
    default:
      return number;
  }
}

// Finds the real cuDNN that a program without a run path would load. Returns the version and the
// path of this cuDNN; `file` receives the path alone.
Result<std::string> FindRealCudnn(const Options& options, const std::string& drop_in,
                                  std::string& file, Diagnosis& diagnosis) {
  const cudnn::RealSearch search = cudnn::FindReal(options.real_cudnn.c_str(), nullptr);
  for (const std::string& why : search.ignored) {
    diagnosis.Add(Severity::kWarning, "UCUDNN_REAL_CUDNN is ignored: " + why,
                  "a setting that no longer fits; cuDNN is searched for instead",
                  "unset UCUDNN_REAL_CUDNN, or correct it");
  }
  if (search.path.empty()) {
    std::string message = "no libcudnn.so.9 where the loader searches";
    for (const std::string& tried : search.tried) message += "\n  tried " + tried;
    return Status::Error(message);
  }
  UCUDNN_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open(search.path));
  using GetVersion = size_t (*)();
  const auto get_version = reinterpret_cast<GetVersion>(library.Symbol("cudnnGetVersion"));
  if (get_version == nullptr) return Status::Error(search.path + " has no cudnnGetVersion");
  CheckExports(drop_in, search.path, diagnosis);
  file = search.path;
  return CudnnVersion(get_version()) + ", " + search.path;
}

std::string NewStoreState(const std::string& path, Diagnosis& diagnosis) {
  std::error_code error;
  const std::string folder = NearestFolder(path);
  std::string wrong;
  if (!std::filesystem::is_directory(folder, error)) {
    wrong = folder + " is not a folder";
  } else if (access(folder.c_str(), W_OK) != 0) {
    wrong = folder + " cannot be written";
  }
  if (wrong.empty()) return "made when first used";
  diagnosis.Add(Severity::kWarning, "the store " + path + " cannot be made: " + wrong,
                "every process measures anew", "name another with UCUDNN_DATABASE or --db");
  return "no: " + wrong;
}

std::string StoreState(const std::string& path, bool first, Diagnosis& diagnosis) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (first) return NewStoreState(path, diagnosis);
    diagnosis.Add(Severity::kWarning, "the store " + path + " is missing",
                  "it is only read, so nobody makes it", "correct or remove it in UCUDNN_DATABASE");
    return "no: missing";
  }
  if (!S_ISREG(info.st_mode) || access(path.c_str(), R_OK) != 0) {
    const std::string wrong = S_ISREG(info.st_mode) ? "cannot be read" : "is no file";
    diagnosis.Add(Severity::kWarning, "the store " + path + " " + wrong,
                  "what it holds is measured anew in every process",
                  "correct its rights, or name another with UCUDNN_DATABASE or --db");
    return "no: " + wrong;
  }
  if (Status contents = CheckContents(path); !contents.ok()) {
    diagnosis.Add(Severity::kWarning, "the store " + path + " is left alone: " + contents.message(),
                  first ? "measurements go to a file beside it" : "it is not read",
                  "remove it, or name another with UCUDNN_DATABASE or --db");
    return "no: " + contents.message();
  }
  if (!first) return "read only";
  if (access(path.c_str(), W_OK) == 0) return "read and written";
  diagnosis.Add(Severity::kWarning, "the store " + path + " is read only",
                "what it does not hold is measured anew in every process",
                "put a store of your own before it: UCUDNN_DATABASE=MINE:" + path);
  return "read only: no right to write";
}

}  // namespace

std::string ValueOf(const VariableMap& variables, const char* name) {
  const auto found = name != nullptr ? variables.find(name) : variables.end();
  return found != variables.end() ? found->second : std::string();
}

Result<std::string> FindDriver(int& cuda_driver) {
  UCUDNN_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open("libcuda.so.1"));
  const auto init = reinterpret_cast<int (*)(unsigned)>(library.Symbol("cuInit"));
  const auto version = reinterpret_cast<int (*)(int*)>(library.Symbol("cuDriverGetVersion"));
  const auto count = reinterpret_cast<int (*)(int*)>(library.Symbol("cuDeviceGetCount"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(library.Symbol("cuDeviceGetName"));
  if (init == nullptr || version == nullptr || count == nullptr || name == nullptr) {
    return Status::Error("libcuda.so.1 lacks functions every driver has");
  }
  if (const int error = init(0); error != 0) return Status::Error(InitFailure(error));
  int devices = 0;
  char device[256] = "";
  if (version(&cuda_driver) != 0 || count(&devices) != 0 || devices == 0 ||
      name(device, sizeof device, 0) != 0) {
    return Status::Error("the driver has no device");
  }
  return "CUDA " + DriverVersion(cuda_driver) + ", " + Counted(devices, "device") +
         (devices == 1 ? ", " : ", the first ") + device;
}

VariableMap OwnVariables() {
  VariableMap variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const size_t equals = text.find('='); equals != std::string::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

Options CheckVariables(const VariableMap& variables, Diagnosis& diagnosis) {
  for (const Variable& variable : ucudnn::Variables()) {
    if (variable.old_name == nullptr) continue;
    if (ValueOf(variables, variable.old_name).empty()) continue;
    const bool hidden = !ValueOf(variables, variable.name).empty();
    diagnosis.Add(Severity::kWarning,
                  std::string(variable.old_name) + " is an older name of " + variable.name,
                  hidden ? std::string(variable.name) + " is set, too, and wins" : "",
                  hidden ? std::string("unset ") + variable.old_name
                         : std::string("set ") + variable.name + " instead");
  }
  bool any = false;
  for (const auto& [name, value] : variables) {
    if (!name.starts_with("UCUDNN_")) continue;
    const bool hidden = !value.empty() && IsSecretVariable(name);
    diagnosis.AddFact(any ? "" : "environment", name + "=" + (hidden ? "(not shown)" : value));
    any = true;
    const std::optional<UnknownVariable> unknown = CheckVariableName(name);
    if (!unknown || value.empty()) continue;
    diagnosis.Add(IsSpatialVariable(name) ? Severity::kFault : Severity::kWarning, unknown->what,
                  "", unknown->advice);
  }
  if (!any) diagnosis.AddFact("environment", "no UCUDNN_ variable is set: the defaults hold");

  std::vector<std::string> ignored;
  const Options options = ParseOptions(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found != variables.end() ? found->second.c_str() : nullptr;
      },
      ignored);
  for (const std::string& warning : ignored) {
    diagnosis.Add(Severity::kWarning, warning, "the default holds", "correct or unset it");
  }
  if (const SpatialOptions& spatial = options.spatial; !spatial.refusal.empty()) {
    // If only this process's rank is missing, this is a warning: processes that the program starts
    // may have ranks.
    diagnosis.Add(spatial.lacks_ranks ? Severity::kWarning : Severity::kFault, spatial.refusal,
                  "every convolution, pooling and normalisation is refused");
  }
  if (options.mode == Mode::kOff) {
    diagnosis.Add(Severity::kFault, "UCUDNN_MODE=off: every call is forwarded as it is", "",
                  "unset UCUDNN_MODE");
  } else if (options.mode == Mode::kObserve) {
    diagnosis.Add(Severity::kFault, "UCUDNN_MODE=observe: calls are recorded, none is changed", "",
                  "unset UCUDNN_MODE");
  }
  if (!options.tuning.on) {
    diagnosis.Add(Severity::kWarning, "UCUDNN_TUNE=off: nothing is measured",
                  "kernels that no store knows run as the program asked",
                  "unset UCUDNN_TUNE, or fill the store with `ucudnn bench`");
  }
  return options;
}

void CheckStores(const Options& options, Diagnosis& diagnosis) {
  if (options.stores.empty()) {
    diagnosis.AddFact("store", "none: every process measures anew");
  }
  const db::StoreChoice choice = db::ChooseStores(options.stores);
  for (size_t i = 0; i < choice.paths.size(); ++i) {
    const std::string& path = choice.paths[i];
    const bool written = i == choice.written;
    // If the first store is on a network file system, this host writes a file of its own, which
    // comes later in the list. The first store is then only read, and may not exist yet.
    std::error_code error;
    const bool missing = i < choice.written && !std::filesystem::exists(path, error);
    std::string state = missing ? "not there yet" : StoreState(path, written, diagnosis);
    if (written && choice.network != nullptr) {
      state += std::string("; this host's own, because the folder lies on ") + choice.network +
               ": `ucudnn cache merge` joins those of all hosts";
    }
    diagnosis.AddFact(i == 0 ? "store" : "", path + " (" + state + ")");
  }
}

FoundMachine CheckMachine(const Installation& installation, const Options& options, bool host,
                          Diagnosis& diagnosis) {
  FoundMachine machine;
  const auto fact = [&](const char* name, const Status& status, const std::string& text) {
    const std::vector<std::string> lines =
        status.ok() ? std::vector{text} : Split("no: " + status.message(), '\n');
    for (size_t i = 0; i < lines.size(); ++i) diagnosis.AddFact(i == 0 ? name : "", lines[i]);
  };
  if (!FileExists(installation.drop_in)) {
    machine.drop_in = Status::Error(installation.drop_in + " is missing");
    diagnosis.Add(Severity::kFault, machine.drop_in.message(), "ucudnn is not complete here",
                  "install or build it again, as a whole");
  }
  machine.stand_ins = CheckStandIns(installation);
  fact("drop-in", machine.drop_in, installation.drop_in);
  if (!host) {
    const Result<std::string> real =
        FindRealCudnn(options, installation.drop_in, machine.real_file, diagnosis);
    const Result<std::string> driver = FindDriver(machine.cuda_driver);
    machine.real = real.status();
    machine.driver = driver.status();
    fact("real cuDNN", machine.real, real.ok() ? *real : "");
    fact("driver", machine.driver, driver.ok() ? *driver : "");
  }
  fact("stand-ins", machine.stand_ins, installation.host_folder);
  return machine;
}

void CheckExports(const std::string& drop_in, const std::string& real, Diagnosis& diagnosis) {
  constexpr std::string_view kFunctions = "cudnn";
  const std::vector<std::string> ours = ExportedFunctions(drop_in, kFunctions);
  if (ours.empty()) return;
  const std::vector<std::string> theirs = ExportedFunctions(real, kFunctions);
  std::vector<std::string> missing;
  std::set_difference(theirs.begin(), theirs.end(), ours.begin(), ours.end(),
                      std::back_inserter(missing));
  if (missing.empty()) return;
  const auto number = static_cast<int64_t>(missing.size());
  const std::string what = "the drop-in lacks " + Counted(number, "function") + " of " + real +
                           ": " + Join(missing, ", ");
  // CheckMachine may have added this warning for this library already.
  for (const Finding& finding : diagnosis.findings) {
    if (finding.what == what) return;
  }
  const std::string folder = real.substr(0, real.rfind('/'));
  diagnosis.Add(Severity::kWarning, what,
                "it is newer than the list of functions the drop-in forwards; a program that needs "
                "one of them does not start",
                "in ucudnn's source: tools/generate-dropin --library " + real + " --include " +
                    folder + "/../include, then build it again");
}

std::string DriverAdvice() {
  return InContainer() ? "start the container with its GPUs (docker run --gpus all), or use --host"
                       : "install NVIDIA's driver, or use --host";
}

}  // namespace ucudnn::command
