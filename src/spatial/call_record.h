// The record that each rank posts of every split call, and the comparison of all ranks' records:
// ranks that no longer make the same calls are found here, late perhaps, but never not at all. What
// devices begin has records and numbers of its own.
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

// "1x16x12".
std::string ExtentsText(const Spatial& extents);

// kBegun: not a call, but that the device begins one (device_log.h).
enum class CallKind : uint8_t { kExchanged, kAgreed, kRefused, kReplicated, kBegun };

// A plain value of 64 bytes, posted as its bytes: ranks are processes of one release on machines of
// one kind, which the claims have made sure of.
struct CallRecord {
  uint64_t sequence = 0;  // from 1
  uint64_t kernel = 0;    // hash of what all ranks have in common
  uint64_t call = 0;      // kBegun: the number of the call that the device begins
  Spatial extents = {1, 1, 1};
  int32_t operation = 0;
  int32_t thread = 0;  // numbered by their first split call
  int32_t handle = 0;
  CallKind kind = CallKind::kExchanged;
  uint8_t captured = 0;
  uint8_t has_rows = 0;  // those that the call before received
  uint8_t reserved[13] = {};

  bool operator==(const CallRecord&) const = default;
};
static_assert(sizeof(CallRecord) == 64);

// The extents of each rank's x, by what was agreed. Calls of one kernel share them.
using AllExtents = std::shared_ptr<const std::vector<Spatial>>;

// What ends a line that says that ranks make different calls.
inline constexpr const char* kPrivateCalls =
    "Ranks that time plans do so a private number of times: in PyTorch, set benchmark = False";

// Of a record of kBegun: "split call 7, which is in a CUDA graph".
std::string BegunCallText(const CallRecord& record);

// What ends a line about `call`, the first one whose results may not be those of the whole.
std::string SuspectFrom(uint64_t call);

// Compares this rank's records with those of the other ranks of its group. Thread-safe: the rank's
// calls and the transport's thread use it. Add allocates nothing once there is room, and takes as
// long after many kernels as after one.
class CallRecords {
 public:
  // How far a rank of a group of `ranks` may be ahead of the slowest other one: less in large
  // groups, so that what is kept of all of them stays below some tens of MiB.
  static size_t MostAhead(int ranks);

  // `first` is the job's rank that is number 0 of the group: lines name ranks of the job.
  CallRecords(int rank, int ranks, int first = 0);
  // Room for what is kept, which the first record makes otherwise.
  void MakeRoom();

  // This rank's next record, with the extents that each rank has in it; null: all have those of the
  // record. Returns why it differs from a record that has already come; none where it does not.
  std::optional<std::string> Add(const CallRecord& record, AllExtents extents);
  // The same of another rank's next record, which came as `bytes`.
  std::optional<std::string> AddOf(int rank, std::string_view bytes);

  // Another rank's record of this rank's next call that has already come, and says that the call
  // is not the first one of a kernel there. None where there is none.
  struct Early {
    int rank = 0;
    CallRecord record;
  };
  std::optional<Early> NotAgreeing() const;

  // Whether Add or AddOf has ever returned a difference: also for who sees by `ahead` that a record
  // has come, before whoever was told of the difference has acted.
  bool differ() const;

  size_t most_ahead() const { return MostAhead(ranks_); }
  // This rank's last sequence number.
  uint64_t last() const;
  // This rank's own one of that number, which is not older than most_ahead() ones before the last.
  CallRecord Own(uint64_t sequence) const;
  // The last one of another rank that this one has heard of; this rank's own last of itself.
  uint64_t last_of(int rank) const;
  // How many calls this rank is ahead of the slowest other one.
  uint64_t ahead() const;
  // That one, and its last call that this rank has heard of.
  struct Slowest {
    int rank = 0;
    uint64_t last = 0;
  };
  Slowest slowest() const;

 private:
  // What this rank did in a call, and what each rank must have had.
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
  // Of each rank: what came before this rank made the call, a ring; and how many were compared.
  struct Peer {
    std::vector<CallRecord> early;
    uint64_t met = 0, compared = 0;
  };
  std::vector<Peer> peers_ UCUDNN_GUARDED_BY(mutex_);
  bool differ_ UCUDNN_GUARDED_BY(mutex_) = false;
};

}  // namespace ucudnn::spatial
