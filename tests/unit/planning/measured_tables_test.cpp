// Tests policy auto on times of real engines: full tables of the CPU stand-in (tables/README.md).
// Divisions that were found in one of a network's two recordings are timed in the other.
#include "measured_tables.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "measured.h"

namespace ucudnn::planning {
namespace {

constexpr size_t kLimits[] = {0,         kMiB,       8 * kMiB,
                              64 * kMiB, 512 * kMiB, std::numeric_limits<size_t>::max()};

std::vector<KernelTable> Read(const std::string& name) {
  Result<std::vector<KernelTable>> tables = ReadKernelTables(TABLES "/" + name);
  EXPECT_TRUE(tables.ok()) << tables.status().message();
  return tables.ok() ? std::move(*tables) : std::vector<KernelTable>();
}

class MeasuredTables : public ::testing::TestWithParam<size_t> {};

TEST_P(MeasuredTables, AutoIsWithinOnePercentOfAllWhereLuckDoesNotCount) {
  const std::vector<KernelTable> first = Read("alexnet.csv"), second = Read("alexnet-again.csv");
  for (const auto& [tables, judges] : {std::pair(&first, &second), std::pair(&second, &first)}) {
    const Comparison sum = Compare(*tables, *judges, GetParam(), 2 * kMiB);
    EXPECT_EQ(sum.kernels, 15);
    EXPECT_LE(sum.auto_ms, 1.01 * sum.all_ms) << "worst: " << sum.worst_kernel;
  }
}

// Two recordings of a time may differ by more than 6 %. Each recording judges the divisions that
// were found in the other, which halves the error from such differences.
TEST_P(MeasuredTables, AutoIsWithinOnePercentOfAllOnNetworksItWasNotMadeWith) {
  const std::pair<std::string, int> networks[] = {
      {"alexnet-32", 15}, {"resnet18-32", 33}, {"vgg16-32", 27}};
  for (const auto& [name, kernels] : networks) {
    SCOPED_TRACE(name);
    const std::vector<KernelTable> first = Read(name + ".csv"), second = Read(name + "-again.csv");
    const Comparison there = Compare(first, second, GetParam(), 2 * kMiB);
    const Comparison back = Compare(second, first, GetParam(), 2 * kMiB);
    EXPECT_EQ(there.kernels, kernels);
    EXPECT_EQ(back.kernels, kernels);
    EXPECT_LE(there.auto_ms + back.auto_ms, 1.01 * (there.all_ms + back.all_ms));
  }
}

TEST_P(MeasuredTables, AutoMeasuresAtMostHalfAsMuchAgainAsPowerOfTwo) {
  for (const char* name :
       {"alexnet.csv", "alexnet-again.csv", "alexnet-32.csv", "alexnet-32-again.csv",
        "resnet18-32.csv", "resnet18-32-again.csv", "vgg16-32.csv", "vgg16-32-again.csv"}) {
    const std::vector<KernelTable> tables = Read(name);
    const Comparison sum = Compare(tables, tables, GetParam(), 2 * kMiB);
    EXPECT_LE(sum.auto_rows, 1.5 * sum.powers_rows);
    EXPECT_GT(sum.auto_rows, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, MeasuredTables, ::testing::ValuesIn(kLimits));

}  // namespace
}  // namespace ucudnn::planning
