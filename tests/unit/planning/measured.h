// Makes random measurements, and checks what holds for every division of a mini-batch.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "convolution/configuration.h"

namespace ucudnn::planning {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

inline MicroConfiguration Micro(int micro_batch, double time_ms, size_t workspace_bytes = 0,
                                const std::string& engine = "legacy:1") {
  return {engine, micro_batch, time_ms, workspace_bytes, true};
}

// Returns a configuration of one piece with one image.
inline Configuration One(size_t workspace_bytes, double time_ms) {
  return {{{Micro(1, time_ms, workspace_bytes), 1}}};
}

inline int Draw(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

// Returns a random time in whole milliseconds, so that sums are exact and several sums may be
// equal. One time in twelve is invalid.
inline double RandomTime(std::mt19937& random) {
  switch (Draw(random, 0, 35)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return -Draw(random, 1, 5);
    case 2:
      return std::numeric_limits<double>::infinity();
    default:
      return Draw(random, 0, 12);
  }
}

inline size_t RandomWorkspace(std::mt19937& random) {
  if (Draw(random, 0, 15) == 0) return std::numeric_limits<size_t>::max() - Draw(random, 0, 1);
  return static_cast<size_t>(Draw(random, 0, 8)) << 20;
}

inline MicroConfiguration RandomMicro(std::mt19937& random, int algorithm, int micro_batch) {
  return {"legacy:" + std::to_string(algorithm), micro_batch, RandomTime(random),
          RandomWorkspace(random), Draw(random, 0, 1) == 1};
}

// Returns random rows in any order. Some sizes are absent, others have several engines. The sizes
// 0, n + 1 and n + 2 fit no division.
inline std::vector<MicroConfiguration> RandomMeasured(std::mt19937& random, int n, int engines) {
  std::vector<MicroConfiguration> measured;
  const int present = Draw(random, 1, 4);
  for (int size = 0; size <= n + 2; ++size) {
    for (int engine = 0; engine < engines; ++engine) {
      if (Draw(random, 1, 4) > present) continue;
      measured.push_back(RandomMicro(random, engine, size));
    }
  }
  std::shuffle(measured.begin(), measured.end(), random);
  return measured;
}

// Checks a division of `n` images: every piece begins at a multiple of `step` and fits the limit.
inline void ExpectLegalDivision(const Configuration& configuration, int n, int step,
                                size_t limit_bytes) {
  int begin = 0;
  for (const Run& run : configuration.runs) {
    ASSERT_GE(run.count, 1);
    ASSERT_GE(run.micro.micro_batch, 1);
    EXPECT_LE(run.micro.workspace_bytes, limit_bytes);
    EXPECT_GE(run.micro.time_ms, 0);
    for (int i = 0; i < run.count; ++i) {
      EXPECT_EQ(begin % step, 0) << "a piece starts at image " << begin;
      begin += run.micro.micro_batch;
    }
  }
  EXPECT_EQ(begin, n);
  EXPECT_EQ(configuration.Images(), n);
}

}  // namespace ucudnn::planning
