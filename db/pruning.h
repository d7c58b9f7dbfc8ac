// Removes rows that no run will ask for again: those of a device's older cuDNN or driver.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "db/connection.h"
#include "planning/measurement_store.h"

namespace ucudnn::db {

struct Pruned {
  std::vector<std::pair<planning::Platform, size_t>> platforms;  // with the number of their rows
  size_t kernels = 0;  // kernels that only these rows refer to
  std::string file;    // the file that the path names, or the sibling in its place
  uint64_t bytes_before = 0, bytes_after = 0;  // size of the file
};

// Finds the rows to remove: for `device`, or for every device if that is empty, the rows of all
// platforms except the one with the newest cuDNN, then driver. Rows of unknown versions stay,
// because they cannot be known to be old.
Result<Pruned> FindOldRows(Connection& connection, const std::string& device);

// Removes the rows, everything that refers to those platforms, and kernels that nothing refers to
// any more. The caller holds a transaction. The file must have the current schema version. Returns
// the number of kernels removed.
Result<size_t> RemoveRows(Connection& connection, const Pruned& old);

}  // namespace ucudnn::db
