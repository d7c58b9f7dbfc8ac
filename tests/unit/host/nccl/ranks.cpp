#include "tests/unit/host/nccl/ranks.h"

#include <thread>

namespace hostgpu::nccl::testing {

void WithRanks(int ranks, const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      EXPECT_CUDA(cudaSetDevice(r));
      const Stream stream;
      Rank rank{r, ranks, nullptr, stream};
      ASSERT_EQ(ncclCommInitRank(&rank.comm, ranks, id, r), ncclSuccess)
          << ncclGetLastError(nullptr);
      body(rank);
      EXPECT_NCCL(ncclCommDestroy(rank.comm));
      EXPECT_CUDA(cudaStreamSynchronize(rank.stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Barrier::Wait() {
  std::unique_lock lock(mutex_);
  const int round = round_;
  if (++waiting_ == count_) {
    waiting_ = 0;
    ++round_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return round_ != round; });
}

}  // namespace hostgpu::nccl::testing
