#include "cudnn/real_library.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

namespace ucudnn::cudnn {
namespace {

const std::string kNine = std::string(ROOT) + "/nine/libcudnn.so.9";

TEST(RealLibrary, ThreadsThatComeAtOnceShareOneAndLaterCallsKeepIt) {
  constexpr size_t kThreads = 8;
  std::vector<const RealLibrary*> seen(kThreads);
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      seen[i] = &OpenReal(kNine.c_str(), nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const RealLibrary* real : seen) EXPECT_EQ(real, seen[0]);
  EXPECT_EQ(seen[0]->search.path, kNine);
  EXPECT_TRUE(seen[0]->library.has_value());
  EXPECT_EQ(&OpenReal("/another/libcudnn.so.9", nullptr), seen[0]);
}

}  // namespace
}  // namespace ucudnn::cudnn
