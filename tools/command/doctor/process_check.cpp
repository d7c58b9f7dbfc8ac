#include "command/doctor/process_check.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "command/run/elf.h"
#include "command/run/launch.h"
#include "command/run/program.h"

namespace ucudnn::command {
namespace {

constexpr std::string_view kSoname = "libcudnn.so.9";
// A libcudnn that needs this library is ucudnn's drop-in.
constexpr std::string_view kOwnSoname = "libucudnn.so.1";
constexpr std::string_view kDlsymHook = "libucudnn_dlsym.so";
constexpr std::string_view kDeleted = " (deleted)";

// Returns the path without ".." and links; returns it unchanged if that fails.
std::string Canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  return error ? path : canonical.string();
}

bool IsPartOfCudnn(const std::string& name) {
  return name.starts_with("libcudnn_") || name.starts_with("libucudnn");
}

void FindUser(const std::string& path, const ElfFile& elf, CudnnUse& use) {
  CudnnUser user{path, false, {}, elf.dynamic.rpath, elf.dynamic.runpath};
  for (const std::string& needed : elf.dynamic.needed) {
    if (!needed.starts_with("libcudnn.so.")) continue;
    user.linked = true;
    user.library = needed;
  }
  if (user.linked || elf.names_cudnn || elf.defines_cudnn) use.users.push_back(std::move(user));
}

void LookAt(const ProcessView& view, const std::string& mapped, CudnnUse& use) {
  const bool replaced = mapped.ends_with(kDeleted);
  const std::string path =
      view.root.empty()
          ? Canonical(mapped.substr(0, mapped.size() - (replaced ? kDeleted.size() : 0)))
          : mapped;
  const std::string name = NameOf(path);
  if (name.starts_with("libcuda.so")) use.driver = path;
  if (name.starts_with("libcudart.so")) use.cuda_runtime.push_back(path);
  const bool is_cudnn = name.starts_with("libcudnn.so");
  if (replaced && (is_cudnn || IsPartOfCudnn(name))) use.replaced.push_back(path);
  if (name == kDlsymHook) use.dlsym_hook = path;
  if (IsPartOfCudnn(name)) return;
  const Result<ElfFile> elf = ReadElf(view.root + path);
  if (!elf.ok() || !elf->is_x86_64) return;
  const std::string& soname = elf->dynamic.soname;
  if (is_cudnn || soname.starts_with("libcudnn.so")) {
    if (elf->dynamic.Needs(kOwnSoname)) {
      use.drop_in = path;
    } else {
      (soname == kSoname || name == kSoname ? use.real : use.other).push_back(path);
    }
    return;
  }
  if (elf->defines_cudnn) use.linked_in = path;
  if (elf->has_static_cudart && !name.starts_with("libcudart.so")) {
    use.cuda_runtime.push_back("linked into " + path);
  }
  FindUser(path, *elf, use);
}

// Returns whether objects other than the drop-in call the cuDNN at `path`. If `reopened`, the
// drop-in opened this cuDNN, and look-ups in it by dlsym() are the drop-in's.
bool IsCalled(const ProcessView& view, const std::string& path, bool reopened) {
  return std::any_of(view.bindings.begin(), view.bindings.end(), [&](const CudnnBinding& binding) {
    if (binding.library != path || IsPartOfCudnn(NameOf(binding.user))) return false;
    return binding.user != path || !reopened;
  });
}

// Adds to `use` what the loader's log shows: the libraries that were opened, the objects that
// opened them, and the objects that call them.
void ReadLog(const ProcessView& view, CudnnUse& use) {
  for (const CudnnBinding& binding : view.bindings) {
    if (use.drop_in.empty() || Canonical(binding.library) != use.drop_in) continue;
    const std::string user = NameOf(binding.user);
    if (IsPartOfCudnn(user) || user.starts_with("libcudnn.so")) continue;
    use.served.push_back(binding.user);
  }
  for (const std::string& path : view.reopened) {
    if (!use.drop_in.empty() && Canonical(path) == use.drop_in) use.opened = true;
  }
  for (const OpenedLibrary& opened : view.opened) {
    if (!NameOf(opened.path).starts_with("libcudnn.so")) continue;
    if (NameOf(opened.by).starts_with("libucudnn")) {
      use.called = true;
    } else if (!use.drop_in.empty() && Canonical(opened.path) != use.drop_in) {
      // The log does not show which object opens a library for a second time. If the process uses
      // the drop-in, too, this assumes that the drop-in opens opened.path the second time.
      const auto& again = view.repeated;
      const bool reopened = (use.opened || !use.dlsym_hook.empty() || !use.served.empty()) &&
                            std::find(again.begin(), again.end(), opened.path) != again.end();
      use.called |= reopened;
      use.second.push_back({opened.path, opened.by, IsCalled(view, opened.path, reopened)});
    }
  }
}

std::string UserText(const CudnnUser& user, bool may_have_opened) {
  std::string text = user.path;
  if (user.linked) {
    text += " (linked with " + user.library;
    if (!user.rpath.empty() && user.runpath.empty()) text += "; DT_RPATH " + user.rpath;
    if (!user.runpath.empty()) text += "; DT_RUNPATH " + user.runpath;
    return text + ")";
  }
  return text + (may_have_opened ? " (opened it while running: it has the name among its texts)"
                                 : " (has the name among its texts: it may open it)");
}

bool Names(const std::string& paths, const std::string& wanted) {
  const std::vector<std::string> all = Split(paths, ':');
  return std::any_of(all.begin(), all.end(),
                     [&](const std::string& path) { return Canonical(path) == Canonical(wanted); });
}

// Adds a fault with the reason why the drop-in is not in the process.
void ExplainAbsence(const ProcessView& view, const CudnnUse& use, const Installation& installation,
                    Diagnosis& diagnosis) {
  const std::string preload = ValueOf(view.variables, "LD_PRELOAD");
  const std::string path = ValueOf(view.variables, "LD_LIBRARY_PATH");
  const std::string what = "the drop-in is not in the process: its cuDNN calls are not seen";
  if (Names(preload, installation.drop_in)) {
    diagnosis.Add(
        Severity::kFault, what,
        view.secure ? "it started with more rights than its user (setuid, setgid or capabilities), "
                      "and then the loader drops LD_PRELOAD"
        : view.elsewhere ? "LD_PRELOAD names it, but the process is in a container of its own, "
                           "where that file is not"
                         : "LD_PRELOAD names it, but the loader did not take it",
        view.secure      ? "start it without these rights"
        : view.elsewhere ? "install ucudnn inside the container and start it there"
                         : "look at the program's first lines on stderr: the loader says why");
    return;
  }
  if (Names(path, FolderOf(installation.drop_in))) {
    const auto by_rpath = std::find_if(use.users.begin(), use.users.end(), [](const auto& user) {
      return user.linked && !user.rpath.empty() && user.runpath.empty();
    });
    diagnosis.Add(Severity::kFault, what,
                  by_rpath != use.users.end()
                      ? by_rpath->path +
                            " has DT_RPATH, which the loader follows before "
                            "LD_LIBRARY_PATH"
                      : "LD_LIBRARY_PATH leads to it, but cuDNN was opened by its own path",
                  "start it with `ucudnn run --`, which preloads the drop-in");
    return;
  }
  diagnosis.Add(Severity::kFault, what, "the process was started without it",
                view.elsewhere ? "install ucudnn inside its container and start it there with "
                                 "`ucudnn run --`"
                               : "start it with `ucudnn run --`");
}

}  // namespace

bool CudnnUse::Any() const {
  const bool linked =
      std::any_of(users.begin(), users.end(), [](const CudnnUser& user) { return user.linked; });
  return linked || opened || called || !real.empty() || !other.empty() || !second.empty() ||
         !linked_in.empty();
}

CudnnUse FindCudnnUse(const ProcessView& view) {
  CudnnUse use;
  std::vector<std::string> files = view.objects;
  if (std::find(files.begin(), files.end(), view.program) == files.end()) {
    files.push_back(view.program);
  }
  for (const std::string& file : files) LookAt(view, file, use);
  ReadLog(view, use);
  // TensorFlow and XLA define functions with cuDNN's names, which open libcudnn and forward the
  // calls. So a file with such functions counts as a static cuDNN only if nothing shows that the
  // process uses a libcudnn.
  std::string linked_in = std::exchange(use.linked_in, "");
  if (!use.Any()) use.linked_in = std::move(linked_in);
  // NVIDIA's own libraries contain static CUDA runtimes, so a static runtime counts only if the
  // process has no libcudart.
  const auto is_inside = [](const std::string& runtime) { return !runtime.starts_with('/'); };
  if (!std::all_of(use.cuda_runtime.begin(), use.cuda_runtime.end(), is_inside)) {
    std::erase_if(use.cuda_runtime, is_inside);
  }
  return use;
}

void AddUse(const ProcessView& view, const CudnnUse& use, Diagnosis& diagnosis) {
  diagnosis.AddFact("program", view.program + " (process " + std::to_string(view.pid) + ")");
  const auto list = [&](const char* name, const std::vector<std::string>& texts) {
    for (size_t i = 0; i < texts.size(); ++i) diagnosis.AddFact(i == 0 ? name : "", texts[i]);
  };
  list("its cuDNN", use.real);
  list("its cuDNN", use.other);
  if (!use.linked_in.empty()) diagnosis.AddFact("its cuDNN", "linked into " + use.linked_in);
  if (!use.drop_in.empty()) diagnosis.AddFact("its drop-in", use.drop_in);
  if (!use.dlsym_hook.empty()) diagnosis.AddFact("its dlsym hook", use.dlsym_hook);
  // An object that links cuDNN certainly uses it. Objects that only contain cuDNN's name are listed
  // if no object links cuDNN, or if the process opened cuDNN at run time.
  std::vector<std::string> users;
  const bool linked = std::any_of(use.users.begin(), use.users.end(),
                                  [](const CudnnUser& user) { return user.linked; });
  for (const CudnnUser& user : use.users) {
    if (user.linked || !linked || use.opened) users.push_back(UserText(user, use.opened));
  }
  if (users.empty() && use.opened) users.push_back("opened while running, by whom is not known");
  list("asked for by", users);
  list("its runtime", use.cuda_runtime);
  if (!use.driver.empty()) diagnosis.AddFact("its driver", use.driver);
  for (const CudnnUser& user : use.users) {
    if (!user.linked || user.rpath.empty() || !user.runpath.empty()) continue;
    diagnosis.Add(
        Severity::kNote, user.path + " has DT_RPATH " + user.rpath,
        "the loader follows it before LD_LIBRARY_PATH, so a drop-in can only be preloaded",
        "start it with `ucudnn run --`, which does");
  }
}

bool CheckInterception(const ProcessView& view, const CudnnUse& use,
                       const Installation& installation, Diagnosis& diagnosis) {
  for (const std::string& path : use.replaced) {
    diagnosis.Add(Severity::kWarning, path + " is another file by now than the one in the process",
                  "it was replaced or removed after the process started", "start the process anew");
  }
  if (!use.linked_in.empty()) {
    diagnosis.Add(Severity::kFault, "cuDNN is linked into " + use.linked_in + " statically",
                  "calls inside one file pass no library: they cannot be intercepted",
                  "link it with libcudnn.so.9 instead");
    return false;
  }
  for (const std::string& path : use.other) {
    diagnosis.Add(Severity::kFault, "the program uses " + path, "ucudnn is for cuDNN 9",
                  "use a build of the program for cuDNN 9");
  }
  const auto old = std::find_if(use.users.begin(), use.users.end(), [](const CudnnUser& user) {
    return user.linked && user.library != kSoname;
  });
  if (use.other.empty() && old != use.users.end()) {
    diagnosis.Add(Severity::kFault, old->path + " needs " + old->library, "ucudnn is for cuDNN 9",
                  "use a build of the program for cuDNN 9");
  }
  if (!use.other.empty() || old != use.users.end()) return false;
  if (!use.Any()) {
    diagnosis.Add(Severity::kFault,
                  view.has_log ? "the program used no cuDNN" : "the process has no cuDNN so far",
                  "nothing for ucudnn to do: perhaps it runs on the CPU, or has kernels of its own",
                  view.has_log ? "" : "look again when it has run its first convolution");
    return false;
  }
  if (use.drop_in.empty()) {
    ExplainAbsence(view, use, installation, diagnosis);
    return false;
  }
  bool reached = true;
  for (const SecondCudnn& second : use.second) {
    const std::string what =
        "a second cuDNN beside the drop-in: " + second.path + ", opened by " + second.opened_by;
    if (!use.dlsym_hook.empty()) {
      diagnosis.Add(Severity::kNote, what, "the dlsym hook redirects what is looked up in it");
      continue;
    }
    if (!second.called) {
      diagnosis.Add(Severity::kNote, what,
                    "nobody calls it" + (use.served.empty() ? std::string()
                                                            : "; the drop-in gets the calls of " +
                                                                  Join(use.served, ", ")));
      continue;
    }
    reached = reached && use.called;
    diagnosis.Add(use.called ? Severity::kWarning : Severity::kFault, what,
                  "who opens a library by its path gets that file: its calls are not seen",
                  "start it with `ucudnn run --dlsym on --`, or let it open libcudnn.so.9 by name");
  }
  for (const std::string& real : use.real) {
    CheckExports(view.root + use.drop_in, view.root + real, diagnosis);
  }
  if (view.root.empty() && use.drop_in != Canonical(installation.drop_in)) {
    diagnosis.Add(Severity::kNote, "the drop-in is another installation's: " + use.drop_in);
  }
  return reached;
}

void CheckCuda(const ProcessView& view, const CudnnUse& use, int cuda_driver,
               Diagnosis& diagnosis) {
  if (!use.real.empty() && use.driver.empty()) {
    diagnosis.Add(Severity::kWarning, "the process has cuDNN, but no CUDA driver",
                  view.elsewhere ? "its container may have been started without GPUs" : "",
                  view.elsewhere ? "start the container with its GPUs (docker run --gpus all)"
                                 : DriverAdvice());
  }
  for (const std::string& runtime : use.cuda_runtime) {
    const size_t version = runtime.find(".so.");
    if (cuda_driver == 0 || version == std::string::npos) continue;
    const int major = std::atoi(runtime.c_str() + version + 4);
    if (major <= cuda_driver / 1000) continue;
    diagnosis.Add(Severity::kFault, "the driver is too old for " + runtime,
                  "the driver serves CUDA up to " + std::to_string(cuda_driver / 1000) +
                      ", the program is for CUDA " + std::to_string(major),
                  "update the driver, or use a build of the program for an older CUDA");
  }
}

}  // namespace ucudnn::command
