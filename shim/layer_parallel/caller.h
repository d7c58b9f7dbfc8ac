// Calls the program's callbacks, and keeps their failures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "layer_parallel/answer.h"
#include "ucudnn/layer_parallel.h"

namespace ucudnn::layer_parallel {

class Caller {
 public:
  Caller(const ucudnnLayerParallelCallbacks_t& callbacks, int lanes)
      : callbacks_(callbacks), failures_(lanes) {}

  const ucudnnLayerParallelCallbacks_t& callbacks() const { return callbacks_; }

  // The subject of a call, for its message: layers if `layers` is above 0, else the state `state`
  // if that is not negative.
  struct Subject {
    int level = 0;
    int first_layer = 0;
    int layers = 0;
    long long state = -1;
  };
  // Runs call(); returns Ok if it returns 0. `callback` is its name, a literal. The error has no
  // message, so that a lane allocates nothing; Failed() has the details. Several threads call Run
  // at once, each with its lane. An exception of the program ends the process here: its unwinder
  // cannot pass through this library, which has another one.
  template <typename Call>
  Status Run(const char* callback, const Subject& subject, int lane, Call&& call) noexcept {
    const int code = call();
    return code == 0 ? Status::Ok() : Fail({callback, subject, code}, lane);
  }

  struct Failure {
    const char* callback = "";
    Subject subject;
    int code = 0;
    const char* words = nullptr;  // a literal; null if it returned `code`
  };
  Status Fail(const Failure& failure, int lane) noexcept {
    failures_[lane] = failure;
    return Status::Error({});
  }

  // Joins the lanes if they are queues; returns Ok if they are not.
  Status Join() noexcept {
    if (callbacks_.join == nullptr) return Status::Ok();
    return Run("join", {}, 0, [&] { return callbacks_.join(callbacks_.user); });
  }
  Status Wait() noexcept {
    if (callbacks_.wait == nullptr) return Status::Ok();
    return Run("wait", {}, 0, [&] { return callbacks_.wait(callbacks_.user); });
  }
  // Waits after a failure, which stays the failure to report.
  void WaitAfterFailure() noexcept {
    if (callbacks_.wait != nullptr) callbacks_.wait(callbacks_.user);
  }

  // To be called before a function of the API runs callbacks.
  void Forget() { failures_.assign(failures_.size(), std::nullopt); }
  // Returns the failure of a callback since Forget(), if there was one. It is the failure of the
  // first lane, whose status Lanes also return.
  std::optional<Answer> Failed() const;

 private:
  ucudnnLayerParallelCallbacks_t callbacks_;
  std::vector<std::optional<Failure>> failures_;  // by lane
};

}  // namespace ucudnn::layer_parallel
