// Removes the rows of a device that were measured with an older cuDNN or driver than the device's
// newest rows.
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
  // Platforms to remove, each with the number of its rows.
  std::vector<std::pair<planning::Platform, size_t>> platforms;
  size_t kernels = 0;  // number of families to which only these rows refer
  std::string file;    // path of the pruned file, which may be a sibling of the named file
  uint64_t bytes_before = 0, bytes_after = 0;  // size of the file
};

// Finds the rows to remove from `device` or, if `device` is empty, from every device. Each device
// keeps the rows of its newest platform, which has the highest cuDNN version and, among platforms
// with equal cuDNN versions, the highest driver version. Rows with an unknown version are kept,
// because that version may be the newest one.
Result<Pruned> FindOldRows(Connection& connection, const std::string& device);

// Removes the rows of `old`'s platforms from all tables, and then the families to which no row
// refers. Returns the number of removed families. The caller holds a transaction. The file must
// have the current schema version.
Result<size_t> RemoveRows(Connection& connection, const Pruned& old);

}  // namespace ucudnn::db
