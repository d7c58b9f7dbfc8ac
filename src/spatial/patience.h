// Measures a wait: says when to warn, once, and when to give up. Thread-compatible.
#pragma once

#include <chrono>
#include <string>

namespace ucudnn::spatial {

class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  Patience(Milliseconds warning, Milliseconds timeout) : warning_(warning), timeout_(timeout) {}

  enum Advice { kWait, kWarn, kGiveUp };
  // Returns what the waiting thread should do at time `now`. `moved` says that the awaited event
  // has come nearer since the last Judge, or that nothing is awaited. The wait then begins anew.
  Advice Judge(bool moved, Clock::time_point now) {
    if (moved) {
      since_ = now;
      told_ = false;
    }
    waited_ = std::chrono::duration_cast<Milliseconds>(now - since_);
    if (waited_ > timeout_) return kGiveUp;
    if (waited_ <= warning_ || told_) return kWait;
    told_ = true;
    return kWarn;
  }
  // Formats the time waited so far: " for 7 s".
  std::string WaitedText() const { return " for " + std::to_string(waited_.count() / 1000) + " s"; }

 private:
  const Milliseconds warning_, timeout_;
  Clock::time_point since_ = Clock::now();
  Milliseconds waited_{0};
  bool told_ = false;
};

}  // namespace ucudnn::spatial
