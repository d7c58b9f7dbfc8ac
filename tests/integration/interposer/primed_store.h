// Measurements written before ucudnn reads any, so that tests decide what is optimal instead of
// the machine's mood. With UCUDNN_TUNE=off nothing else is known.
#pragma once

#include <functional>
#include <vector>

#include "db/stored_measurement.h"

namespace ucudnn::test {

// Milliseconds of `algorithm` at `micro_batch` images; negative: not measured.
using Cost = std::function<double(int algorithm, int micro_batch)>;

// What the stand-in offers for `problem` (as ucudnn reads it) at each of `sizes`, workspace and
// determinism as they are, times by `cost`; where pieces write partials, summing them takes no
// time.
std::vector<planning::Measurement> Offered(const ConvolutionProblem& problem,
                                           const std::vector<int>& sizes, const Cost& cost);

class PrimedStore {
 public:
  // What is offered, as measured on the platform of these tests.
  void Add(const ConvolutionProblem& problem, const std::vector<int>& sizes, const Cost& cost);
  // Writes everything to DatabasePath(), as if this machine had compared all plans before, or none.
  void Write(bool verified = true);

 private:
  std::vector<db::StoredMeasurement> rows_;
};

// A cost that makes pieces of `piece` images the fastest by far, with every direct algorithm.
Cost DividedInto(int piece, int n);

// `piece` and what it leaves of `n`, in legal sizes, and n.
std::vector<int> SizesFor(int piece, int n, int step);

// Workspace for the sum of partials where pieces of `problem` write such.
size_t PartialSumRoom(const ConvolutionProblem& problem);

// A piece that leaves an unequal remainder where n and the step allow it; n when it cannot be
// divided.
int UnequalPiece(int n, int step);

}  // namespace ucudnn::test
