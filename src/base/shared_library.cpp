#include "base/shared_library.h"

#include <dlfcn.h>

#include <cstddef>
#include <new>

namespace ucudnn {
namespace {

// Reads and clears the loader's error, so that the application's next dlerror() does not report it.
std::string TakeLoaderError() {
  const char* message = dlerror();
  return message != nullptr ? message : "the loader gave no reason";
}

}  // namespace

Result<SharedLibrary> SharedLibrary::Open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status::Error(TakeLoaderError());
  return SharedLibrary(handle);
}

Result<SharedLibrary> SharedLibrary::Loaded(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle != nullptr) return SharedLibrary(handle);
  dlerror();  // clears an error that the loader may have left
  return Status::Error(name + " is not loaded");
}

void* SharedLibrary::Symbol(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr) dlerror();
  return address;
}

std::string FileOf(const void* address) {
  Dl_info info = {};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::vector<std::string> ProgramSearchDirectories() {
  std::vector<std::string> directories;
  void* program = dlopen(nullptr, RTLD_NOW);
  Dl_serinfo size{};
  if (program == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) {
    dlerror();
    return directories;
  }
  // The loader fills a structure of size.dls_size bytes. operator new aligns enough for it.
  void* const storage = ::operator new(size.dls_size);
  auto* info = static_cast<Dl_serinfo*>(storage);
  info->dls_size = size.dls_size;
  info->dls_cnt = size.dls_cnt;
  if (dlinfo(program, RTLD_DI_SERINFO, info) == 0) {
    // The member dls_serpath is declared as an array of one element, but holds dls_cnt entries.
    // They are read through a pointer to its first byte.
    const auto* entries = reinterpret_cast<const Dl_serpath*>(static_cast<const char*>(storage) +
                                                              offsetof(Dl_serinfo, dls_serpath));
    for (unsigned i = 0; i < info->dls_cnt; ++i) directories.emplace_back(entries[i].dls_name);
  } else {
    dlerror();
  }
  ::operator delete(storage);
  return directories;
}

}  // namespace ucudnn
