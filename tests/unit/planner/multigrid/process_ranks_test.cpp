// Tests that ranks in separate processes compute the same bits as one process. Also tests that the
// errors of the other ranks name a rank that is killed or late. Timeouts are short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <sstream>

#include "planner/multigrid/distributed/process_ranks.h"
#include "planner/multigrid/distributed/thread_ranks.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/digit_net.h"
#include "unit/planner/multigrid/rank_passes.h"
#include "unit/transport/job.h"

namespace ucudnn::multigrid {
namespace {

using ::testing::HasSubstr;
using transport::Milliseconds;
using transport::test::Child;
using transport::test::Job;

// Returns the numbers of a rank's gradient after two passes, as text without loss of bits.
Result<std::string> BitsOf(Peers& peers, const WeightedChain& net) {
  NetworkSettings settings;
  settings.batch = net.batch;
  settings.step = 0.1;
  settings.coarsening = {2};
  settings.distributed = 1;
  PassResults passes;
  Parameters gradient;
  UCUDNN_RETURN_IF_ERROR(RunPasses(peers, net, settings, passes, gradient));
  // A rank has the gradient only of its own nodes, so each number is in the text of one rank.
  std::ostringstream text;
  text << std::hexfloat;
  for (size_t id = 0; id < gradient.size(); ++id) {
    for (const double number : gradient[id].weights) text << id << ":" << number << " ";
  }
  return text.str();
}

using Numbers = std::multiset<std::string>;  // in any order

void AddWords(const std::string& text, Numbers& numbers) {
  std::istringstream words(text);
  numbers.insert(std::istream_iterator<std::string>(words), {});
}

// Starts a process for each rank, and returns the numbers of all their gradients.
Numbers NumbersOf(int ranks, const WeightedChain& net) {
  const Job job(ranks);
  std::vector<std::unique_ptr<Child>> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(std::make_unique<Child>([&, rank](const Child::Tell& tell) {
      auto peers = ProcessRanks::Join(job.Of(rank));
      if (!peers.ok()) return tell(peers.message());
      const Result<std::string> bits = BitsOf(**peers, net);
      tell(bits.ok() ? *bits : bits.message());
    }));
  }
  Numbers numbers;
  for (const auto& child : children) AddWords(child->Heard(), numbers);
  return numbers;
}

TEST(ProcessRanks, ComputeTheBitsOfOneProcess) {
  const WeightedChain net = DrawnStages();
  std::vector<Numbers> together;
  for (const int ranks : {2, 3, 5}) together.push_back(NumbersOf(ranks, net));
  ThreadRanks alone(1);
  Numbers expected;
  AddWords(test::Must(BitsOf(alone.At(0), net)), expected);
  for (const auto& numbers : together) EXPECT_EQ(numbers, expected);
}

TEST(ProcessRanks, CarryMessagesOfAnyLength) {
  const Job job(2);
  Child other([&](const Child::Tell& tell) {
    auto peers = ProcessRanks::Join(job.Of(1));
    if (!peers.ok()) return tell(peers.message());
    for (const size_t length : {0, 1, 131070, 131071, 500000}) {
      const Result<std::vector<double>> message = (*peers)->Receive(0);
      if (!message.ok() || message->size() != length) return tell("not as long");
      if (!(*peers)->Send(0, *message).ok()) return tell("not sent");
    }
    tell("done");
  });
  const auto peers = test::Must(ProcessRanks::Join(job.Of(0)));
  for (const size_t length : {0, 1, 131070, 131071, 500000}) {
    std::vector<double> numbers(length);
    for (size_t i = 0; i < length; ++i) numbers[i] = static_cast<double>(i) + 0.5;
    ASSERT_TRUE(peers->Send(1, numbers).ok());
    const std::vector<double> back = test::Must(peers->Receive(1));
    EXPECT_EQ(back, numbers);
  }
  EXPECT_EQ(other.Heard(), "done");
}

// Calls harm(rank 2's process) when all ranks have joined, and returns the errors of ranks 0 and 1.
// Rank 1 waits for rank 2, and rank 0 waits for rank 1.
std::vector<std::string> HeardWhile(const Job& job, const std::function<void(Child&)>& harm) {
  Child third([&](const Child::Tell& tell) {
    const auto peers = ProcessRanks::Join(job.Of(2));
    tell("joined");
    transport::test::SleepForLong();
  });
  Child second([&](const Child::Tell& tell) {
    const auto peers = ProcessRanks::Join(job.Of(1));
    tell(peers.ok() ? (*peers)->Receive(2).message() : peers.message());
  });
  const auto peers = test::Must(ProcessRanks::Join(job.Of(0)));
  EXPECT_EQ(third.Heard(), "joined");
  harm(third);
  return {peers->Receive(1).message(), second.Heard()};
}

TEST(ProcessRanks, NameTheRankThatWasKilled) {
  for (const std::string& line : HeardWhile(Job(3), [](Child& third) { third.Kill(); })) {
    EXPECT_THAT(line, HasSubstr("rank 2 died or ended"));
  }
}

TEST(ProcessRanks, NameTheRankThatIsLate) {
  Job job(3);
  job.meeting.times.timeout = Milliseconds(1500);
  for (const std::string& line : HeardWhile(job, [](Child&) {})) {
    EXPECT_EQ(line, "rank 2 was waited for by others for 1500 ms and has not come");
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
