// Rows of a measurement store, with all that the store and the CSV form keep of them.
#pragma once

#include <string>
#include <vector>

#include "convolution/problem.h"
#include "planning/measurement_store.h"

namespace ucudnn::db {

struct StoredMeasurement {
  std::string name;  // of the layer; informational, may be empty
  // Its n is the mini-batch the row was measured for: informational, 0 when unknown.
  ConvolutionProblem problem;
  planning::Platform platform;
  planning::Measurement measurement;
  // Every engine was measured at its micro-batch; of rows in a CSV file it is taken for granted.
  bool complete = true;

  bool operator==(const StoredMeasurement&) const = default;
};

struct StoredRows {
  std::vector<StoredMeasurement> measurements;
  std::vector<planning::EnginePromise> promises;

  bool operator==(const StoredRows&) const = default;
};

}  // namespace ucudnn::db
