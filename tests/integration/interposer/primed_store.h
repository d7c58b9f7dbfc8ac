// Writes measurements to the store before ucudnn reads it, so that the test, and not the machine,
// decides what is fastest. With UCUDNN_TUNE=off, ucudnn has no other measurements.
#pragma once

#include <functional>
#include <vector>

#include "db/stored_measurement.h"

namespace ucudnn::test {

// Returns the milliseconds of `algorithm` at `micro_batch` images; negative if it is not measured.
using Cost = std::function<double(int algorithm, int micro_batch)>;

// Returns measurements of all algorithms of the stand-in for `problem` (as ucudnn reads it) at each
// of `sizes`. Workspaces and determinism are real; times come from `cost`. The time for summing
// partial gradients is 0.
std::vector<planning::Measurement> Offered(const ConvolutionProblem& problem,
                                           const std::vector<int>& sizes, const Cost& cost);

class PrimedStore {
 public:
  // Adds Offered(problem, sizes, cost), as measured on the platform of these tests.
  void Add(const ConvolutionProblem& problem, const std::vector<int>& sizes, const Cost& cost);
  // Writes all rows to DatabasePath(). `verified`: whether the rows are marked as compared with the
  // undivided engine.
  void Write(bool verified = true);

 private:
  std::vector<db::StoredMeasurement> rows_;
};

// Returns a cost for `n` images. Every direct algorithm takes least time per image in pieces of
// `piece` images, and about 1000 times as much undivided. Other algorithms are not measured.
Cost DividedInto(int piece, int n);

// Returns the sizes `piece` and `n`. If pieces of `piece` images leave a remainder of `n`, also
// returns the sizes into which the remainder is cut: the largest multiple of `step` (the
// problem's LegalStep()), and the rest.
std::vector<int> SizesFor(int piece, int n, int step);

// Returns the workspace in bytes for summing partial gradients; 0 if `problem` has none.
size_t PartialSumRoom(const ConvolutionProblem& problem);

// Returns a size of pieces that is a multiple of `step`. If `n` and `step` allow it, pieces of this
// size leave a smaller remainder of `n`. Returns `n` if `n` images cannot be divided.
int UnequalPiece(int n, int step);

}  // namespace ucudnn::test
