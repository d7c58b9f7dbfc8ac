// A rank's callbacks for posts, gathers, leaving ranks and the failure. Events that come before the
// rank has set its callbacks are kept. Callbacks run in the order of the events, except that the
// failure's callback does not wait for kept events. Thread-safe: a callback runs under the lock of
// this class.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace ucudnn::transport {

struct Callbacks {
  std::function<void(int group_rank, std::string_view record)> post;
  std::function<void(int group_rank, uint64_t number)> gather;
  std::function<void(int rank, std::string_view last)> leave;
  std::function<void(std::string_view line)> failure;
};

class Listeners {
 public:
  // Calls `set`, which assigns a callback. If `opens` is true, calls the callbacks, in order, for
  // all events that were kept so far; from then on no events are kept.
  void Set(const std::function<void(Callbacks&)>& set, bool opens);

  // To be called by the service thread. Post, Gather and Leave return false if too many events are
  // kept because the rank has not set its callbacks.
  bool Post(int group_rank, std::string_view record);
  bool Gather(int group_rank, uint64_t number);
  bool Leave(int rank, std::string_view last);
  void Failure(std::string_view line);

 private:
  struct Event {
    enum Kind { kPost, kGather, kLeave } kind;
    int rank;
    uint64_t number;
    std::string_view text;
  };
  struct KeptEvent {
    Event event;
    std::string text;
  };
  bool Hear(const Event& event);
  void Tell(const Event& event) UCUDNN_REQUIRES(mutex_);

  Mutex mutex_;
  Callbacks callbacks_ UCUDNN_GUARDED_BY(mutex_);
  bool open_ UCUDNN_GUARDED_BY(mutex_) = false;
  std::vector<KeptEvent> kept_ UCUDNN_GUARDED_BY(mutex_);
  size_t kept_bytes_ UCUDNN_GUARDED_BY(mutex_) = 0;
  std::optional<std::string> failure_ UCUDNN_GUARDED_BY(mutex_);
  bool failure_told_ UCUDNN_GUARDED_BY(mutex_) = false;
};

}  // namespace ucudnn::transport
