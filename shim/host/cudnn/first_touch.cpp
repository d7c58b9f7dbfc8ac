#include "shim/host/cudnn/first_touch.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace hostgpu {
namespace {

constexpr long kMostMicroseconds = 10'000'000;

}  // namespace

FirstTouch::FirstTouch(const char* setting) {
  if (setting == nullptr || *setting == '\0') return;
  int read = 0;
  int algorithm = kNone;
  long microseconds = -1;
  const int fields = std::sscanf(setting, "%d:%ld%n", &algorithm, &microseconds, &read);
  if (fields == 2 && setting[read] == '\0' && algorithm >= 0 && algorithm < kAlgorithmCount &&
      microseconds >= 0 && microseconds <= kMostMicroseconds) {
    algorithm_ = algorithm;
    cost_ = std::chrono::microseconds(microseconds);
    return;
  }
  std::fprintf(
      stderr,
      "hostgpu: HOSTGPU_FIRST_TOUCH=%s is not ALGORITHM:MICROSECONDS; the default is used\n",
      setting);
}

std::chrono::microseconds FirstTouch::Cost(int algorithm, const void* image) {
  using std::chrono::microseconds;
  if (algorithm != algorithm_) return microseconds(0);
  return last_.exchange(image) == image ? microseconds(0) : cost_;
}

void PayFirstTouch(Operation operation, int algorithm, const void* x, const void* y) {
  static FirstTouch touch(std::getenv("HOSTGPU_FIRST_TOUCH"));
  const auto cost = touch.Cost(algorithm, operation == Operation::kBackwardData ? y : x);
  if (cost.count() > 0) std::this_thread::sleep_for(cost);
}

}  // namespace hostgpu
