// Makes the split calls of all ranks fail together: every rank reports the first failure of any
// rank in the same words, and all later calls are errors. Messages name ranks by their numbers in
// the job. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "spatial/call_record.h"
#include "transport/channel.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {

class RankFailure {
 public:
  // `ranks` must outlive the object.
  RankFailure(transport::Ranks& ranks, const SpatialGrid& grid) : ranks_(ranks), grid_(grid) {}

  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  // Makes all later calls of all ranks fail with this line.
  void Fail(const std::string& line);
  // Calls Fail with a line that says what happened to this rank in its call number `call`.
  void FailAt(uint64_t call, const std::string& what) {
    Fail(OwnName() + ", call " + std::to_string(call) + ": " + what);
  }
  // Makes this rank's later calls fail. A later Fail or Hear provides the line.
  void FailWithoutLine() { has_failed_.store(true, std::memory_order_release); }
  // Makes this rank's later calls fail and aborts its channel, because the job has failed.
  // Reports `line` to the user and to the launcher. Also tells the user the number of this rank's
  // last call, from `records`. Called once, on the transport's thread.
  void Hear(std::string_view line, const CallRecords& records);
  // Returns whether Hear has written the line.
  bool is_told() const { return is_told_.load(std::memory_order_acquire); }
  // Waits, for a limited time, until is_told(). So a process that ends because of the error does
  // not end before the line is written.
  void AwaitTold() const;

  // Sets the rank's channel, which is aborted if the job fails. `channel` must outlive all calls of
  // Hear.
  void Publish(transport::Channel& channel);
  transport::Channel* channel() const { return channel_.load(std::memory_order_acquire); }

  int RankOfJob(int group_rank) const {
    return grid_.RankInGroup(ranks_.membership().group, group_rank);
  }
  std::string NameOf(int group_rank) const {
    return "rank " + std::to_string(RankOfJob(group_rank));
  }
  std::string OwnName() const { return "rank " + std::to_string(ranks_.membership().rank); }
  // Returns a channel's message, which names ranks by their numbers within the group. If these
  // differ from the numbers within the job, adds a note that says so.
  std::string OfChannel(const Status& status) const;

 private:
  transport::Ranks& ranks_;
  const SpatialGrid grid_;
  std::atomic<bool> has_failed_ = false;
  std::atomic<bool> is_told_ = false;
  std::atomic<transport::Channel*> channel_ = nullptr;
};

}  // namespace ucudnn::spatial
