#include "command/run/python_modules.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/text.h"
#include "command/run/program.h"

namespace ucudnn::command {
namespace {

namespace fs = std::filesystem;

// Returns whether the Python in `prefix` imports packages that only its user installed. A virtual
// environment imports these only with include-system-site-packages.
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

// Returns the folders from which `python` imports modules, as far as they can be found without
// starting it: the folders of PYTHONPATH, and the site-packages of three owners: the virtual
// environment, the Python from which the environment was made, and the user.
std::vector<fs::path> ModuleFolders(const std::string& python, const std::string& module_path,
                                    const std::string& user_base) {
  std::vector<fs::path> folders;
  for (const std::string& folder : Split(module_path, ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  std::error_code error;
  std::vector<fs::path> prefixes = {fs::absolute(python, error).parent_path().parent_path()};
  const fs::path real = fs::canonical(python, error);
  if (!error) prefixes.push_back(real.parent_path().parent_path());
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

}  // namespace

bool IsPython(const std::string& program) {
  const std::string name = NameOf(program);
  return name.starts_with("python") || name.starts_with("pypy");
}

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

}  // namespace ucudnn::command
