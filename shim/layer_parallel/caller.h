// Calls the program's callbacks and records their failures.
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

  // Names what a callback worked on, for the error message: layers if layers > 0, else the state
  // with number `state` if that is not negative, else nothing.
  struct Subject {
    int level = 0;
    int first_layer = 0;
    int layers = 0;
    long long state = -1;
  };
  // Runs call() and returns Ok if it returns 0. Otherwise records the failure for Failed(), and
  // returns an error without a message, so that no memory is allocated. `callback` is the
  // callback's name, a literal. Several threads may call Run at once with different lanes.
  //
  // `noexcept` ends the process if the program's callback throws: this library has its own
  // unwinder, which cannot continue the program's unwinding.
  template <typename Call>
  Status Run(const char* callback, const Subject& subject, int lane, Call&& call) noexcept {
    const int code = call();
    return code == 0 ? Status::Ok() : Fail({callback, subject, code}, lane);
  }

  struct Failure {
    const char* callback = "";
    Subject subject;
    int code = 0;
    // A literal that says what the callback did wrong; null if the callback failed by returning
    // `code`.
    const char* words = nullptr;
  };
  Status Fail(const Failure& failure, int lane) noexcept {
    failures_[lane] = failure;
    return Status::Error({});
  }

  // Calls the `join` callback; returns Ok if the program has none.
  Status Join() noexcept {
    if (callbacks_.join == nullptr) return Status::Ok();
    return Run("join", {}, 0, [&] { return callbacks_.join(callbacks_.user); });
  }
  Status Wait() noexcept {
    if (callbacks_.wait == nullptr) return Status::Ok();
    return Run("wait", {}, 0, [&] { return callbacks_.wait(callbacks_.user); });
  }
  // Calls the `wait` callback after a failure, and ignores its result: the first failure is the one
  // to report.
  void WaitAfterFailure() noexcept {
    if (callbacks_.wait != nullptr) callbacks_.wait(callbacks_.user);
  }

  // Forgets earlier failures. Each API function that runs callbacks calls this first.
  void Forget() { failures_.assign(failures_.size(), std::nullopt); }
  // Returns the answer for a failure since Forget(); none if no callback failed. If several lanes
  // failed, the answer is for the first of these lanes, as in the status that Lanes returns.
  std::optional<Answer> Failed() const;

 private:
  ucudnnLayerParallelCallbacks_t callbacks_;
  std::vector<std::optional<Failure>> failures_;  // the last failure of each lane
};

}  // namespace ucudnn::layer_parallel
