// Tests ucudnnSpatialSetReduce in a program whose images are split over two threads. The first
// filter gradient fixes whether ucudnn or the program sums filter gradients. Later calls that would
// change this fail without effect.
#include <gtest/gtest.h>
#include <ucudnn/ucudnn.h>

#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "libraries.h"
#include "split_rank.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

constexpr size_t kFilterGradient = 2;  // the index of the filter gradient in a Round

std::vector<double> Sum(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> sum = one;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  return sum;
}

// Runs one step on two new threads. Returns the filter gradients of both ranks.
std::vector<std::vector<double>> GradientsOfBoth() {
  std::vector<std::vector<double>> gradients(kRanks);
  OnThreads(kRanks, [&](int number) {
    SplitRank rank(number);
    Round round;
    rank.Call(round);
    rank.Read(round);
    for (const Given& given : round) EXPECT_EQ(given.status, CUDNN_STATUS_SUCCESS);
    gradients[static_cast<size_t>(number)] = round[kFilterGradient].values;
  });
  return gradients;
}

void ExpectTooLate(int sums) {
  EXPECT_EQ(ucudnnSpatialSetReduce(sums), CUDNN_STATUS_NOT_SUPPORTED);
  const std::string said = ucudnnGetLastError();
  EXPECT_NE(said.find("ucudnnSpatialSetReduce: a gradient of a split convolution has run before"),
            std::string::npos)
      << said;
}

class Unsummed : public testing::Test {};

TEST_F(Unsummed, PartsAddUpToTheWholeAndStayTheProgramsBusiness) {
  ASSERT_EQ(ucudnnSpatialSetReduce(0), CUDNN_STATUS_SUCCESS);
  const std::vector<double> whole = Expected(Operation::kBackwardFilter).PartOf(0);
  for (int step = 0; step < 2; ++step) {
    const auto parts = GradientsOfBoth();
    EXPECT_EQ(Sum(parts[0], parts[1]), whole);
    EXPECT_NE(parts[0], whole);
    EXPECT_NE(parts[1], whole);
    ExpectTooLate(1);
    EXPECT_EQ(ucudnnSpatialSetReduce(0), CUDNN_STATUS_SUCCESS);  // allowed, because it repeats the
                                                                 // current setting
  }
}

void ExpectSummedAndThenTooLate() {
  const std::vector<double> whole = Expected(Operation::kBackwardFilter).PartOf(0);
  for (int step = 0; step < 2; ++step) {
    for (const std::vector<double>& gradient : GradientsOfBoth()) EXPECT_EQ(gradient, whole);
    ExpectTooLate(0);
  }
}

class Summed : public testing::Test {};

TEST_F(Summed, IsTooLateToLeaveToTheProgram) {
  ASSERT_EQ(ucudnnSpatialSetReduce(0), CUDNN_STATUS_SUCCESS);
  // The program may call ucudnnSpatialSetReduce again before its first filter gradient. The last
  // call decides.
  ASSERT_EQ(ucudnnSpatialSetReduce(1), CUDNN_STATUS_SUCCESS);
  ExpectSummedAndThenTooLate();
}

// Without a call of ucudnnSpatialSetReduce, ucudnn sums the gradients of the legacy API.
class Unsaid : public testing::Test {};

TEST_F(Unsaid, IsTooLateToLeaveToTheProgram) { ExpectSummedAndThenTooLate(); }

class Groups : public testing::Test {};

// ucudnnSpatialSetReduce fails once any group has summed a gradient. The failed call changes
// nothing, not even for a group that has not summed a gradient.
TEST_F(Groups, KeepWhatHoldsWhereOneHasSummed) {
  std::barrier together(2 * kRanks + 1);
  const std::vector<double> whole = Expected(Operation::kBackwardFilter).PartOf(0);
  std::vector<std::thread> threads;
  for (int number = 0; number < 2 * kRanks; ++number) {
    threads.emplace_back([&, number] {
      SplitRank rank(number);
      Convolution& gradient = rank.layer(kFilterGradient);
      EXPECT_EQ(rank.layer(0).Run(DropIn(), 0, nullptr, 0), CUDNN_STATUS_SUCCESS);
      const auto run = [&] {
        EXPECT_EQ(gradient.Run(DropIn(), 0, nullptr, 0), CUDNN_STATUS_SUCCESS);
      };
      if (number >= kRanks) run();
      together.arrive_and_wait();
      together.arrive_and_wait();
      if (number < kRanks) run();
      EXPECT_EQ(cudaStreamSynchronize(rank.stream()), cudaSuccess);
      EXPECT_EQ(ValuesOf(gradient, gradient.TakeOutput()), whole);
    });
  }
  together.arrive_and_wait();
  ExpectTooLate(0);
  together.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
}

class Whole : public testing::Test {};

TEST_F(Whole, NothingIsSplitAndNobodyListens) {
  Convolution gradient(LayerOf(Operation::kBackwardFilter, kHeight));
  const Bytes expected = gradient.FillAndExpect(1);
  for (const int sums : {0, 1, 0}) {
    EXPECT_EQ(ucudnnSpatialSetReduce(sums), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(gradient.Run(DropIn(), 0, nullptr, 0), CUDNN_STATUS_SUCCESS);
    gradient.ExpectOutput(expected);
  }
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  const ucudnn::test::Environment split = {{"UCUDNN_SPATIAL", "h2"},
                                           {"UCUDNN_SPATIAL_TRANSPORT", "loopback"}};
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"Unsummed", split},
       {"Summed", split},
       {"Unsaid", split},
       {"Groups", {{"UCUDNN_SPATIAL", "n2h2"}, {"UCUDNN_SPATIAL_TRANSPORT", "loopback"}}},
       {"Whole", {}}},
      {{"UCUDNN_TUNE", "off"}, {"UCUDNN_REPORT", ""}});
}
