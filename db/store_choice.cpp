#include "db/store_choice.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "db/store_file.h"

namespace ucudnn::db {
namespace {

struct FileSystem {
  uint32_t type;
  const char* name;
};

// Some of these numbers are in linux/magic.h; the others are in the sources of the file systems.
constexpr FileSystem kNetworkFileSystems[] = {
    {0x00006969, "NFS"},    {0x0000517b, "SMB"},    {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB2"},   {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
    {0x19830326, "BeeGFS"}, {0x00c36400, "CephFS"}, {0x5346414f, "AFS"},
    {0x6b414653, "AFS"},    {0x73757245, "Coda"},   {0x01021997, "9p"},
    {0x7461636f, "OCFS2"},  {0x01161970, "GFS2"},   {0xaad7aaea, "PanFS"},
    {0x65735546, "FUSE"},   {0x0000564c, "NCP"},    {0x20030528, "OrangeFS"},
};

constexpr size_t kMostHostCharacters = 64;

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::string SafeName(std::string_view host) {
  std::string safe(host.substr(0, kMostHostCharacters));
  for (char& character : safe) {
    const bool kept =
        (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
        (character >= '0' && character <= '9') || character == '.' || character == '-';
    if (!kept) character = '_';
  }
  return safe.empty() ? "host" : safe;
}

}  // namespace

const char* NetworkFileSystemName(uint32_t type) {
  const auto* const found =
      std::find_if(std::begin(kNetworkFileSystems), std::end(kNetworkFileSystems),
                   [&](const FileSystem& system) { return system.type == type; });
  return found != std::end(kNetworkFileSystems) ? found->name : nullptr;
}

uint32_t FileSystemType(const std::string& path) {
  struct statfs info;
  std::string nearest = path;
  while (statfs(nearest.c_str(), &info) != 0) {
    const size_t slash = nearest.find_last_of('/');
    if (nearest == "/" || nearest == ".") return 0;
    nearest = slash == std::string::npos ? "." : slash == 0 ? "/" : nearest.substr(0, slash);
  }
  return static_cast<uint32_t>(info.f_type);
}

std::string HostFile(const std::string& path, std::string_view host) {
  const std::string suffix = "-" + SafeName(host);
  const size_t stem = StemLength(path);
  if (std::string_view(path).substr(0, stem).ends_with(suffix)) return path;
  return path.substr(0, stem) + suffix + path.substr(stem);
}

StoreChoice ChooseStores(std::vector<std::string> named, uint32_t type, std::string_view host) {
  StoreChoice choice{std::move(named)};
  if (choice.paths.empty()) return choice;
  choice.network = NetworkFileSystemName(type);
  if (choice.network == nullptr) return choice;
  std::string own = HostFile(choice.paths.front(), host);
  if (own == choice.paths.front()) return choice;
  choice.paths.insert(choice.paths.begin() + 1, std::move(own));
  choice.written = 1;
  return choice;
}

StoreChoice ChooseStores(std::vector<std::string> named) {
  const uint32_t type = named.empty() ? 0 : FileSystemType(named.front());
  return ChooseStores(std::move(named), type, HostName());
}

}  // namespace ucudnn::db
