// Functions that read every page and every row of one store file, and report its contents and
// faults. They write nothing. They do not read the siblings of an unusable file (StoreFile).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "db/stored_measurement.h"

namespace ucudnn::db {

struct StoreContents {
  int64_t version = 0;  // schema version; 0: the file has no tables yet
  size_t kernels = 0;
  size_t rows = 0;
  size_t verified = 0;          // verifications (RowWriter::MarkVerified)
  size_t imported = 0;          // rows that were copied from other stores or CSV files
  size_t incomplete_sizes = 0;  // micro-batches that have rows but were not marked complete
  size_t promises = 0;
  // The number of rows of each (device, (cuDNN version, driver version)).
  std::map<std::pair<std::string, std::pair<int, int>>, size_t> platforms;
  std::vector<std::string> faults;  // one line each; empty for an intact store
};

// Fails if the file cannot be read at all. If the file is damaged, belongs to another program or
// has a newer schema, `faults` has only this one fault.
Result<StoreContents> Inspect(const std::string& path);

// Reads all rows in the order in which they were written. Fails if the file is damaged, belongs to
// another program or has a newer schema. Skips a row with impossible values, with a warning.
Result<StoredRows> ReadStore(const std::string& path);

}  // namespace ucudnn::db
