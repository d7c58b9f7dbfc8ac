// Chooses the files in which a run keeps its measurements. A file on a network file system is only
// read, and a sibling for each host is written beside it: locks over a network are slow, or do not
// work, or only seem to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::db {

// Returns the name of the network file system with the statfs() type `type`; null for others. All
// of FUSE counts, because the file system behind it is unknown.
const char* NetworkFileSystemName(uint32_t type);

// Returns the statfs() type of the file system that holds `path`, or will hold it; 0 if unknown.
uint32_t FileSystemType(const std::string& path);

// Returns NAME-HOST.EXT for NAME.EXT. Letters, digits, dots and dashes of the host's name stay,
// others become underscores, 64 characters at most. Returns `path` itself if it ends so already.
std::string HostFile(const std::string& path, std::string_view host);

struct StoreChoice {
  // The files in the order in which they are read: a row of the file that all hosts read counts
  // before the host's own, so that hosts agree on rows that were merged into it.
  std::vector<std::string> paths;
  size_t written = 0;  // number of the file that is also written
  // The network file system because of which that file is this host's own.
  const char* network = nullptr;
};

// Chooses among the stores that a user named, the first of which lies on a file system of `type`.
StoreChoice ChooseStores(std::vector<std::string> named, uint32_t type, std::string_view host);
// ChooseStores for this process's host and the file system of the first store.
StoreChoice ChooseStores(std::vector<std::string> named);

}  // namespace ucudnn::db
