// The split calls of a rank, in one order, which is the same on all ranks of the group. Numbers the
// calls, and the threads and handles that make them. Posts the record of each call to the other
// ranks, and waits before this rank gets too far ahead of them (call_record.h). Not thread-safe,
// except for Forget: a rank makes one call at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "base/mutex.h"
#include "spatial/call_record.h"
#include "spatial/rank_failure.h"
#include "spatial/split_call.h"
#include "spatial/split_kernel.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {

class CallSequence {
 public:
  // All arguments must outlive the object. `records` compares the calls of all ranks.
  CallSequence(const SplitSettings& settings, transport::Ranks& ranks, RankFailure& failure,
               CallRecords& records);

  // Begins the next call.
  void Begin() { ++number_; }
  // Returns the number of the latest call, from 1; 0: there was none.
  uint64_t number() const { return number_; }

  struct Posting {
    bool agreed_now = false;  // the ranks have agreed on the kernel at this call
    bool has_rows = false;    // the previous call has received the rows of this call
  };
  // Posts the record of the latest call. `kernel` is the call's kernel, on which all ranks have
  // agreed; null: all ranks refuse the call without an agreement, and compare only its number and
  // its kind. Makes all ranks fail if another rank's record of this call differs.
  void Post(const SplitCall& call, const SplitKernel* kernel, const Posting& posting);
  // If SplitSettings::waits_for_records is set, waits for all ranks' records of the call. Returns
  // false if they differ or the job has failed.
  bool AwaitIfChecked();
  // Forgets the number of a destroyed handle, because a new handle may get the same address.
  void Forget(cudnnHandle_t handle);

 private:
  // Waits until this rank is at most `most_ahead` calls ahead of the slowest other rank.
  void AwaitRecords(uint64_t most_ahead);
  int NumberOfThread();  // number of the calling thread
  int NumberOf(cudnnHandle_t handle);

  const SplitSettings& settings_;
  transport::Ranks& ranks_;
  RankFailure& failure_;
  CallRecords& records_;
  const uint64_t identity_;  // distinguishes all objects of this class that the process ever makes
  uint64_t number_ = 0;
  int thread_count_ = 0;
  Mutex handles_mutex_;  // a handle may be destroyed while another thread makes a call
  std::map<cudnnHandle_t, int> handles_ UCUDNN_GUARDED_BY(handles_mutex_);
  int handle_count_ UCUDNN_GUARDED_BY(handles_mutex_) = 0;
};

}  // namespace ucudnn::spatial
