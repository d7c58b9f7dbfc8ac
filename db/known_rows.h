// Rows that several stores hold under one key. The row of the first store counts. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "db/stored_measurement.h"

namespace ucudnn::db {

class KnownRows {
 public:
  enum class Kind { kNew, kEqual, kDiffering };

  // Adds a row. Returns whether a row with the same key was there before, and whether it had the
  // same measurement. The first row stays.
  Kind Add(const StoredMeasurement& row);

 private:
  std::map<std::vector<std::string>, MicroConfiguration> rows_;
};

}  // namespace ucudnn::db
