#include "primed_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "db/sqlite_store.h"
#include "libraries.h"
#include "suites.h"
#include "tests/support/engines.h"

namespace ucudnn::test {

std::vector<planning::Measurement> Offered(const ConvolutionProblem& problem,
                                           const std::vector<int>& sizes, const Cost& cost) {
  std::vector<planning::Measurement> rows;
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ(Undivided().cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  cudnn::LegacyEngines engines(Undivided(), handle);
  for (const int size : sizes) {
    ConvolutionProblem part = problem;
    part.n = size;
    for (const cudnn::EngineChoice& choice : Choices(engines, part)) {
      const double time_ms = cost(choice.engine.legacy()->algorithm, size);
      if (time_ms < 0) continue;
      planning::Measurement row;
      row.micro = {choice.engine, size, time_ms, choice.workspace_bytes, choice.deterministic};
      row.samples = 1;
      rows.push_back(row);
      if (choice.twin.empty()) continue;
      row.micro.engine = choice.twin;
      rows.push_back(std::move(row));
    }
  }
  Undivided().cudnnDestroy(handle);
  if (SumsPartials(problem)) {
    planning::Measurement row;
    row.micro = {kPartialSum, kPartialSumBatch, 0, PartialSumBytes(problem), true};
    row.samples = 1;
    rows.push_back(std::move(row));
  }
  return rows;
}

void PrimedStore::Add(const ConvolutionProblem& problem, const std::vector<int>& sizes,
                      const Cost& cost) {
  static const planning::Platform platform = CurrentPlatform();
  for (planning::Measurement& measurement : Offered(problem, sizes, cost)) {
    db::StoredMeasurement row;
    row.problem = problem;
    row.problem.n = measurement.micro.micro_batch;
    row.platform = platform;
    row.measurement = std::move(measurement);
    rows_.push_back(std::move(row));
  }
}

void PrimedStore::Write(bool verified) {
  db::SqliteStore store({DatabasePath()});
  const Result<size_t> added = store.Add(rows_);
  ASSERT_TRUE(added.ok()) << added.message();
  if (!verified) return;
  // Rows of one kernel are adjacent in rows_, and are marked together.
  std::vector<MicroConfiguration> kernel;
  for (size_t i = 0; i < rows_.size(); ++i) {
    kernel.push_back(rows_[i].measurement.micro);
    const bool last = i + 1 == rows_.size() ||
                      KernelFamily(rows_[i + 1].problem) != KernelFamily(rows_[i].problem);
    if (!last) continue;
    ASSERT_TRUE(store.MarkVerified(rows_[i].problem, rows_[i].platform, kernel).ok());
    kernel.clear();
  }
}

Cost DividedInto(int piece, int n) {
  return [=](int algorithm, int size) -> double {
    if (algorithm > 2) return -1;  // excludes Winograd and FFT, which are not exact
    const double per_image = size == piece ? 0.001 : size == n ? 1 : 0.002;
    // Algorithm 1 is the fastest at the size `piece`, and the slowest at all other sizes.
    const bool preferred = (algorithm == 1) == (size == piece);
    return per_image * size * (preferred ? 1 : 1.25);
  };
}

size_t PartialSumRoom(const ConvolutionProblem& problem) {
  return SumsPartials(problem) ? PartialSumBytes(problem) : 0;
}

std::vector<int> SizesFor(int piece, int n, int step) {
  std::vector<int> sizes = {n};
  if (piece >= n) return sizes;
  sizes.push_back(piece);
  const int rest = n % piece;
  if (rest % step != 0) sizes.push_back(rest % step);
  if (rest >= step) sizes.push_back(rest - rest % step);
  return sizes;
}

int UnequalPiece(int n, int step) {
  if (step >= n) return n;
  int piece = std::max(1, n / (3 * step)) * step;
  while (n % piece == 0 && piece + step < n) piece += step;
  return piece;
}

}  // namespace ucudnn::test
