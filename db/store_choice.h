// Which files a run keeps its measurements in. A file on a network file system is only read, and a
// sibling for each host is written beside it: locks over a network are slow, or do not work, or
// only seem to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::db {

// The name of the network file system that statfs() calls `type`; null for others. All of FUSE
// counts: what is behind it cannot be told.
const char* NetworkFileSystemName(uint32_t type);

// What statfs() calls the file system that holds `path`, or will hold it; 0 when that is unknown.
uint32_t FileSystemType(const std::string& path);

// NAME-HOST.EXT for NAME.EXT. Letters, digits, dots and dashes of the host's name stay, others
// become underscores, and no more than 64; `path` itself when it ends so already.
std::string HostFile(const std::string& path, std::string_view host);

struct StoreChoice {
  // To be read in this order: a row of the file that all hosts read counts before the host's own,
  // so that hosts agree on what was merged into it.
  std::vector<std::string> paths;
  size_t written = 0;             // the one that is written, too
  const char* network = nullptr;  // the file system for which that one is this host's own
};

// Chooses among the stores that a user named, of which the first lies on a file system of `type`.
StoreChoice ChooseStores(std::vector<std::string> named, uint32_t type, std::string_view host);
// The same for this process's host and the file system that the first store lies on.
StoreChoice ChooseStores(std::vector<std::string> named);

}  // namespace ucudnn::db
