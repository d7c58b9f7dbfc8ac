// Compares the rows of several stores by key. The first row that is added with a key is kept. Not
// thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "db/stored_measurement.h"

namespace ucudnn::db {

class KnownRows {
 public:
  enum class Kind { kNew, kEqual, kDiffering };

  // Adds `row` and returns kNew if no row with the same key was added before. Otherwise adds
  // nothing; returns kEqual if the kept row has the same measurement, and kDiffering if not.
  Kind Add(const StoredMeasurement& row);

 private:
  std::map<std::vector<std::string>, MicroConfiguration> rows_;
};

}  // namespace ucudnn::db
