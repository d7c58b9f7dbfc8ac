// Writes measurements before ucudnn reads any, so that tests and not the machine decide what is
// optimal. With UCUDNN_TUNE=off nothing else is known.
#pragma once

#include <functional>
#include <vector>

#include "db/stored_measurement.h"

namespace ucudnn::test {

// Returns the milliseconds of `algorithm` at `micro_batch` images; negative if it is not measured.
using Cost = std::function<double(int algorithm, int micro_batch)>;

// Returns what the stand-in offers for `problem` (as ucudnn reads it) at each of `sizes`. Workspace
// and determinism are real, and times come from `cost`; if pieces write partials, summing them
// takes no time.
std::vector<planning::Measurement> Offered(const ConvolutionProblem& problem,
                                           const std::vector<int>& sizes, const Cost& cost);

class PrimedStore {
 public:
  // Adds what is offered, as measured on the platform of these tests.
  void Add(const ConvolutionProblem& problem, const std::vector<int>& sizes, const Cost& cost);
  // Writes everything to DatabasePath(), as if this machine had compared all plans before, or none.
  void Write(bool verified = true);

 private:
  std::vector<db::StoredMeasurement> rows_;
};

// Returns a cost by which pieces of `piece` images are by far the fastest, with every direct
// algorithm.
Cost DividedInto(int piece, int n);

// Returns `piece`, what it leaves of `n` in legal sizes, and `n`.
std::vector<int> SizesFor(int piece, int n, int step);

// Returns the workspace for the sum of partials if pieces of `problem` write them.
size_t PartialSumRoom(const ConvolutionProblem& problem);

// Returns a piece that leaves an unequal remainder if n and the step allow it, or n if it cannot be
// divided.
int UnequalPiece(int n, int step);

}  // namespace ucudnn::test
