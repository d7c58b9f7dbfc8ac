// The contents of a store file, and its faults: every page and every row is read, nothing is
// written, and no other file takes its place.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "db/stored_measurement.h"

namespace ucudnn::db {

struct StoreContents {
  int64_t version = 0;  // of the schema; 0: no tables yet
  size_t kernels = 0;
  size_t rows = 0;
  size_t verified = 0;          // by processes that used this store
  size_t imported = 0;          // rows from outside
  size_t incomplete_sizes = 0;  // sizes with rows and engines missing
  size_t promises = 0;
  // Number of rows of each.
  std::map<std::pair<std::string, std::pair<int, int>>, size_t> platforms;
  std::vector<std::string> faults;  // one line each; none in a sound store
};

// Fails if the file cannot be read at all; if it is damaged, foreign or newer, that is its only
// fault.
Result<StoreContents> Inspect(const std::string& path);

// Reads all rows of a sound file, in the order in which they were written. Fails for a file that
// Inspect finds unusable, and warns of a row that makes no sense.
Result<StoredRows> ReadStore(const std::string& path);

}  // namespace ucudnn::db
