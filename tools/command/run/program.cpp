#include "command/run/program.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <set>

#include "base/text.h"
#include "base/text_file.h"
#include "command/run/elf.h"
#include "command/run/script.h"
#include "cudnn/loader_cache.h"
#include "cudnn/real_path.h"

namespace ucudnn::command {
namespace {

// Returns Ok if `path` is a file that this user may execute.
Status CheckExecutable(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return Status::Error(std::strerror(errno));
  if (S_ISDIR(status.st_mode)) return Status::Error("is a folder");
  if (access(path.c_str(), X_OK) != 0) {
    return Status::Error(
        "is not executable; `chmod +x` makes it so, or name what runs it before it");
  }
  return Status::Ok();
}

// Returns whether the program runs with more rights than its user. For such a program the loader
// ignores LD_PRELOAD.
bool GainsRights(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return false;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) return true;
  if ((status.st_mode & S_ISGID) != 0 && status.st_gid != getgid()) return true;
  return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// Returns "12" for the name "libcudart.so.12" and the stem "libcudart.so.". Returns nothing if the
// name does not begin with the stem.
std::optional<std::string> VersionAfter(const std::string& name, const std::string& stem) {
  if (!name.starts_with(stem)) return std::nullopt;
  return name.substr(stem.size());
}

// Fails if no stand-in can replace the library `name`. The error completes "it ... ", where "it" is
// the program that needs the library.
Status CheckNeededName(const std::string& name) {
  if (const auto version = VersionAfter(name, "libcudart.so."); version && *version != "13") {
    return Status::Error("needs " + name + " (CUDA " + Split(*version, '.')[0] +
                         "), and the stand-in is CUDA 13");
  }
  if (const auto version = VersionAfter(name, "libcudnn.so."); version && *version != "9") {
    return Status::Error("needs " + name + " (cuDNN " + Split(*version, '.')[0] +
                         "), and the stand-in is cuDNN 9");
  }
  return Status::Ok();
}

// Follows DT_NEEDED as the loader does, breadth first.
class Walk {
 public:
  Walk(const std::string& preloaded_folder, const std::string& library_path)
      : preloaded_folder_(preloaded_folder),
        library_folders_(Split(library_path, ':')),
        cache_(TextFileOrEmpty("/etc/ld.so.cache")) {}

  std::vector<NeededLibrary> From(const std::string& program) {
    std::vector<NeededLibrary> found;
    std::deque<Object> waiting = {{program, {}}};
    std::set<std::string> seen;
    while (!waiting.empty()) {
      Object object = std::move(waiting.front());
      waiting.pop_front();
      const Result<ElfFile> elf = ReadElf(object.path);
      if (!elf.ok()) continue;
      const cudnn::DynamicSection& dynamic = elf->dynamic;
      for (std::string& folder : cudnn::ExpandRunPath(dynamic.rpath, object.path)) {
        object.run_path.push_back(std::move(folder));
      }
      for (const std::string& name : dynamic.needed) {
        if (!seen.insert(name).second) continue;
        found.push_back({name, Resolve(name, object, dynamic), object.path});
        if (!found.back().path.empty()) waiting.push_back({found.back().path, object.run_path});
      }
    }
    return found;
  }

 private:
  struct Object {
    std::string path;
    // The folders of DT_RPATH of this object and of the objects through which it is needed.
    std::vector<std::string> run_path;
  };

  static std::string Usable(const std::string& path) {
    const Result<ElfFile> elf = ReadElf(path);
    return elf.ok() && elf->is_x86_64 ? path : std::string();
  }

  std::string Resolve(const std::string& name, const Object& object,
                      const cudnn::DynamicSection& dynamic) const {
    if (name.find('/') != std::string::npos) return Usable(name);
    if (!preloaded_folder_.empty()) {
      const std::string preloaded = preloaded_folder_ + "/" + name;
      if (access(preloaded.c_str(), F_OK) == 0) return preloaded;
    }
    const std::string file = "/" + name;
    std::vector<std::string> paths;
    const auto add = [&](const std::vector<std::string>& folders) {
      for (const std::string& folder : folders) {
        if (!folder.empty()) paths.push_back(folder + file);
      }
    };
    if (dynamic.runpath.empty()) add(object.run_path);
    add(library_folders_);
    add(cudnn::ExpandRunPath(dynamic.runpath, object.path));
    for (std::string& path : cudnn::FindInLoaderCache(cache_, name)) {
      paths.push_back(std::move(path));
    }
    add({"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib",
         "/usr/lib"});
    for (const std::string& path : paths) {
      if (std::string usable = Usable(path); !usable.empty()) return usable;
    }
    return {};
  }

  std::string preloaded_folder_;
  std::vector<std::string> library_folders_;
  std::string cache_;
};

}  // namespace

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

FoundProgram FindProgram(const std::string& name, const std::string& search_path) {
  const std::string quoted = "'" + name + "'";
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), F_OK) != 0 && errno == ENOENT) {
      return {"", Status::Error(quoted + ": there is no such file")};
    }
    const Status status = CheckExecutable(name);
    return {name, status.ok() ? status : Status::Error(quoted + ": " + status.message())};
  }
  FoundProgram found{"", Status::Error(quoted + " is not in PATH")};
  if (name.empty()) return found;
  for (const std::string& folder : Split(search_path, ':')) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    const Status status = CheckExecutable(path);
    if (status.ok()) return {path, status};
    if (access(path.c_str(), F_OK) != 0) continue;
    found = {path, Status::Error("'" + path + "': " + status.message())};
  }
  if (found.path.empty() && access(name.c_str(), F_OK) == 0) {
    found.can_run = Status::Error(quoted + " is not in PATH; the one in this folder is ./" + name);
  }
  return found;
}

Status CheckImage(const std::string& program) {
  const std::string quoted = "'" + program + "' ";
  // The program may be executable without being readable, and then cannot be checked.
  if (access(program.c_str(), R_OK) != 0) return Status::Ok();
  const Result<ElfFile> elf = ReadElf(program);
  if (!elf.ok()) return Status::Error(quoted + elf.message());
  if (elf->is_elf && !elf->is_x86_64) return Status::Error(quoted + "is not a 64-bit x86 program");
  return Status::Ok();
}

Status CheckPreload(const std::string& program) {
  const std::string quoted = "'" + program + "' ";
  if (GainsRights(program)) {
    return Status::Error(quoted + "is setuid, setgid or has capabilities: LD_PRELOAD is ignored");
  }
  const Result<ElfFile> elf = ReadElf(program);
  if (elf.ok() && elf->is_elf && !elf->has_interpreter) {
    return Status::Error(quoted + "is a static executable: LD_PRELOAD is ignored");
  }
  return Status::Ok();
}

std::string WhyNotStarted(const std::string& program, int error) {
  const std::string refusal = "'" + program + "' cannot be started: ";
  const std::string interpreter = InterpreterOf(ReadStart(program).value_or(""));
  if (error == ENOENT && !interpreter.empty()) {
    return refusal + "its first line names '" + interpreter + "', which is not there";
  }
  return refusal + std::strerror(error);
}

Result<HostGaps> CheckHost(const std::string& program, const std::string& host_folder,
                           const std::string& library_path) {
  const std::string refusal = "--host cannot run '" + program + "': ";
  HostGaps gaps;
  if (const Result<ElfFile> own = ReadElf(program); own.ok()) {
    if (own->has_static_cudart) {
      return Status::Error(
          refusal +
          "it has the CUDA runtime linked in (static cudart), which the stand-in cannot replace; "
          "link it with `-cudart shared` (NVCC_APPEND_FLAGS='-cudart shared' has any nvcc do so)");
    }
    if (own->registers_kernels) gaps.with_kernels.push_back(program);
  }
  for (const NeededLibrary& library : NeededLibraries(program, host_folder, library_path)) {
    const std::string who = library.needed_by == program ? "it" : NameOf(library.needed_by);
    if (Status status = CheckNeededName(library.name); !status.ok()) {
      return Status::Error(refusal + who + " " + status.message());
    }
    if (library.path.empty() || FolderOf(library.path) == host_folder) continue;
    const Result<ElfFile> elf = ReadElf(library.path);
    if (!elf.ok()) continue;
    if (elf->has_static_cudart) {
      gaps.with_runtime.push_back(library.path);
    } else if (elf->registers_kernels) {
      gaps.with_kernels.push_back(library.path);
    }
  }
  return gaps;
}

std::vector<NeededLibrary> NeededLibraries(const std::string& program,
                                           const std::string& preloaded_folder,
                                           const std::string& library_path) {
  return Walk(preloaded_folder, library_path).From(program);
}

}  // namespace ucudnn::command
