// Tests posts: their order among each other and among gathers, their cost, and how they wait for a
// listener.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include "tests/unit/transport/job.h"

namespace {

std::atomic<int64_t> allocations = 0;

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ucudnn::transport {
namespace {

using namespace test;  // NOLINT

// The posts and gathers of one rank, in the order in which that rank made them or another rank
// heard of them. "p12" is a post, and "g3" is the rank's third gather.
using Deeds = std::vector<std::string>;

TEST(Posts, KeepTheirOrderAmongGathersWhateverTheSchedule) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int turn = 0; turn < 12; ++turn) {
    const int groups = 1 + static_cast<int>(random() % 2);
    const Job job(groups * (2 + static_cast<int>(random() % 3)), groups);
    const auto all = JoinAll(job);
    const int gathers = static_cast<int>(random() % 20);
    std::vector<Deeds> done(all.size());
    std::vector<std::vector<Deeds>> heard(all.size(), std::vector<Deeds>(all.size()));
    std::vector<unsigned> seeds;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      seeds.push_back(static_cast<unsigned>(random()));
      const bool later = random() % 2 == 0;  // posts that come before the handler are kept
      auto& mine = heard[rank];
      all[rank]->OnGather([&mine](int from, uint64_t number) {
        mine[static_cast<size_t>(from)].push_back("g" + std::to_string(number));
      });
      if (!later) {
        all[rank]->OnPost([&mine](int from, std::string_view text) {
          mine[static_cast<size_t>(from)].emplace_back(text);
        });
      }
    }
    OnThreads(job.size, [&](int rank) {
      const auto index = static_cast<size_t>(rank);
      std::mt19937 own(seeds[index]);
      Ranks& ranks = *all[index];
      int posts = 0;
      for (int gather = 0; gather <= gathers; ++gather) {
        for (auto i = own() % 20; i > 0; --i) {
          done[index].push_back("p" + std::to_string(posts++));
          ranks.Post(done[index].back());
          if (own() % 8 == 0) std::this_thread::yield();
          if (own() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 500));
        }
        if (gather == gathers) break;
        done[index].push_back("g" + std::to_string(gather + 1));
        const auto gathered = ranks.Gather(std::to_string(rank), "a test");
        ASSERT_TRUE(gathered.ok()) << gathered.message();
      }
      auto& mine = heard[index];
      ranks.OnPost([&mine](int from, std::string_view text) {
        mine[static_cast<size_t>(from)].emplace_back(text);
      });
      ranks.Leave("");
    });
    for (int rank = 0; rank < job.size; ++rank) {
      for (int i = 0; i < job.group_size; ++i) {
        const int from = rank / job.group_size * job.group_size + i;
        const Deeds expected = from == rank ? Deeds() : done[static_cast<size_t>(from)];
        EXPECT_EQ(heard[static_cast<size_t>(rank)][static_cast<size_t>(i)], expected);
      }
      EXPECT_FALSE(all[static_cast<size_t>(rank)]->Failure());
    }
  }
}

TEST(Posts, OneThatIsHeardAllocatesNothingOnAnyThread) {
  const Job job(3);
  const auto all = JoinAll(job);
  std::atomic<int> heard = 0;
  for (const auto& ranks : all) {
    ranks->OnPost([&](int, std::string_view record) { heard += record.size() == 64 ? 1 : 100; });
  }
  const std::string record(64, 'r');
  const auto round = [&](int expected) {
    for (const auto& ranks : all) {
      ranks->Doing("a call whose name does not fit into any short string of the library");
      ranks->Post(record);
    }
    return Becomes([&] { return heard == expected; });
  };
  int expected = 0;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(round(expected += 6));
  const int64_t before = allocations;
  EXPECT_GT(before, 0);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(round(expected += 6));
  EXPECT_EQ(allocations - before, 0);
}

TEST(Posts, ThatTheOthersCannotTakeFastEnoughWaitInTheirOrder) {
  const Job job(3);
  const auto all = JoinAll(job);
  constexpr int kPosts = 300;  // 300 x 100,000 bytes = 30 MB
  std::atomic<int> wrong = 0, heard = 0;
  for (size_t rank = 1; rank < 3; ++rank) {
    all[rank]->OnPost([&, next = 0](int, std::string_view record) mutable {
      if (record.size() != 100000 || std::stoi(std::string(record.substr(0, 10))) != next++)
        ++wrong;
      if (next % 50 == 0) std::this_thread::sleep_for(Milliseconds(20));
      ++heard;
    });
  }
  all[0]->OnPost([](int, std::string_view) {});
  for (int i = 0; i < kPosts; ++i) {
    std::string record = std::to_string(i) + std::string(100000, ' ');
    record.resize(100000);
    all[0]->Post(record);
  }
  EXPECT_TRUE(Becomes([&] { return heard == 2 * kPosts; }));
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(all[0]->Failure());
}

TEST(Posts, ACallbackMayPostAndFail) {
  const Job job(2);
  const auto all = JoinAll(job);
  all[1]->OnPost([&](int, std::string_view record) { all[1]->Post(record); });
  all[0]->OnPost(
      [&](int, std::string_view record) { all[0]->Fail("heard " + std::string(record)); });
  all[0]->Post("an echo");
  EXPECT_EQ(FailureOf(*all[1]), "heard an echo");
}

// Ranks 4 and 0 send to a single rank of their group. Rank 4 also posts to all ranks of its group.
TEST(Posts, ThoseToOneRankReachItAloneInOrderWithThoseToAll) {
  const Job job(6, 2);
  const auto all = JoinAll(job);
  std::vector<Deeds> heard(all.size());
  std::vector<std::atomic<int>> count(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    all[rank]->OnPost([&, rank](int from, std::string_view text) {
      heard[rank].push_back(std::to_string(from) + std::string(text));
      ++count[rank];
    });
  }
  for (int i = 0; i < 50; ++i) {
    all[4]->Post("a" + std::to_string(i));
    all[4]->Send(2, "o" + std::to_string(i));  // rank 2 of its group is rank 5 of the job
    all[0]->Send(1, "h" + std::to_string(i));
  }
  EXPECT_TRUE(Becomes([&] { return count[5] == 100 && count[3] == 50 && count[1] == 50; }));
  Deeds to_one, to_all, of_hub;
  for (int i = 0; i < 50; ++i) {
    to_all.push_back("1a" + std::to_string(i));
    to_one.push_back("1a" + std::to_string(i));
    to_one.push_back("1o" + std::to_string(i));
    of_hub.push_back("0h" + std::to_string(i));
  }
  OnThreads(6, [&](int rank) { all[static_cast<size_t>(rank)]->Leave(""); });
  EXPECT_EQ(heard[5], to_one);
  EXPECT_EQ(heard[3], to_all);
  EXPECT_EQ(heard[1], of_hub);
  EXPECT_TRUE(heard[0].empty() && heard[2].empty() && heard[4].empty());
}

TEST(Posts, OneThatIsTooLargeFailsTheJob) {
  const Job job(2);
  const auto all = JoinAll(job);
  all[1]->Post(std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(FailureOf(*all[0]), "rank 1 posts a record of 1048577 bytes, more than 1 MiB");
}

TEST(Posts, NobodysListenerIsCalledOnceItWasTakenAway) {
  const Job job(2);
  const auto all = JoinAll(job);
  std::atomic<bool> alive = true;
  std::atomic<int> before = 0, after = 0;
  all[1]->OnPost([&](int, std::string_view) { ++(alive ? before : after); });
  for (int i = 0; i < 1000; ++i) all[0]->Post("x");
  EXPECT_TRUE(Becomes([&] { return before > 0; }));
  all[1]->OnPost(nullptr);
  alive = false;
  for (int i = 0; i < 100; ++i) all[0]->Post("x");
  OnThreads(2, [&](int rank) { all[static_cast<size_t>(rank)]->Leave(""); });
  EXPECT_EQ(after, 0);
}

TEST(Posts, ACallbackThatThrowsFailsTheJobOnAllRanks) {
  const Job job(2);
  const auto all = JoinAll(job);
  all[1]->OnPost([](int, std::string_view) { throw std::bad_alloc(); });
  all[0]->Post("x");
  EXPECT_THAT(FailureOf(*all[1]), ::testing::HasSubstr("rank 1 can serve the job no more"));
  EXPECT_THAT(FailureOf(*all[0]), ::testing::HasSubstr("rank 1 can serve the job no more"));
}

}  // namespace
}  // namespace ucudnn::transport
