// Helpers for tests of channels: the stand-in's devices, buffers, an addition, messages with known
// content, and ranks that are threads and gather without a control plane.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver.h"
#include "cuda/resources.h"
#include "shim/host/enqueue.h"
#include "shim/host/hostgpu.h"
#include "tests/support/becomes.h"
#include "transport/channel.h"

namespace ucudnn::transport::testing {

using std::chrono::milliseconds;
using ::ucudnn::test::Becomes;

using Open = Result<std::unique_ptr<Channel>> (*)(const ChannelSetup&);

inline Status OkIf(CUresult result, const char* action) {
  return cuda::DriverStatus(*cuda::GetDriver(), result, action);
}

// ---- The device of a rank -----------------------------------------------------------------------

// Holds a device's primary context, which is current on this thread, and a non-blocking stream.
class RankDevice {
 public:
  explicit RankDevice(int device) : device_(device) {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS) << device;
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  ~RankDevice() {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    for (const CUdeviceptr buffer : buffers_) EXPECT_EQ(cuMemFree(buffer), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(device_), CUDA_SUCCESS);
  }
  RankDevice(const RankDevice&) = delete;
  RankDevice& operator=(const RankDevice&) = delete;

  // Returns device memory that lives as long as this object.
  CUdeviceptr Allocate(size_t bytes) {
    CUdeviceptr buffer = 0;
    EXPECT_EQ(cuMemAlloc(&buffer, bytes), CUDA_SUCCESS);
    buffers_.push_back(buffer);
    return buffer;
  }

  template <class Value>
  void Upload(CUdeviceptr to, const std::vector<Value>& values) {
    EXPECT_EQ(cuMemcpyHtoDAsync(to, values.data(), values.size() * sizeof(Value), stream),
              CUDA_SUCCESS);
  }
  // Returns the values at `from` after everything on the stream has run.
  template <class Value>
  std::vector<Value> Download(CUdeviceptr from, size_t count) {
    std::vector<Value> values(count);
    EXPECT_EQ(cuMemcpyDtoHAsync(values.data(), from, count * sizeof(Value), stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    return values;
  }
  void Fill(CUdeviceptr to, unsigned char byte, size_t bytes) {
    EXPECT_EQ(cuMemsetD8Async(to, byte, bytes, stream), CUDA_SUCCESS);
  }

  CUcontext context = nullptr;
  CUstream stream = nullptr;

 private:
  int device_;
  std::vector<CUdeviceptr> buffers_;
};

// Makes the stream wait for `time`.
inline void Delay(CUstream stream, std::chrono::microseconds time) {
  const auto sleep = [](void* argument) {
    const std::unique_ptr<std::chrono::microseconds> held(
        static_cast<std::chrono::microseconds*>(argument));
    std::this_thread::sleep_for(*held);
  };
  EXPECT_EQ(cuLaunchHostFunc(stream, sleep, new std::chrono::microseconds(time)), CUDA_SUCCESS);
}

// Returns whether the stream finishes all its work within 10 s.
inline bool Finishes(CUstream stream) {
  return Becomes([&] { return cuStreamQuery(stream) == CUDA_SUCCESS; }, milliseconds(10000));
}

// Returns whether the channel fails within 10 s.
inline bool Fails(Channel& channel) {
  return Becomes([&] { return !channel.Check().ok(); }, milliseconds(10000));
}

template <class Value>
void Add(void* to, const void* from, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    static_cast<Value*>(to)[i] += static_cast<const Value*>(from)[i];
  }
}

// The ChannelSetup::add of the tests: adds on the host when the stream comes to the addition. It
// may be captured like a kernel.
inline Status AddOnHost(CUdeviceptr to, CUdeviceptr from, size_t count, Element element,
                        CUstream stream) {
  void* const sum = hostgpuHostAlias(reinterpret_cast<void*>(to));
  const void* const summand = hostgpuHostAlias(reinterpret_cast<void*>(from));
  if (!sum || !summand) return Status::Error("no device memory to add");
  const auto add = [=] {
    element == Element::kFloat32 ? Add<float>(sum, summand, count)
                                 : Add<double>(sum, summand, count);
  };
  const bool enqueued =
      hostgpu::EnqueueOn(stream, {reinterpret_cast<void*>(to), reinterpret_cast<void*>(from)}, add);
  return enqueued ? Status::Ok() : Status::Error("the stream takes no addition");
}

// ---- Messages ----------------------------------------------------------------------------------

// Returns what rank `from` sends to rank `to` in a round. No byte is 0xff, which marks bytes that
// no rank sent.
inline std::vector<unsigned char> Content(int round, int from, int to, size_t bytes) {
  std::vector<unsigned char> content(bytes);
  uint32_t value = round * 7919 + from * 101 + to * 13 + 1;
  for (unsigned char& byte : content) {
    value = value * 1664525 + 1013904223;
    byte = (value >> 24) % 255;
  }
  return content;
}

// Holds the size in bytes of the message from each rank to each other rank in each round; 0 means
// no message. The same arguments give the same plan on all ranks.
class Plan {
 public:
  Plan(unsigned seed, int size, int rounds, size_t most_bytes)
      : size_(size), bytes_(rounds, std::vector<size_t>(size * size)) {
    std::mt19937 random(seed);
    for (std::vector<size_t>& round : bytes_) {
      for (int pair = 0; pair < size * size; ++pair) {
        const bool small = random() % 2 == 0;
        const size_t bytes = 1 + random() % (small ? 64 : most_bytes);
        if (pair / size != pair % size && random() % 3 != 0)
          round[pair] = std::min(bytes, most_bytes);
      }
    }
  }
  int rounds() const { return static_cast<int>(bytes_.size()); }
  size_t Bytes(int round, int from, int to) const { return bytes_[round][from * size_ + to]; }

 private:
  int size_;
  std::vector<std::vector<size_t>> bytes_;
};

// Holds the buffers of one rank for one round of a plan, and enqueues their contents on the rank's
// stream.
struct Round {
  Round(RankDevice& device, const Plan& plan, int round, int rank, int size) {
    for (int peer = 0; peer < size; ++peer) {
      if (const size_t bytes = plan.Bytes(round, rank, peer); bytes > 0) {
        sends.push_back({peer, device.Allocate(bytes), bytes});
        device.Upload(sends.back().data, Content(round, rank, peer, bytes));
      }
      if (const size_t bytes = plan.Bytes(round, peer, rank); bytes > 0) {
        receives.push_back({peer, device.Allocate(bytes), bytes});
        device.Fill(receives.back().data, 0xff, bytes);
      }
    }
  }
  // Overwrites the sent data after the exchange, in the order of the stream. The new bytes must not
  // reach any rank.
  void RewriteSent(RankDevice& device) const {
    for (const Message& message : sends) device.Fill(message.data, 0xdd, message.bytes);
  }

  std::vector<Message> sends, receives;
};

// Expects that rank `rank` has received what the plan sends to it in each round.
inline void ExpectArrived(RankDevice& device, const std::vector<Round>& rounds, int rank) {
  for (size_t round = 0; round < rounds.size(); ++round) {
    for (const Message& message : rounds[round].receives) {
      EXPECT_EQ(device.Download<unsigned char>(message.data, message.bytes),
                Content(static_cast<int>(round), message.peer, rank, message.bytes))
          << "round " << round << " from " << message.peer << " to " << rank;
    }
  }
}

// In each round of `plan`, exchanges the round's messages and sums numbers over the ranks, with
// random delays. Expects the right results.
template <class Rank>
void ExchangeAndSum(Rank& self, Channel& channel, const Plan& plan, unsigned seed) {
  std::mt19937 random(seed + self.rank);
  const CUdeviceptr numbers = self.device.Allocate(4000 * plan.rounds());
  std::vector<Round> rounds;
  for (int round = 0; round < plan.rounds(); ++round) {
    rounds.emplace_back(self.device, plan, round, self.rank, self.size);
    self.device.Upload(numbers + 4000 * round,
                       std::vector<float>(1000, float(self.rank * 10 + round)));
    if (random() % 3 == 0) Delay(self.device.stream, std::chrono::microseconds(random() % 800));
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 800));
    const Round& now = rounds.back();
    const Status status = channel.Exchange(now.sends, now.receives, self.device.stream);
    ASSERT_TRUE(status.ok()) << status.message();
    now.RewriteSent(self.device);
    const Status reduced =
        channel.AllReduce(numbers + 4000 * round, 1000, Element::kFloat32, self.device.stream);
    ASSERT_TRUE(reduced.ok()) << reduced.message();
  }
  ExpectArrived(self.device, rounds, self.rank);
  for (int round = 0; round < plan.rounds(); ++round) {
    EXPECT_EQ(self.device.template Download<float>(numbers + 4000 * round, 1000),
              std::vector<float>(1000, float(5 * self.size * (self.size - 1) + self.size * round)));
  }
  const Status checked = channel.Check();
  EXPECT_TRUE(checked.ok()) << checked.message();
}

// ---- Ranks as threads --------------------------------------------------------------------------

// Gathers between threads. Fail() makes all gathers fail, those that wait and later ones.
class ThreadMeeting {
 public:
  explicit ThreadMeeting(int size) : size_(size), texts_(size), gatherers_(size) {
    for (int rank = 0; rank < size; ++rank) {
      gatherers_[rank].meeting = this;
      gatherers_[rank].rank = rank;
    }
  }
  Gatherer& Of(int rank) { return gatherers_[rank]; }
  void Fail() {
    std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  bool failed() {
    std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  struct One : Gatherer {
    ThreadMeeting* meeting = nullptr;
    int rank = 0;
    Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view) override {
      return meeting->Gather(rank, mine);
    }
  };

  Result<std::vector<std::string>> Gather(int rank, std::string_view mine) {
    std::unique_lock lock(mutex_);
    texts_[rank] = mine;
    const int gathering = gathered_;
    if (++came_ == size_) {
      came_ = 0;
      ++gathered_;
      all_ = texts_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return failed_ || gathered_ != gathering; });
    if (gathered_ == gathering) return Status::Error("the meeting failed");
    return all_;
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_, all_;
  std::vector<One> gatherers_;
  int came_ = 0, gathered_ = 0;
  bool failed_ = false;
};

struct RankThread {
  int rank, size;
  RankDevice& device;
  ThreadMeeting& meeting;
  ChannelSetup setup;
};

// Runs `body` for each rank on a thread of its own. Rank r has device r modulo `devices`.
inline void RunRanks(int size, int devices, const std::function<void(RankThread&)>& body) {
  ThreadMeeting meeting(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      RankDevice device(rank % devices);
      RankThread self{rank, size, device, meeting, {}};
      self.setup.driver = cuda::GetDriver();
      self.setup.context = device.context;
      self.setup.rank = rank;
      self.setup.size = size;
      self.setup.gatherer = &meeting.Of(rank);
      self.setup.timeout = milliseconds(20000);
      self.setup.given_up = [&meeting] { return meeting.failed(); };
      self.setup.add = AddOnHost;
      body(self);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Returns when all ranks have called Await.
inline void Await(RankThread& self) {
  ASSERT_TRUE(GatherAll(self.meeting.Of(self.rank), self.size, "", "").ok());
}

// Runs `body` on every rank while the next allocation of the process is set to fail, whichever rank
// makes it. REQUIRES: all ranks call this.
inline void WithoutNextAllocation(RankThread& self, const std::function<void()>& body) {
  if (self.rank == 0) hostgpuInjectFault("alloc", 1);
  Await(self);
  body();
  Await(self);
  if (self.rank == 0) hostgpuInjectFault("alloc", 0);
  Await(self);
}

// Runs `body` for each rank, as RunRanks does, with the channel that `open` opens for the rank.
inline void RunChannels(int size, int devices, Open open,
                        const std::function<void(RankThread&, Channel&)>& body) {
  RunRanks(size, devices, [&](RankThread& self) {
    const Result<std::unique_ptr<Channel>> channel = open(self.setup);
    ASSERT_TRUE(channel.ok()) << channel.message();
    body(self, **channel);
  });
}

}  // namespace ucudnn::transport::testing
