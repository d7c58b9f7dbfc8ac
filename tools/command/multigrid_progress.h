// What a user sees on a terminal while `ucudnn multigrid` computes: which cycle, which epoch, how
// far it is. Used from one thread.
#pragma once

#include <chrono>
#include <string>

namespace ucudnn::command {

class MultigridProgress {
 public:
  MultigridProgress();
  MultigridProgress(const MultigridProgress&) = delete;
  MultigridProgress& operator=(const MultigridProgress&) = delete;
  ~MultigridProgress() { Clear(); }

  // "TEXT, 5.1 s".
  void Show(const std::string& text);
  // "TEXT, about 2 min left" by the share of all work that is done, in [0, 1].
  void Show(const std::string& text, double share);
  // Takes the line away.
  void Clear();

 private:
  double Seconds() const;

  const bool rewrites_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace ucudnn::command
