// The measurements of several stores by key. If several stores have the same key, the first store's
// row counts. Not thread-safe.
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
