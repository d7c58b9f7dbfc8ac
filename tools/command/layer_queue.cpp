#include "command/layer_queue.h"

namespace ucudnn::command {

LayerQueue::LayerQueue(const std::vector<Layer>& layers) : states_(layers.size(), State::kWaiting) {
  for (const Layer& layer : layers) families_.push_back(KernelFamily(layer.problem));
}

bool LayerQueue::IsBusy(const ConvolutionProblem& family) const {
  for (size_t i = 0; i < families_.size(); ++i) {
    if (states_[i] == State::kTaken && families_[i] == family) return true;
  }
  return false;
}

std::optional<size_t> LayerQueue::Take() {
  std::unique_lock lock(mutex_);
  for (;;) {
    bool any = false;
    for (size_t i = 0; !stopped_ && i < families_.size(); ++i) {
      if (states_[i] != State::kWaiting) continue;
      any = true;
      if (IsBusy(families_[i])) continue;
      states_[i] = State::kTaken;
      return i;
    }
    if (!any) return std::nullopt;
    changed_.wait(lock);
  }
}

void LayerQueue::Done(size_t index) {
  std::lock_guard lock(mutex_);
  states_[index] = State::kDone;
  changed_.notify_all();
}

void LayerQueue::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace ucudnn::command
