// Rows of a measurement store, with everything that the store and the CSV form keep of them.
#pragma once

#include <string>
#include <vector>

#include "convolution/problem.h"
#include "planning/measurement_store.h"

namespace ucudnn::db {

struct StoredMeasurement {
  std::string name;  // name of the layer; informational, may be empty
  // Its n is the mini-batch for which the row was measured: informational, 0 if unknown.
  ConvolutionProblem problem;
  planning::Platform platform;
  planning::Measurement measurement;
  // Every engine was measured at its micro-batch; assumed for rows in a CSV file.
  bool complete = true;

  bool operator==(const StoredMeasurement&) const = default;
};

struct StoredRows {
  std::vector<StoredMeasurement> measurements;
  std::vector<planning::EnginePromise> promises;

  bool operator==(const StoredRows&) const = default;
};

}  // namespace ucudnn::db
