#include "cudnn/real_path.h"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>

#include "base/shared_library.h"
#include "base/text.h"
#include "base/text_file.h"
#include "cudnn/dynamic_section.h"
#include "cudnn/loader_cache.h"

namespace ucudnn::cudnn {
namespace {

constexpr char kSoname[] = "libcudnn.so.9";
// A file whose DT_NEEDED lists this library is a copy of ucudnn's drop-in.
constexpr char kOwnSoname[] = "libucudnn.so.1";
constexpr char kLoaderCache[] = "/etc/ld.so.cache";

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Returns an empty text if there is no such file.
std::string CanonicalPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real != nullptr ? std::string(real.get()) : std::string();
}

// Returns the sub-libraries that `path` opens by name but that are not in its folder. The cuDNN 9
// library itself is small and contains the names of its sub-libraries; a static build or a stand-in
// contains none, and needs none.
std::vector<std::string> MissingParts(const std::string& path) {
  constexpr off_t kSmall = 4 << 20;  // the small library of 9.19 has 129 KB
  std::vector<std::string> missing;
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || status.st_size > kSmall) return missing;
  const std::string bytes = TextFileOrEmpty(path);
  for (const char* part : {"graph", "ops", "cnn", "adv"}) {
    const std::string name = std::string("libcudnn_") + part + ".so";
    if (bytes.find(name) == std::string::npos) continue;
    if (access((FolderOf(path) + "/" + name + ".9").c_str(), R_OK) != 0) {
      missing.push_back(name + ".9");
    }
  }
  return missing;
}

bool IsSelf(const LibraryFile& library, const void* self) {
  Dl_info info;
  struct stat own;
  return self != nullptr && dladdr(self, &info) != 0 && info.dli_fname != nullptr &&
         stat(info.dli_fname, &own) == 0 && own.st_dev == library.device &&
         own.st_ino == library.inode;
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Returns whether `directory` is one of the loader's default directories. The loader searches them
// last, after the directories of LD_LIBRARY_PATH.
bool IsDefaultDirectory(const std::string& directory) {
  static constexpr const char* kDefaults[] = {"/lib",
                                              "/usr/lib",
                                              "/lib64",
                                              "/usr/lib64",
                                              "/lib/x86_64-linux-gnu",
                                              "/usr/lib/x86_64-linux-gnu"};
  return std::find(std::begin(kDefaults), std::end(kDefaults), directory) != std::end(kDefaults);
}

class Search {
 public:
  Search(const void* self, const AcceptReal& accept) : self_(self), accept_(accept) {}

  // Tries one path. Returns true when the search is over; result_.path then is the path of the real
  // library.
  bool Take(const std::string& path) {
    if (!result_.path.empty()) return true;
    if (!seen_.insert(path).second) return false;
    const std::string canonical = CanonicalPath(path);
    if (canonical.empty()) return Refuse(path, "no such file");
    // The canonical path is tried first, because the loader may already have loaded another file by
    // the given name. The canonical path may fail if each library is a link into a store, because
    // only the folder of the links then has all sub-libraries.
    Status status = CheckReal(canonical, self_);
    std::string chosen = canonical;
    if (!status.ok() && path.starts_with('/') && canonical != path && CheckReal(path, self_).ok()) {
      status = Status::Ok();
      chosen = path;
    }
    if (status.ok() && accept_) status = accept_(chosen);
    if (!status.ok()) return Refuse(path, status.message());
    result_.path = chosen;
    return true;
  }

  bool TakeFrom(const std::vector<std::string>& directories) {
    return std::any_of(directories.begin(), directories.end(), [&](const std::string& directory) {
      return Take(directory + "/" + kSoname);
    });
  }

  RealSearch& result() { return result_; }

 private:
  bool Refuse(const std::string& path, const std::string& reason) {
    result_.tried.push_back(path + ": " + reason);
    return false;
  }

  const void* self_;
  const AcceptReal& accept_;
  std::set<std::string> seen_;
  RealSearch result_;
};

bool TakeLoaded(Search& search, const std::vector<LoadedObject>& objects) {
  for (const LoadedObject& object : objects) {
    if (object.dynamic.soname == kSoname || NameOf(object.path) == kSoname) {
      if (search.Take(object.path)) return true;
    }
  }
  // If a sub-library is loaded already, the library beside it is preferred, because cuDNN refuses
  // sub-libraries of two versions.
  for (const LoadedObject& object : objects) {
    if (object.dynamic.soname.starts_with("libcudnn_") &&
        object.dynamic.soname.ends_with(".so.9")) {
      if (search.TakeFrom({FolderOf(object.path)})) return true;
    }
  }
  return false;
}

bool TakeFromRunPaths(Search& search, const std::vector<LoadedObject>& objects,
                      std::string DynamicSection::*kind) {
  for (const bool needs_cudnn : {true, false}) {
    for (const LoadedObject& object : objects) {
      if (object.dynamic.Needs(kSoname) != needs_cudnn) continue;
      // The loader ignores the DT_RPATH of an object with a DT_RUNPATH.
      if (kind == &DynamicSection::rpath && !object.dynamic.runpath.empty()) continue;
      if (search.TakeFrom(ExpandRunPath(object.dynamic.*kind, object.path))) return true;
    }
  }
  return false;
}

void SearchEverywhere(Search& search, const char* configured) {
  if (configured != nullptr && configured[0] != '\0') {
    if (search.Take(configured)) return;
    search.result().ignored.push_back(search.result().tried.back());
  }
  const std::vector<LoadedObject> objects = LoadedObjects();
  if (TakeLoaded(search, objects)) return;
  if (TakeFromRunPaths(search, objects, &DynamicSection::rpath)) return;
  std::vector<std::string> from_environment = ProgramSearchDirectories();
  std::vector<std::string> defaults;
  while (!from_environment.empty() && IsDefaultDirectory(from_environment.back())) {
    defaults.insert(defaults.begin(), std::move(from_environment.back()));
    from_environment.pop_back();
  }
  if (search.TakeFrom(from_environment)) return;
  if (TakeFromRunPaths(search, objects, &DynamicSection::runpath)) return;
  for (const std::string& path : FindInLoaderCache(TextFileOrEmpty(kLoaderCache), kSoname)) {
    if (search.Take(path)) return;
  }
  search.TakeFrom(defaults);
}

}  // namespace

std::vector<std::string> ExpandRunPath(const std::string& paths, const std::string& object) {
  std::vector<std::string> expanded;
  const auto* platform = reinterpret_cast<const char*>(getauxval(AT_PLATFORM));
  for (std::string path : Split(paths, ':')) {
    if (path.empty()) continue;
    for (const char* name : {"$ORIGIN", "${ORIGIN}"}) ReplaceAll(path, name, FolderOf(object));
    for (const char* name : {"$PLATFORM", "${PLATFORM}"}) {
      ReplaceAll(path, name, platform != nullptr ? platform : "x86_64");
    }
    if (path.find("$LIB") == std::string::npos && path.find("${LIB}") == std::string::npos) {
      expanded.push_back(std::move(path));
      continue;
    }
    for (const char* lib : {"lib/x86_64-linux-gnu", "lib64", "lib"}) {
      std::string variant = path;
      for (const char* name : {"$LIB", "${LIB}"}) ReplaceAll(variant, name, lib);
      expanded.push_back(std::move(variant));
    }
  }
  return expanded;
}

Status CheckReal(const std::string& path, const void* self) {
  UCUDNN_ASSIGN_OR_RETURN(const LibraryFile library, ReadLibraryFile(path));
  if (IsSelf(library, self)) return Status::Error("is ucudnn's own drop-in");
  if (library.dynamic.Needs(kOwnSoname)) return Status::Error("is a copy of ucudnn's drop-in");
  const std::string& soname = library.dynamic.soname;
  if (soname.starts_with("libcudnn.so.") && soname != kSoname) {
    return Status::Error("is another cuDNN (" + soname + "); ucudnn works with cuDNN 9 only");
  }
  if (soname != kSoname) {
    return Status::Error("is not cuDNN 9: its SONAME is '" + soname + "', not " + kSoname);
  }
  if (const std::vector<std::string> missing = MissingParts(path); !missing.empty()) {
    return Status::Error("lacks " + missing.front() + " in its own folder");
  }
  return Status::Ok();
}

RealSearch FindReal(const char* configured, const void* self, const AcceptReal& accept) {
  Search search(self, accept);
  SearchEverywhere(search, configured);
  return std::move(search.result());
}

}  // namespace ucudnn::cudnn
