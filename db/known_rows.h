// Rows that several stores hold under one key: the first store's count. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "db/stored_measurement.h"

namespace ucudnn::db {

class KnownRows {
 public:
  enum class Kind { kNew, kEqual, kDiffering };

  // Whether a row of this key was there before, and said the same of the micro-batch. The first one
  // stays.
  Kind Add(const StoredMeasurement& row);

 private:
  std::map<std::vector<std::string>, MicroConfiguration> rows_;
};

}  // namespace ucudnn::db
