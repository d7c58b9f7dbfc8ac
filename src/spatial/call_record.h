// The record that each rank posts about every split call, and the comparison of all ranks' records.
// The comparison finds ranks that no longer make the same calls. It may take a while, but it misses
// no difference. The calls that devices begin have records and numbers of their own.
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

// Formats extents d, h, w: "1x16x12".
std::string ExtentsText(const Spatial& extents);

// kBegun marks a record that the device begins a call (device_log.h); the other values are kinds of
// calls.
enum class CallKind : uint8_t { kExchanged, kAgreed, kRefused, kReplicated, kBegun };

// A plain value of 64 bytes, posted as its bytes: the claims have ensured that all ranks run the
// same release on machines of one kind.
struct CallRecord {
  uint64_t sequence = 0;  // number of the record, from 1
  uint64_t kernel = 0;    // hash of the properties that all ranks share
  uint64_t call = 0;      // for kBegun: the number of the call that the device begins
  Spatial extents = {1, 1, 1};
  int32_t operation = 0;
  int32_t thread = 0;  // index of the thread among those that made split calls
  int32_t handle = 0;
  CallKind kind = CallKind::kExchanged;
  uint8_t captured = 0;
  uint8_t has_rows = 0;  // the rows were received by the previous call
  uint8_t reserved[13] = {};

  bool operator==(const CallRecord&) const = default;
};
static_assert(sizeof(CallRecord) == 64);

// The extents of each rank's x, as agreed; calls of one kernel share them.
using AllExtents = std::shared_ptr<const std::vector<Spatial>>;

// The last sentence of a message that says that ranks make different calls.
inline constexpr const char* kPrivateCalls =
    "Ranks that time plans do so a private number of times: in PyTorch, set benchmark = False";

// Formats a kBegun record: "split call 7, which is in a CUDA graph".
std::string BegunCallText(const CallRecord& record);

// Returns the last sentence of a message about `call`, the first call whose results may be wrong.
std::string SuspectFrom(uint64_t call);

// Compares this rank's records with the records of the other ranks of its group. Thread-safe: the
// rank's calls and the transport's thread use it. Add allocates nothing once there is room, and
// does not become slower with the number of kernels.
class CallRecords {
 public:
  // Returns how many calls a rank of a group of `ranks` may be ahead of the slowest other rank. In
  // large groups it is less, so that the records kept of all ranks take at most some tens of MiB.
  static size_t MostAhead(int ranks);

  // `first` is the job's rank that is number 0 of the group, because messages name ranks of the
  // job.
  CallRecords(int rank, int ranks, int first = 0);
  // Allocates the room for records now instead of at the first record.
  void MakeRoom();

  // Adds this rank's next record. `extents` are the extents that each rank must have in its record;
  // null: all ranks have the extents of `record`. Returns the difference from another rank's record
  // if one that differs has already arrived, else none.
  std::optional<std::string> Add(const CallRecord& record, AllExtents extents);
  // Adds another rank's next record, which arrived as `bytes`. Returns the difference if it differs
  // from this rank's record of the same number, else none.
  std::optional<std::string> AddOf(int rank, std::string_view bytes);

  // Another rank's record of this rank's next call, if it has already arrived and says that the
  // call is not the first one of its kernel on that rank.
  struct Early {
    int rank = 0;
    CallRecord record;
  };
  std::optional<Early> NotAgreeing() const;

  // Returns whether Add or AddOf has ever returned a difference. A thread that sees in `ahead` that
  // a record has arrived can ask this before the thread that got the difference has acted.
  bool differ() const;

  size_t most_ahead() const { return MostAhead(ranks_); }
  // Returns the sequence number of this rank's latest record.
  uint64_t last() const;
  // Returns this rank's record with the number `sequence`, which must be at most most_ahead()
  // numbers before the latest.
  CallRecord Own(uint64_t sequence) const;
  // Returns the number of the latest record that has arrived from `rank`. If `rank` is this rank,
  // returns the number of its own latest record.
  uint64_t last_of(int rank) const;
  // Returns how many calls this rank is ahead of the slowest other rank.
  uint64_t ahead() const;

 private:
  // This rank's record of a call, and the extents that each rank must have in its record.
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
  // For each rank: a ring buffer of records that arrived before this rank made the call (`early`),
  // the number of records that have arrived (`met`), and the number that were compared
  // (`compared`).
  struct Peer {
    std::vector<CallRecord> early;
    uint64_t met = 0, compared = 0;
  };
  std::vector<Peer> peers_ UCUDNN_GUARDED_BY(mutex_);
  bool differ_ UCUDNN_GUARDED_BY(mutex_) = false;
};

}  // namespace ucudnn::spatial
