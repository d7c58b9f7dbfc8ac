// Tests ncclSend and ncclRecv: which calls match, and which calls wait for each other.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "tests/unit/host/nccl/processes.h"

namespace hostgpu::nccl::testing {
namespace {

std::vector<int> Numbers(size_t count, int first) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

ncclResult_t SendArray(const Rank& rank, const Array<int>& from, int peer) {
  return ncclSend(from.data(), from.bytes(), ncclInt8, peer, rank.comm, rank.stream);
}
ncclResult_t ReceiveArray(const Rank& rank, const Array<int>& to, int peer) {
  return ncclRecv(to.data(), to.bytes(), ncclInt8, peer, rank.comm, rank.stream);
}

TEST(Messages, MeetInTheOrderInWhichTheyAreSentAndReceived) {
  WithRanks(2, [](Rank& rank) {
    const size_t sizes[] = {1, 70000, 3, 12345};
    std::vector<std::unique_ptr<Array<int>>> arrays;
    for (int i = 0; i < 4; ++i) {
      arrays.push_back(std::make_unique<Array<int>>(rank.rank == 0 ? Numbers(sizes[i], 1000 * i)
                                                                   : std::vector<int>(sizes[i])));
      EXPECT_NCCL(rank.rank == 0 ? SendArray(rank, *arrays[i], 1)
                                 : ReceiveArray(rank, *arrays[i], 0));
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(arrays[i]->Read(rank.stream), Numbers(sizes[i], 1000 * i)) << i;
    }
  });
}

TEST(Messages, OneGroupMeetsSingleCallsAndOtherGroups) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> a(Numbers(500, rank.rank)), b(Numbers(700, rank.rank + 10));
    const Array<int> c(500, 0), d(700, 0);
    if (rank.rank == 0) {
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(SendArray(rank, a, 1));
      EXPECT_NCCL(SendArray(rank, b, 1));
      EXPECT_NCCL(ncclGroupEnd());
      return rank.Synchronize();
    }
    EXPECT_NCCL(ReceiveArray(rank, c, 0));
    EXPECT_NCCL(ReceiveArray(rank, d, 0));
    EXPECT_EQ(c.Read(rank.stream), Numbers(500, 0));
    EXPECT_EQ(d.Read(rank.stream), Numbers(700, 10));
  });
}

TEST(Messages, OfOneGroupDoNotWaitForEachOther) {
  WithRanks(kDevices, [](Rank& rank) {
    std::vector<std::unique_ptr<Array<int>>> from, to;
    EXPECT_NCCL(ncclGroupStart());
    for (int peer = 0; peer < rank.ranks; ++peer) {  // includes the rank itself
      from.push_back(std::make_unique<Array<int>>(Numbers(30000, 100 * rank.rank + peer)));
      to.push_back(std::make_unique<Array<int>>(30000, -1));
      EXPECT_NCCL(SendArray(rank, *from.back(), peer));
      EXPECT_NCCL(ReceiveArray(rank, *to.back(), peer));
    }
    EXPECT_NCCL(ncclGroupEnd());
    for (int peer = 0; peer < rank.ranks; ++peer) {
      EXPECT_EQ(to[static_cast<size_t>(peer)]->Read(rank.stream),
                Numbers(30000, 100 * peer + rank.rank));
    }
  });
}

TEST(Messages, HoldTheirStreamUntilTheOtherSideComes) {
  Barrier barrier(2);
  std::atomic<bool> is_there{false};
  WithRanks(2, [&](Rank& rank) {
    const Array<int> array(1000, rank.rank);
    if (rank.rank == 0) {
      EXPECT_NCCL(SendArray(rank, array, 1));
      barrier.Wait();
      std::this_thread::sleep_for(kMoment);
      EXPECT_EQ(cudaStreamQuery(rank.stream), cudaErrorNotReady);
      is_there = true;
      barrier.Wait();
      rank.Synchronize();
    } else {
      barrier.Wait();
      barrier.Wait();
      EXPECT_TRUE(is_there);
      EXPECT_NCCL(ReceiveArray(rank, array, 0));
      EXPECT_EQ(array.Read(rank.stream), std::vector<int>(1000, 0));
    }
  });
}

TEST(Messages, OfNoBytesMeetAsWell) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> array(10, rank.rank);
    if (rank.rank == 0) {
      EXPECT_NCCL(ncclSend(nullptr, 0, ncclFloat, 1, rank.comm, rank.stream));
      EXPECT_NCCL(SendArray(rank, array, 1));
    } else {
      EXPECT_NCCL(ncclRecv(nullptr, 0, ncclFloat, 0, rank.comm, rank.stream));
      EXPECT_NCCL(ReceiveArray(rank, array, 0));
    }
    EXPECT_EQ(array.Read(rank.stream), std::vector<int>(10, 0));
    EXPECT_EQ(rank.AsyncError(), ncclSuccess);
  });
}

TEST(Messages, ToOneselfNeedBothSidesInOneGroup) {
  WithRanks(1, [](Rank& rank) {
    const Array<int> from(Numbers(100, 5)), to(100, 0);
    EXPECT_EQ(SendArray(rank, from, 0), ncclInvalidUsage);
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ReceiveArray(rank, to, 0));
    EXPECT_NCCL(SendArray(rank, from, 0));
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_EQ(to.Read(rank.stream), Numbers(100, 5));
  });
}

// All operations of one communicator keep their order, even on streams that do not wait for each
// other. The other rank relies on this order.
TEST(Messages, OfSeveralStreamsKeepTheirOrder) {
  WithRanks(2, [](Rank& rank) {
    const Stream other;
    for (int round = 0; round < 50; ++round) {
      const Array<int> first(64, 2 * round + rank.rank), second(64, 7 * round + rank.rank);
      const auto call = [&](const Array<int>& array, cudaStream_t stream) {
        return rank.rank == 0 ? ncclSend(array.data(), 64, ncclInt, 1, rank.comm, stream)
                              : ncclRecv(array.data(), 64, ncclInt, 0, rank.comm, stream);
      };
      EXPECT_NCCL(call(first, other));
      EXPECT_NCCL(call(second, rank.stream));
      EXPECT_EQ(first.Read(other), std::vector<int>(64, 2 * round));
      EXPECT_EQ(second.Read(rank.stream), std::vector<int>(64, 7 * round));
    }
  });
}

TEST(Messages, OfOneGroupOnTwoStreamsHoldBoth) {
  WithRanks(2, [](Rank& rank) {
    const Stream other;
    const Array<int> from(Numbers(5000, rank.rank)), to(5000, 0);
    const int peer = 1 - rank.rank;
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(rank.Send(from, peer));
    EXPECT_NCCL(ncclRecv(to.data(), 5000, ncclInt, peer, rank.comm, other));
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_EQ(to.Read(other), Numbers(5000, peer));
  });
}

// The two ranks enqueue an operation of each of two communicators. They do so in opposite orders,
// and on a separate stream for each communicator.
TEST(Messages, OfSeveralCommunicatorsDoNotWaitForEachOther) {
  const ncclUniqueId id = NewId();
  WithRanks(2, [&](Rank& rank) {
    ncclComm_t second = nullptr;
    const Stream other;
    EXPECT_NCCL(ncclCommInitRank(&second, 2, id, rank.rank));
    const Array<float> a(1000, 1.0f), b(1000, 2.0f);
    const auto on_first = [&] { EXPECT_NCCL(rank.Sum(a)); };
    if (rank.rank == 0) on_first();
    EXPECT_NCCL(ncclAllReduce(b.data(), b.data(), 1000, ncclFloat, ncclSum, second, other));
    if (rank.rank == 1) on_first();
    EXPECT_EQ(a.Read(rank.stream), std::vector<float>(1000, 2.0f));
    EXPECT_EQ(b.Read(other), std::vector<float>(1000, 4.0f));
    EXPECT_NCCL(ncclCommDestroy(second));
  });
}

TEST(Messages, WaitForTheirStream) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> array(100000, rank.rank), other(100000, 9);
    const int peer = 1 - rank.rank;
    for (int round = 0; round < 20; ++round) {
      EXPECT_CUDA(cudaMemsetAsync(array.data(), round + rank.rank, array.bytes(), rank.stream));
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(SendArray(rank, array, peer));
      EXPECT_NCCL(ReceiveArray(rank, other, peer));
      EXPECT_NCCL(ncclGroupEnd());
      // Work that follows the group in its stream may overwrite the memory that was sent.
      EXPECT_CUDA(cudaMemsetAsync(array.data(), 255, array.bytes(), rank.stream));
      const std::vector<int> got = other.Read(rank.stream);
      EXPECT_EQ(got, std::vector<int>(100000, 0x01010101 * (round + peer)));
    }
  });
}

// Describes one message of a round: `size` numbers from `first` on.
struct Drawn {
  int from, to;
  size_t size;
  int first;
};

// Runs rounds of random messages between random ranks. In each round a rank makes its calls in one
// group, on two streams, in a random order. Only the sends to one rank keep their order, and the
// receives from one rank.
void RunRandomRounds(unsigned seed, int ranks) {
  std::mt19937 random(seed);
  const auto draw = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  std::vector<std::vector<Drawn>> rounds(20);
  int first = 0;
  for (std::vector<Drawn>& round : rounds) {
    for (int i = draw(4 * ranks); i >= 0; --i) {
      round.push_back({draw(ranks), draw(ranks),
                       static_cast<size_t>(draw(3) ? draw(300) : draw(40000)), first += 1000});
    }
  }
  WithRanks(ranks, [&](Rank& rank) {
    const Stream other;
    std::mt19937 own(seed * 31 + static_cast<unsigned>(rank.rank));
    for (const std::vector<Drawn>& round : rounds) {
      // channels[r] has the sends to rank r, and channels[ranks + r] the receives from rank r.
      std::vector<std::deque<const Drawn*>> channels(2 * static_cast<size_t>(ranks));
      for (const Drawn& drawn : round) {
        if (drawn.from == rank.rank) channels[static_cast<size_t>(drawn.to)].push_back(&drawn);
        if (drawn.to == rank.rank) {
          channels[static_cast<size_t>(ranks + drawn.from)].push_back(&drawn);
        }
      }
      std::vector<std::pair<const Drawn*, std::unique_ptr<Array<int>>>> got;
      std::vector<std::unique_ptr<Array<int>>> sent;
      EXPECT_NCCL(ncclGroupStart());
      for (;;) {
        std::vector<size_t> waiting;
        for (size_t c = 0; c < channels.size(); ++c) {
          if (!channels[c].empty()) waiting.push_back(c);
        }
        if (waiting.empty()) break;
        const size_t c = waiting[own() % waiting.size()];
        const Drawn& drawn = *channels[c].front();
        channels[c].pop_front();
        const cudaStream_t stream = own() % 2 ? rank.stream : cudaStream_t{other};
        if (c < static_cast<size_t>(ranks)) {
          sent.push_back(std::make_unique<Array<int>>(Numbers(drawn.size, drawn.first)));
          EXPECT_NCCL(
              ncclSend(sent.back()->data(), drawn.size, ncclInt, drawn.to, rank.comm, stream));
        } else {
          got.emplace_back(&drawn, std::make_unique<Array<int>>(drawn.size, -1));
          EXPECT_NCCL(ncclRecv(got.back().second->data(), drawn.size, ncclInt, drawn.from,
                               rank.comm, stream));
        }
      }
      EXPECT_NCCL(ncclGroupEnd());
      EXPECT_CUDA(cudaStreamSynchronize(other));
      for (const auto& [drawn, array] : got) {
        EXPECT_EQ(array->Read(rank.stream), Numbers(drawn->size, drawn->first))
            << "seed " << seed << ": " << drawn->from << " to " << drawn->to;
      }
      rank.Synchronize();
    }
    EXPECT_EQ(rank.AsyncError(), ncclSuccess) << "seed " << seed;
  });
}

TEST(Messages, OfRandomGroupsArrive) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    RunRandomRounds(seed, 1 + static_cast<int>(seed) % kDevices);
  }
}

// Each process passes its numbers to the next one of a ring.
int PassAround(Part& part) {
  Rank& rank = part.rank;
  ROLE_CHECK(ncclCommInitRank(&rank.comm, rank.ranks, part.id, rank.rank) == ncclSuccess);
  const int next = (rank.rank + 1) % rank.ranks, before = (rank.rank + rank.ranks - 1) % rank.ranks;
  constexpr size_t kCount = 300000;
  const Array<int> from(Numbers(kCount, rank.rank)), to(kCount, 0);
  for (int round = 0; round < 10; ++round) {
    ROLE_CHECK(ncclGroupStart() == ncclSuccess);
    ROLE_CHECK(SendArray(rank, from, next) == ncclSuccess);
    ROLE_CHECK(ReceiveArray(rank, to, before) == ncclSuccess);
    ROLE_CHECK(ncclGroupEnd() == ncclSuccess);
    ROLE_CHECK(to.Read(rank.stream) == Numbers(kCount, before));
  }
  ROLE_CHECK(ncclCommDestroy(rank.comm) == ncclSuccess);
  return 0;
}
const NamedRole pass_around("pass around", PassAround);

TEST(Messages, BetweenProcessesArrive) {
  for (const int ranks : {2, 5}) {
    EXPECT_EQ(RunRanks("pass around", ranks), std::vector<int>(static_cast<size_t>(ranks), 0));
  }
}

}  // namespace
}  // namespace hostgpu::nccl::testing
