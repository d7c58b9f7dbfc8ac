// Layers that several devices measure at once: each is taken once, and two of one kernel, at
// whatever mini-batch, never at the same time, for the second may find all it needs measured.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "convolution/layer.h"

namespace ucudnn::command {

class LayerQueue {
 public:
  explicit LayerQueue(const std::vector<Layer>& layers);

  // The index of the next layer; waits for one whose kernel nobody measures. None: all are taken,
  // or the queue was stopped.
  std::optional<size_t> Take();
  void Done(size_t index);
  // Nothing is taken any more.
  void Stop();

 private:
  enum class State { kWaiting, kTaken, kDone };
  bool IsBusy(const ConvolutionProblem& family) const;

  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::vector<ConvolutionProblem> families_;
  std::vector<State> states_;
  bool stopped_ = false;
};

}  // namespace ucudnn::command
