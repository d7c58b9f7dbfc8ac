// What long measuring shows on a terminal: the layer under way, how many there are, and about how
// much longer it takes. Nothing in a pipe. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "convolution/layer.h"

namespace ucudnn::command {

// About how long `left` of work takes after `done` of it took `passed`; empty before anything is
// done. "4 min 10 s left".
std::string TimeLeft(std::chrono::duration<double> passed, double done, double left);

class Progress {
 public:
  // `devices` measure the layers, in their order.
  Progress(const std::vector<Layer>& layers, size_t devices);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A device begins with `layer`.
  void Next(const Layer& layer);
  void Clear() const;

 private:
  const bool shown_;
  const size_t devices_;
  const std::chrono::steady_clock::time_point begin_;
  std::vector<double> work_;  // of the first i layers
  size_t begun_ = 0;
};

}  // namespace ucudnn::command
