#include "command/doctor/process_view.h"

#include <elf.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string_view>

#include "base/text_file.h"

namespace ucudnn::command {
namespace {

std::string ReadLink(const std::string& path) {
  char target[4096];
  const ssize_t length = readlink(path.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : std::string();
}

std::string OwnerOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return "another user";
  const struct passwd* const user = getpwuid(info.st_uid);
  return user != nullptr ? user->pw_name : "user " + std::to_string(info.st_uid);
}

void AddOnce(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

// Returns the paths of executable mappings in /proc/PID/maps, whose lines are "from-to rights
// offset device inode   path".
std::vector<std::string> MappedFiles(const std::string& maps) {
  std::vector<std::string> files;
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    const size_t path = line.find('/');
    const bool executable = line.find(" r-x") != std::string::npos;
    if (path != std::string::npos && executable) AddOnce(files, line.substr(path));
  }
  return files;
}

VariableMap ReadVariables(const std::string& environ_bytes) {
  VariableMap variables;
  std::istringstream entries(environ_bytes);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    if (const size_t equals = entry.find('='); equals != std::string::npos) {
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return variables;
}

bool IsSecure(const std::string& auxiliary) {
  for (size_t at = 0; at + sizeof(Elf64_auxv_t) <= auxiliary.size(); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    std::memcpy(&entry, auxiliary.data() + at, sizeof entry);
    if (entry.a_type == AT_SECURE) return entry.a_un.a_val != 0;
  }
  return false;
}

// Returns NAME from a line of the loader's log such as "KEYNAME [0];  REST". `end` receives the
// position after NAME. Returns an empty text if the line does not contain `key`.
std::string LoggedName(std::string_view line, std::string_view key, size_t& end) {
  const size_t at = line.find(key);
  end = at != std::string_view::npos ? line.find(" [", at) : at;
  if (end == std::string_view::npos) return {};
  return std::string(line.substr(at + key.size(), end - at - key.size()));
}

// Reads a line such as "binding file USER [0] to LIBRARY [0]: normal symbol `cudnnCreate'
// [libcudnn.so.9]".
void ReadBinding(const std::string& line, ProcessView& view) {
  size_t user_end = 0, end = 0;
  std::string user = LoggedName(line, "binding file ", user_end);
  if (user.empty()) return;
  std::string library = LoggedName(std::string_view(line).substr(user_end), "] to ", end);
  // If user == library, the line is about the library's call of its own function or about a
  // look-up by dlsym(). Only the line about a call ends with the version in brackets.
  if (user == library && line.back() == ']') return;
  const bool known =
      std::any_of(view.bindings.begin(), view.bindings.end(), [&](const CudnnBinding& binding) {
        return binding.user == user && binding.library == library;
      });
  if (!known) view.bindings.push_back({std::move(user), std::move(library)});
}

}  // namespace

Status CheckProcess(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  if (access(folder.c_str(), F_OK) != 0) {
    return Status::Error("there is no process " + std::to_string(pid));
  }
  char target[1];
  if (readlink((folder + "/exe").c_str(), target, sizeof target) < 0 && errno == ENOENT) {
    return Status::Error("process " + std::to_string(pid) +
                         " runs no program: it is the kernel's, " + "or has just ended");
  }
  return Status::Ok();
}

Result<ProcessView> ViewRunningProcess(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const Result<std::string> maps = ReadTextFile(folder + "/maps");
  const Result<std::string> variables = ReadTextFile(folder + "/environ");
  if (!maps.ok() || !variables.ok()) {
    return Status::Error(
        "process " + std::to_string(pid) + " is " + OwnerOf(folder) +
        "'s and may not be looked into: " + (maps.ok() ? variables : maps).message());
  }
  ProcessView view;
  view.pid = pid;
  view.program = ReadLink(folder + "/exe");
  view.objects = MappedFiles(*maps);
  view.variables = ReadVariables(*variables);
  if (const Result<std::string> auxiliary = ReadTextFile(folder + "/auxv"); auxiliary.ok()) {
    view.secure = IsSecure(*auxiliary);
  }
  view.elsewhere = ReadLink(folder + "/ns/mnt") != ReadLink("/proc/self/ns/mnt");
  if (view.elsewhere || ReadLink(folder + "/root") != "/") view.root = folder + "/root";
  view.folder = ReadLink(folder + "/cwd");
  if (view.program.empty()) {
    return Status::Error("process " + std::to_string(pid) + " has just ended");
  }
  return view;
}

ProcessView ReadLoaderLog(std::istream& log) {
  ProcessView view;
  view.has_log = true;
  for (std::string line; std::getline(log, line);) {
    size_t end = 0;
    constexpr std::string_view kInit = "calling init: ";
    constexpr std::string_view kProgram = "initialize program: ";
    if (line.find(" symbol `cudnn") != std::string::npos) {
      ReadBinding(line, view);
    } else if (const size_t at = line.find(kInit); at != std::string::npos) {
      AddOnce(view.objects, line.substr(at + kInit.size()));
    } else if (const size_t name = line.find(kProgram); name != std::string::npos) {
      view.program = line.substr(name + kProgram.size());
    } else if (std::string path = LoggedName(line, "opening file=", end); !path.empty()) {
      const bool first = line.find("direct_opencount=1", end) != std::string::npos;
      if (!first) AddOnce(view.repeated, path);
      AddOnce(view.reopened, path);
    } else if (std::string file = LoggedName(line, "file=", end); !file.empty()) {
      const std::string_view rest = std::string_view(line).substr(end);
      size_t by_end = 0;
      if (std::string by = LoggedName(rest, "dynamically loaded by ", by_end); !by.empty()) {
        view.opened.push_back({std::move(file), std::move(by)});
      }
    }
  }
  return view;
}

}  // namespace ucudnn::command
