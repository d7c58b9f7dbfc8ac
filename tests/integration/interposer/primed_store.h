// Writes measurements to the store before ucudnn reads it, so that the test and not the machine
// decides what is fastest. With UCUDNN_TUNE=off ucudnn has no other measurements.
#pragma once

#include <functional>
#include <vector>

#include "db/stored_measurement.h"

namespace ucudnn::test {

// Returns the milliseconds of `algorithm` at `micro_batch` images; negative if it is not measured.
using Cost = std::function<double(int algorithm, int micro_batch)>;

// Returns measurements of all algorithms of the stand-in for `problem` (as ucudnn reads it) at each
// of `sizes`. Workspaces and determinism are real, and times come from `cost`. Summing partial
// gradients takes no time.
std::vector<planning::Measurement> Offered(const ConvolutionProblem& problem,
                                           const std::vector<int>& sizes, const Cost& cost);

class PrimedStore {
 public:
  // Adds Offered(problem, sizes, cost), as measured on the platform of these tests.
  void Add(const ConvolutionProblem& problem, const std::vector<int>& sizes, const Cost& cost);
  // Writes all rows to DatabasePath(); `verified` says whether they are marked as compared.
  void Write(bool verified = true);

 private:
  std::vector<db::StoredMeasurement> rows_;
};

// Returns a cost by which pieces of `piece` of `n` images are by far the fastest, with all direct
// algorithms.
Cost DividedInto(int piece, int n);

// Returns the sizes `piece`, `n`, and the legal sizes of what remains of `n` after pieces.
std::vector<int> SizesFor(int piece, int n, int step);

// Returns the workspace in bytes that summing partial gradients takes, or 0 if `problem` has none.
size_t PartialSumRoom(const ConvolutionProblem& problem);

// Returns a size of pieces that leaves a smaller remainder, if n and the step allow that; n if it
// cannot be divided.
int UnequalPiece(int n, int step);

}  // namespace ucudnn::test
