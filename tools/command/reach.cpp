#include "command/reach.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/text.h"
#include "command/elf.h"
#include "command/launch.h"
#include "command/program.h"

namespace ucudnn::command {
namespace {

namespace fs = std::filesystem;

bool IsPython(const fs::path& program) {
  const std::string name = program.filename();
  return name.starts_with("python") || name.starts_with("pypy");
}

// The interpreter a script's first line names, looked for in PATH where it is `env`'s argument;
// empty for what is no script.
std::string Interpreter(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  std::string line;
  char mark[2] = {};
  if (!file.read(mark, 2) || mark[0] != '#' || mark[1] != '!' || !std::getline(file, line)) {
    return {};
  }
  std::istringstream words(line.substr(0, 4096));
  std::string word;
  while (words >> word) {
    if (word.starts_with('-') || fs::path(word).filename() == "env") continue;
    const Result<std::string> found = FindProgram(word, Environment("PATH"));
    return found.ok() ? *found : std::string();
  }
  return {};
}

// A virtual environment looks at its user's packages only where it looks at the system's.
bool LooksAtUserPackages(const fs::path& prefix) {
  std::ifstream settings(prefix / "pyvenv.cfg");
  if (!settings) return true;
  std::string name, equals, value;
  for (std::string line; std::getline(settings, line);) {
    std::istringstream words(line);
    if (words >> name >> equals >> value && name == "include-system-site-packages") {
      return value == "true" || value == "True";
    }
  }
  return false;
}

// Folders a Python takes modules from, as far as they show without starting it: PYTHONPATH, and the
// site-packages of its environment, of the Python that one was made from, and of its user.
std::vector<fs::path> ModuleFolders(const std::string& python, const std::string& module_path,
                                    const std::string& user_base) {
  std::vector<fs::path> folders;
  for (const std::string& folder : Split(module_path, ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  std::error_code error;
  std::vector<fs::path> prefixes = {fs::absolute(python, error).parent_path().parent_path()};
  const fs::path genuine = fs::canonical(python, error);
  if (!error) prefixes.push_back(genuine.parent_path().parent_path());
  if (!user_base.empty() && LooksAtUserPackages(prefixes[0])) prefixes.emplace_back(user_base);
  for (const fs::path& prefix : prefixes) {
    for (const char* lib : {"lib", "lib64", "local/lib"}) {
      for (const auto& entry : fs::directory_iterator(prefix / lib, error)) {
        if (!entry.path().filename().string().starts_with("python")) continue;
        folders.push_back(entry.path() / "site-packages");
        folders.push_back(entry.path() / "dist-packages");
      }
    }
  }
  return folders;
}

// The cudnn package (nvidia-cudnn-frontend): it opens libcudnn.so.9 of NVIDIA's wheel by path and
// looks everything up on that handle. Empty when this Python has none.
std::string CudnnPackage(const std::string& python, const std::string& module_path,
                         const std::string& user_base) {
  std::error_code error;
  for (const fs::path& folder : ModuleFolders(python, module_path, user_base)) {
    for (const auto& entry : fs::directory_iterator(folder / "cudnn", error)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("_compiled_module") && name.ends_with(".so")) {
        return (folder / "cudnn").string();
      }
    }
  }
  return {};
}

// The file of `program` or of a library it needs that has a path to cuDNN among its texts.
std::string NamesPath(const std::string& program, const std::string& library_path) {
  const auto names = [](const std::string& path) {
    const Result<ElfFile> elf = ReadElf(path);
    return elf.ok() && elf->names_cudnn_path;
  };
  if (names(program)) return program;
  for (const NeededLibrary& library : NeededLibraries(program, "", library_path)) {
    const bool is_cudnn = library.name.starts_with("libcudnn");
    if (!is_cudnn && !library.path.empty() && names(library.path)) return library.path;
  }
  return {};
}

}  // namespace

Result<DlsymHook> ParseDlsymHook(const std::string& text) {
  if (text == "auto") return DlsymHook::kAuto;
  if (text == "on") return DlsymHook::kOn;
  if (text == "off") return DlsymHook::kOff;
  return Status::Error("--dlsym '" + text + "': not auto, on or off");
}

Reach ChooseReach(DlsymHook wanted, const std::string& program, const std::string& library_path,
                  const std::string& module_path, const std::string& user_base,
                  const std::string& xla_path) {
  if (wanted == DlsymHook::kOn) return {true, "--dlsym on"};
  if (wanted == DlsymHook::kOff) return {false, "--dlsym off"};
  if (!xla_path.empty()) return {true, "XLA_GPU_LIBRARY_PATH has XLA open cuDNN by its path"};
  const std::string interpreter = Interpreter(program);
  const std::string file = interpreter.empty() ? program : interpreter;
  if (IsPython(file)) {
    const std::string package = CudnnPackage(file, module_path, user_base);
    if (!package.empty()) return {true, package + " opens cuDNN by its path"};
  }
  const std::string names = NamesPath(file, library_path);
  if (!names.empty()) return {true, names + " has a path to cuDNN among its texts"};
  return {false, "nothing of the program opens cuDNN by its path"};
}

}  // namespace ucudnn::command
