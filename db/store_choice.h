// Chooses the files in which a run keeps its measurements. If the user's first file is on a network
// file system, the run only reads it, and each host writes its own file beside it. Locks over a
// network are slow or unreliable, so no two hosts write one file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::db {

// Returns the name of the network file system whose statfs() type is `type`; null for other types.
// FUSE counts as a network file system, because the file system behind it is unknown.
const char* NetworkFileSystemName(uint32_t type);

// Returns the statfs() type of the file system of `path`, or of its nearest existing parent folder;
// 0 if unknown.
uint32_t FileSystemType(const std::string& path);

// Returns NAME-HOST.EXT for NAME.EXT. The first 64 characters of `host` are used; characters other
// than letters, digits, dots and dashes become underscores. Returns `path` itself if NAME ends with
// -HOST already.
std::string HostFile(const std::string& path, std::string_view host);

struct StoreChoice {
  // The files in the order of precedence: the shared file precedes the host's own file, so that all
  // hosts use the same rows if somebody merged rows into the shared file.
  std::vector<std::string> paths;
  size_t written = 0;  // index of the file that is also written
  // The name of the network file system if ChooseStores added a file for this host; null for a
  // local file system.
  const char* network = nullptr;
};

// Adds this host's own file to the user's stores `named` if the first of them is on a network file
// system. `type` is the statfs() type of that first file's file system.
StoreChoice ChooseStores(std::vector<std::string> named, uint32_t type, std::string_view host);
// Calls the other overload with this process's host name and the file system of the first store.
StoreChoice ChooseStores(std::vector<std::string> named);

}  // namespace ucudnn::db
