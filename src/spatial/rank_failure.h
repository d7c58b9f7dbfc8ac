// How the split calls of all ranks fail together: the first failure anywhere is told by every rank
// in the same words, and all later calls are errors. Lines name ranks by their numbers in the job.
// Thread-safe.
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
  // `ranks` outlives this.
  RankFailure(transport::Ranks& ranks, const SpatialGrid& grid) : ranks_(ranks), grid_(grid) {}

  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  // From now on all ranks' calls fail, with this line.
  void Fail(const std::string& line);
  // Fails because of what this rank's call of that number met.
  void FailAt(uint64_t call, const std::string& what) {
    Fail(OwnName() + ", call " + std::to_string(call) + ": " + what);
  }
  // From now on this rank's calls fail; the line is to come.
  void FailWithoutLine() { has_failed_.store(true, std::memory_order_release); }
  // The job has failed with `line`: tells the user, with this rank's last call by its `records`.
  // Once, on the transport's thread.
  void Hear(std::string_view line, const CallRecords& records);
  // Whether the line was written.
  bool is_told() const { return is_told_.load(std::memory_order_acquire); }
  // Waits for that, for a bounded time: a process that ends at the error would end without it.
  void AwaitTold() const;

  // The rank's channel, which is aborted where the job fails. It outlives all calls of Hear.
  void Publish(transport::Channel& channel);
  transport::Channel* channel() const { return channel_.load(std::memory_order_acquire); }

  int RankOfJob(int group_rank) const {
    return grid_.RankInGroup(ranks_.membership().group, group_rank);
  }
  std::string NameOf(int group_rank) const {
    return "rank " + std::to_string(RankOfJob(group_rank));
  }
  std::string OwnName() const { return "rank " + std::to_string(ranks_.membership().rank); }
  // What a channel says, which counts ranks within the group.
  std::string OfChannel(const Status& status) const;

 private:
  transport::Ranks& ranks_;
  const SpatialGrid grid_;
  std::atomic<bool> has_failed_ = false;
  std::atomic<bool> is_told_ = false;
  std::atomic<transport::Channel*> channel_ = nullptr;
};

}  // namespace ucudnn::spatial
