// Rows of a measurement store or of its CSV form.
#pragma once

#include <string>
#include <vector>

#include "convolution/problem.h"
#include "planning/measurement_store.h"

namespace ucudnn::db {

struct StoredMeasurement {
  std::string name;  // layer name for people; may be empty
  // problem.n is the mini-batch for which the row was measured, as information for people; 0:
  // unknown.
  ConvolutionProblem problem;
  planning::Platform platform;
  planning::Measurement measurement;
  // True if every engine was measured at this row's micro-batch. Rows from a CSV file count as
  // complete.
  bool complete = true;

  bool operator==(const StoredMeasurement&) const = default;
};

struct StoredRows {
  std::vector<StoredMeasurement> measurements;
  std::vector<planning::EnginePromise> promises;

  bool operator==(const StoredRows&) const = default;
};

}  // namespace ucudnn::db
