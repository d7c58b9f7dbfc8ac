// A random generator for tests that try different cases in each run.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace ucudnn::test {

// While this object exists, a failing test prints the object's seed, so that the failure can be
// repeated.
class SeededRandom : public std::mt19937 {
 public:
  explicit SeededRandom(unsigned seed = std::random_device()())
      : std::mt19937(seed), trace_(__FILE__, __LINE__, "seed " + std::to_string(seed)) {}

 private:
  const ::testing::ScopedTrace trace_;
};

}  // namespace ucudnn::test
