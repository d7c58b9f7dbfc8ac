// The record that each rank posts about every split call, and the comparison of all ranks' records.
// It detects ranks that no longer make the same calls, perhaps late, but always. Calls that devices
// begin have records and numbers of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "convolution/problem.h"

namespace ucudnn::spatial {

// Formats extents: "1x16x12".
std::string ExtentsText(const Spatial& extents);

// kBegun: no call, but a record that the device begins one (device_log.h).
enum class CallKind : uint8_t { kExchanged, kAgreed, kRefused, kReplicated, kBegun };

// A plain value of 64 bytes, which is posted as its bytes: the claims have made sure that ranks are
// processes of one release on machines of one kind.
struct CallRecord {
  uint64_t sequence = 0;  // from 1
  uint64_t kernel = 0;    // hash of the properties that all ranks share
  uint64_t call = 0;      // kBegun: the number of the call that the device begins
  Spatial extents = {1, 1, 1};
  int32_t operation = 0;
  int32_t thread = 0;  // threads are numbered by their first split call
  int32_t handle = 0;
  CallKind kind = CallKind::kExchanged;
  uint8_t captured = 0;
  uint8_t has_rows = 0;  // the rows were received by the call before
  uint8_t reserved[13] = {};

  bool operator==(const CallRecord&) const = default;
};
static_assert(sizeof(CallRecord) == 64);

// The extents of each rank's x, as agreed. Calls of one kernel share them.
using AllExtents = std::shared_ptr<const std::vector<Spatial>>;

// The last sentence of a message that ranks make different calls.
inline constexpr const char* kPrivateCalls =
    "Ranks that time plans do so a private number of times: in PyTorch, set benchmark = False";

// Formats a record of kBegun: "split call 7, which is in a CUDA graph".
std::string BegunCallText(const CallRecord& record);

// Returns the last sentence of a message about `call`, the first call whose results may differ from
// the whole's.
std::string SuspectFrom(uint64_t call);

// Compares this rank's records with those of the other ranks of its group. Thread-safe: the rank's
// calls and the transport's thread use it. Add allocates nothing once there is room, and takes as
// long after many kernels as after one.
class CallRecords {
 public:
  // Returns the most calls that a rank of a group of `ranks` may be ahead of the slowest other
  // rank. It is less in large groups, so that the records kept of all ranks stay below some tens of
  // MiB.
  static size_t MostAhead(int ranks);

  // `first` is the job's rank that is number 0 of the group: messages name ranks of the job.
  CallRecords(int rank, int ranks, int first = 0);
  // Allocates the room for records now, instead of at the first record.
  void MakeRoom();

  // Adds this rank's next record, with the extents that each rank must have in it; null: all have
  // those of the record. Returns how it differs from another rank's record that has already come;
  // none if it does not.
  std::optional<std::string> Add(const CallRecord& record, AllExtents extents);
  // Adds another rank's next record, which came as `bytes`; returns a difference as Add does.
  std::optional<std::string> AddOf(int rank, std::string_view bytes);

  // Another rank's record of this rank's next call, which has already come and says that the call
  // is not the first one of its kernel on that rank. None if there is none.
  struct Early {
    int rank = 0;
    CallRecord record;
  };
  std::optional<Early> NotAgreeing() const;

  // Returns whether Add or AddOf has ever returned a difference. A thread that learns from `ahead`
  // that a record has come can ask this before the thread that got the difference has acted.
  bool differ() const;

  size_t most_ahead() const { return MostAhead(ranks_); }
  // Returns the sequence number of this rank's latest record.
  uint64_t last() const;
  // Returns this rank's record with that number, which must be at most most_ahead() numbers before
  // the latest.
  CallRecord Own(uint64_t sequence) const;
  // Returns the latest sequence number known of another rank; for this rank, its own latest.
  uint64_t last_of(int rank) const;
  // Returns the number of calls that this rank is ahead of the slowest other rank.
  uint64_t ahead() const;

 private:
  // This rank's record of a call, and the extents that each rank must have in it.
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
  std::vector<Made> own_ UCUDNN_GUARDED_BY(mutex_);  // a ring
  // For each rank: a ring of records that came before this rank made the call, and the number of
  // compared ones.
  struct Peer {
    std::vector<CallRecord> early;
    uint64_t met = 0, compared = 0;
  };
  std::vector<Peer> peers_ UCUDNN_GUARDED_BY(mutex_);
  bool differ_ UCUDNN_GUARDED_BY(mutex_) = false;
};

}  // namespace ucudnn::spatial
