// What a store file holds and what is wrong with it: every page and every row is read, nothing is
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
  size_t imported = 0;          // came from outside
  size_t incomplete_sizes = 0;  // sizes with rows and engines missing
  size_t promises = 0;
  std::map<std::pair<std::string, std::pair<int, int>>, size_t> platforms;  // rows of each
  std::vector<std::string> faults;  // one line each; none in a sound store
};

// An error when the file cannot be read at all; a file that is damaged, foreign or newer has that
// as its only fault.
Result<StoreContents> Inspect(const std::string& path);

// All rows of a sound file, in the order they were written. A file that Inspect finds unusable is
// an error, a row that makes no sense a warning.
Result<StoredRows> ReadStore(const std::string& path);

}  // namespace ucudnn::db
