// The measurements of several stores by key. The first store's row counts if several stores have
// the same key. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "db/stored_measurement.h"

namespace ucudnn::db {

class KnownRows {
 public:
  enum class Kind { kNew, kEqual, kDiffering };

  // Adds `row` and returns kNew if no row with the same key is known. Otherwise returns kEqual or
  // kDiffering, which says whether the known row has the same measurement.
  Kind Add(const StoredMeasurement& row);

 private:
  std::map<std::vector<std::string>, MicroConfiguration> rows_;
};

}  // namespace ucudnn::db
