// Tests jobs of three ranks, each a process. One rank dies at some stage of a split call: before
// the call, in its own convolution, before or after it enqueues the exchange of rows or the sum,
// after the call, or in a launch of a CUDA graph with the call. What the other ranks compute must
// be right or NaN, element by element. In time all of them must get an error, and no meeting file
// may be left behind. This program itself never touches CUDA: the ranks are its children.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <span>

#include "tests/unit/spatial/captured_call.h"

namespace ucudnn::test {
namespace {

constexpr int kRanks = 3;
constexpr int kRight = 0, kWrong = 1, kDied = 42;  // exit codes
constexpr std::chrono::seconds kBound{15};         // until a death is an error on all ranks

enum class Stage {
  kBeforeCall,
  kInOwnCall,
  kBeforeExchange,
  kAfterExchange,
  kBeforeSum,
  kAfterSum,
  kAfterCall,
  kInLaunch,  // on the device, in a CUDA graph with the call, before rows travel
  kInLaunchOfSum
};
constexpr Stage kStages[] = {Stage::kBeforeCall,    Stage::kInOwnCall, Stage::kBeforeExchange,
                             Stage::kAfterExchange, Stage::kAfterCall, Stage::kBeforeSum,
                             Stage::kAfterSum};
constexpr size_t kStagesWithoutSum = 5;  // the first elements of kStages

// Holds the stage in which a rank dies once `armed` is set.
struct Death {
  Stage stage;
  bool armed = false;
  void At(Stage now) const {
    if (armed && now == stage) _exit(kDied);
  }
  void OnDevice(Stage now, CUstream stream) const {
    if (!armed || now != stage) return;
    EXPECT_EQ(cuLaunchHostFunc(
                  stream, [](void*) { _exit(kDied); }, nullptr),
              CUDA_SUCCESS);
  }
  bool is_in_launch() const { return stage == Stage::kInLaunch || stage == Stage::kInLaunchOfSum; }
};

class DyingChannel : public CountingChannel {
 public:
  DyingChannel(std::unique_ptr<transport::Channel> channel, Traffic& traffic, const Death& death)
      : CountingChannel(std::move(channel), traffic), death_(death) {}
  Status Exchange(std::span<const transport::Message> sends,
                  std::span<const transport::Message> receives, CUstream stream) override {
    death_.At(Stage::kBeforeExchange);
    death_.OnDevice(Stage::kInLaunch, stream);
    const Status status = CountingChannel::Exchange(sends, receives, stream);
    death_.At(Stage::kAfterExchange);
    return status;
  }
  Status AllReduce(CUdeviceptr data, size_t count, transport::Element element,
                   CUstream stream) override {
    death_.At(Stage::kBeforeSum);
    death_.OnDevice(Stage::kInLaunchOfSum, stream);
    const Status status = CountingChannel::AllReduce(data, count, element, stream);
    death_.At(Stage::kAfterSum);
    return status;
  }

 private:
  const Death& death_;
};

struct Scenario {
  Transport transport;
  Operation operation;
  Stage stage;
  int victim;
};

// Repeats the call on a surviving rank until it returns an error. Even the first call may return an
// error, since the victim may be dead by then.
void Survive(RankState& rank, const SplitLayer& layer) {
  const auto deadline = TestClock::now() + kBound;
  for (;;) {
    const StripeResult result = layer.RunOn(rank);
    EXPECT_TRUE(result.is_intact);
    EXPECT_TRUE(IsRightOrNan(result.output, layer.Part(rank.rank)));
    if (result.status != kFine) {
      EXPECT_EQ(result.status, kBroken);
      return;
    }
    ASSERT_LT(TestClock::now(), deadline);
  }
}

// Launches a graph with the call on a surviving rank, while all other ranks launch such a graph,
// too. If the victim's rows never come, a rank next to the victim must find NaN in the result. If a
// sum never comes, all surviving ranks must find NaN.
void SurviveLaunch(RankState& rank, const SplitLayer& layer, int victim) {
  EXPECT_TRUE(layer.IsExactOn(rank));
  // The gather fails if the victim dies before this rank knows that all ranks have come here.
  if (rank.ranks->Gather("", "the launch").ok()) {
    const StripeResult result = RunInGraph(rank, layer);
    EXPECT_TRUE(result.is_intact);
    EXPECT_TRUE(IsRightOrNan(result.output, layer.Part(rank.rank)));
    const bool is_sum = layer.whole.problem.operation == Operation::kBackwardFilter;
    if (result.status == kFine && (is_sum || std::abs(rank.rank - victim) == 1)) {
      EXPECT_TRUE(HasNan(result.output)) << "rank " << rank.rank;
    }
  }
  EXPECT_TRUE(Becomes([&] { return rank.ranks->Failure().has_value(); }, kBound));
}

// Runs a rank's process and returns its exit code.
int Live(const Scenario& scenario, int number, const std::string& file) {
  Traffic traffic;
  Death death{scenario.stage};
  JobOptions options = Counted<DyingChannel>({}, traffic, death);
  options.grid = "h" + std::to_string(kRanks);
  options.transport = scenario.transport;
  options.cudnn_file = HOST_DIR "/libcudnn.so.9";
  RankState rank;
  rank.rank = number;
  rank.device = scenario.transport == Transport::kNccl ? number : 0;
  const SpatialGrid grid = *SpatialGrid::Parse(options.grid);
  OpenRank(rank, grid, options, file);
  if (rank.calls == nullptr) return kWrong;
  const SplitLayer layer(Layer(scenario.operation, 1), grid, {{{1}, {3, 4, 5}, {6}}});
  if (number == scenario.victim) {
    EXPECT_TRUE(layer.IsExactOn(rank));
    death.armed = true;
    death.At(Stage::kBeforeCall);
    if (death.is_in_launch()) {
      EXPECT_TRUE(rank.ranks->Gather("", "the launch").ok());
      RunInGraph(rank, layer);
      return kWrong;
    }
    RunGiven(rank, layer, [&](const cudnn::ConvolutionCall& call) {
      death.At(Stage::kInOwnCall);
      return RunReal(call);
    });
    death.At(Stage::kAfterCall);
    return kWrong;  // the victim did not die
  }
  if (death.is_in_launch()) {
    SurviveLaunch(rank, layer, scenario.victim);
  } else {
    Survive(rank, layer);
  }
  CloseRank(rank);
  return testing::Test::HasFailure() ? kWrong : kRight;
}

pid_t Start(const Scenario& scenario, int number, const std::string& file) {
  const pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kWrong);
  alarm(40);
  _exit(Live(scenario, number, file));
}

// Returns the path of the file in which the ranks of a job meet. A job must leave no such file.
std::string OwnFile(int job) {
  return testing::TempDir() + "ucudnn-deaths-" + std::to_string(getpid()) + "-" +
         std::to_string(job);
}

// Runs a job for each scenario, all at once.
void ExpectErrorsFollow(const std::vector<Scenario>& scenarios) {
  // Children would inherit a failure of an earlier job and count it as theirs.
  if (testing::Test::HasFailure()) return;
  static int jobs = 0;
  std::vector<std::array<pid_t, kRanks>> children(scenarios.size());
  const int first = jobs;
  for (size_t i = 0; i < scenarios.size(); ++i, ++jobs) {
    for (int rank = 0; rank < kRanks; ++rank) {
      children[i][static_cast<size_t>(rank)] = Start(scenarios[i], rank, OwnFile(jobs));
    }
  }
  for (size_t i = 0; i < scenarios.size(); ++i) {
    const Scenario& scenario = scenarios[i];
    for (int rank = 0; rank < kRanks; ++rank) {
      int status = -1;
      ASSERT_EQ(waitpid(children[i][static_cast<size_t>(rank)], &status, 0),
                children[i][static_cast<size_t>(rank)]);
      EXPECT_TRUE(WIFEXITED(status)) << status;
      EXPECT_EQ(WEXITSTATUS(status), rank == scenario.victim ? kDied : kRight)
          << OperationName(scenario.operation) << ", stage " << static_cast<int>(scenario.stage)
          << ", rank " << rank << " of which " << scenario.victim << " dies";
    }
    EXPECT_FALSE(std::filesystem::exists(OwnFile(first + static_cast<int>(i))));
  }
}

// Runs a job for each rank that may die in `stage`.
void ExpectErrorsFollowEach(Transport transport, Operation operation, Stage stage) {
  std::vector<Scenario> scenarios;
  for (int victim = 0; victim < kRanks; ++victim) {
    scenarios.push_back({transport, operation, stage, victim});
  }
  ExpectErrorsFollow(scenarios);
}

class SplitDeaths : public testing::TestWithParam<Transport> {};
INSTANTIATE_TEST_SUITE_P(Over, SplitDeaths, testing::Values(Transport::kLoopback, Transport::kNccl),
                         [](const auto& info) {
                           return info.param == Transport::kNccl ? "Nccl" : "Loopback";
                         });

// A filter gradient exchanges rows and sums, so it has every stage. Each rank dies in each stage.
TEST_P(SplitDeaths, InAFilterGradientAreAnErrorOnAll) {
  for (const Stage stage : kStages) {
    ExpectErrorsFollowEach(GetParam(), Operation::kBackwardFilter, stage);
  }
}

TEST_P(SplitDeaths, InALaunchOfAGraphAreAnErrorOnAll) {
  for (const auto& [operation, stage] : {std::pair(Operation::kForward, Stage::kInLaunch),
                                         {Operation::kBackwardData, Stage::kInLaunch},
                                         {Operation::kBackwardFilter, Stage::kInLaunch},
                                         {Operation::kBackwardFilter, Stage::kInLaunchOfSum}}) {
    ExpectErrorsFollowEach(GetParam(), operation, stage);
  }
}

TEST_P(SplitDeaths, InTheOtherOperationsAreAnErrorOnAll) {
  for (const Stage stage : std::span(kStages).first(kStagesWithoutSum)) {
    ExpectErrorsFollow({{GetParam(), Operation::kForward, stage, 1},
                        {GetParam(), Operation::kBackwardData, stage, 2}});
  }
}

}  // namespace
}  // namespace ucudnn::test
