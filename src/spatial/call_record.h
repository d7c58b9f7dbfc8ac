// The record that each rank posts about every split call: CallSequence makes and posts this rank's
// records, and CallRecords compares the records of all ranks. The comparison finds every difference
// between the calls of two ranks, but may find a difference late. The calls that devices begin have
// records and numbers of their own.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "convolution/problem.h"

namespace ucudnn::transport {
class Ranks;
}  // namespace ucudnn::transport

namespace ucudnn::spatial {

class RankFailure;
class SplitKernel;
struct SplitCall;
struct SplitSettings;

// Formats extents d, h, w: "1x16x12".
std::string ExtentsText(const Spatial& extents);

// kBegun marks a record of a call that the device begins (device_log.h); the other values are kinds
// of calls that hosts make.
enum class RecordKind : uint8_t { kExchanged, kAgreed, kRefused, kReplicated, kBegun };

// A plain value of 64 bytes. Its bytes are posted as they are, because the claims have ensured that
// all ranks run the same release on machines of one kind.
struct CallRecord {
  uint64_t sequence = 0;  // number of the record, from 1
  uint64_t kernel = 0;    // hash of the properties that all ranks share
  uint64_t call = 0;      // for kBegun: the number of the call that the device begins
  Spatial extents = {1, 1, 1};
  int32_t operation = 0;
  int32_t thread = 0;  // the thread's index among the threads that made split calls
  int32_t handle = 0;
  RecordKind kind = RecordKind::kExchanged;
  uint8_t captured = 0;
  uint8_t has_rows = 0;  // the previous call has received the rows of this call
  uint8_t reserved[13] = {};

  bool operator==(const CallRecord&) const = default;
};
static_assert(sizeof(CallRecord) == 64);

// The extents of each rank's x on which the ranks agreed; calls of one kernel share them.
using AllExtents = std::shared_ptr<const std::vector<Spatial>>;

// The last sentence of a message that says that ranks make different calls.
inline constexpr const char* kPrivateCalls =
    "Ranks that time plans do so a private number of times: in PyTorch, set benchmark = False";

// Formats a kBegun record: "split call 7, which is in a CUDA graph".
std::string BegunCallText(const CallRecord& record);

// Returns the end of a message that says from which call on results may be wrong.
std::string SuspectFrom(uint64_t call);

// Compares this rank's records with the records of the other ranks of its group. Thread-safe: the
// thread that makes the rank's calls and the transport's thread use it. After MakeRoom, Add
// allocates nothing. The time of Add does not grow with the number of kernels.
class CallRecords {
 public:
  // Returns how many calls a rank of a group of `ranks` may be ahead of the slowest other rank. The
  // number is smaller for large groups, so that the records of all ranks need at most a few tens of
  // MiB.
  static size_t MostAhead(int ranks);

  // `first` is the number, within the job, of the group's rank 0. Messages name ranks by their
  // numbers within the job.
  CallRecords(int rank, int ranks, int first = 0);
  // Allocates the memory for records now instead of at the first record.
  void MakeRoom();

  // Adds this rank's next record. `extents` are the extents that each rank must have in its record;
  // null: all ranks have the extents of `record`. If another rank's record of this number has
  // already arrived and differs, returns the difference; otherwise none.
  std::optional<std::string> Add(const CallRecord& record, AllExtents extents);
  // Adds another rank's next record, which arrived as `bytes`. If the record differs from this
  // rank's record of the same number, returns the difference; otherwise none.
  std::optional<std::string> AddOf(int rank, std::string_view bytes);

  // Another rank's record of this rank's next call. NotAgreeing returns the first such record that
  // has arrived and whose kind is not kAgreed, which means that the other rank gathers no claims in
  // that call. Returns none if there is no such record.
  struct Early {
    int rank = 0;
    CallRecord record;
  };
  std::optional<Early> NotAgreeing() const;

  // Returns whether Add or AddOf has returned a difference so far. A thread that has waited until
  // ahead() is 0 must call this, too: AddOf may have returned a difference to another thread, and
  // that thread may not have failed the job yet.
  bool differ() const;

  size_t most_ahead() const { return MostAhead(ranks_); }
  // Returns the sequence number of this rank's latest record.
  uint64_t last() const;
  // Returns this rank's record with the number `sequence`. REQUIRES: last() - sequence is less than
  // most_ahead().
  CallRecord Own(uint64_t sequence) const;
  // Returns the number of the latest record that has arrived from `rank`; for this rank, returns
  // last().
  uint64_t last_of(int rank) const;
  // Returns how many calls this rank is ahead of the slowest other rank.
  uint64_t ahead() const;

 private:
  // This rank's record of a call, with the extents that each rank must have in its record.
  struct Made {
    CallRecord record;
    AllExtents extents;
  };
  void Grow() UCUDNN_REQUIRES(mutex_);
  std::optional<std::string> Compare(int rank, const CallRecord& theirs) const
      UCUDNN_REQUIRES(mutex_);
  void Drain(int rank, std::optional<std::string>& difference) UCUDNN_REQUIRES(mutex_);

  const int rank_, ranks_, first_;
  mutable Mutex mutex_;
  uint64_t last_ UCUDNN_GUARDED_BY(mutex_) = 0;
  std::vector<Made> own_ UCUDNN_GUARDED_BY(mutex_);  // a ring buffer
  // The records of one other rank. `early` is a ring buffer of records that arrived before this
  // rank made the same call. `met` counts the records that have arrived, and `compared` the records
  // that were compared.
  struct Peer {
    std::vector<CallRecord> early;
    uint64_t met = 0, compared = 0;
  };
  std::vector<Peer> peers_ UCUDNN_GUARDED_BY(mutex_);
  bool differ_ UCUDNN_GUARDED_BY(mutex_) = false;
};

// The split calls of a rank. All ranks of the group make their split calls in the same order.
// CallSequence numbers the calls, and the threads and handles that make the calls. It posts the
// record of each call to the other ranks, and waits before this rank gets too far ahead of them.
// Not thread-safe, except for Forget: a rank makes one call at a time.
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
  // agreed. If `kernel` is null, all ranks refuse the call without an agreement, and the record has
  // no kernel and no extents. Makes all ranks fail if another rank's record of this call differs.
  void Post(const SplitCall& call, const SplitKernel* kernel, const Posting& posting);
  // If SplitSettings::waits_for_records is set, waits for all ranks' records of the call. Returns
  // false if the records differ or the job has failed.
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
