// Removing rows that no run will ask for again: those of a device's older cuDNN or driver.
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
  std::vector<std::pair<planning::Platform, size_t>> platforms;  // and their rows
  size_t kernels = 0;  // that nothing refers to without those rows
  std::string file;    // the one these are in: named, or the sibling in its place
  uint64_t bytes_before = 0, bytes_after = 0;  // its size
};

// What there is to remove: of `device`, or of every device where that is empty, the rows of all
// platforms but the one with the newest cuDNN, then driver. Rows of unknown versions stay: nobody
// can say that they are old.
Result<Pruned> FindOldRows(Connection& connection, const std::string& device);

// Removes them with all that refers to those platforms, and kernels nothing refers to any more. The
// caller holds a transaction. The file is of the current schema version. Gives the kernels removed.
Result<size_t> RemoveRows(Connection& connection, const Pruned& old);

}  // namespace ucudnn::db
