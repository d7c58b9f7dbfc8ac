#include "shim/host/nccl/bootstrap.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "shim/host/hostgpu.h"
#include "shim/host/leaked.h"
#include "shim/host/nccl/process_watch.h"

namespace hostgpu::nccl {
namespace {

// The contents of an ncclUniqueId. The magic number must change when the structs of the board
// change.
struct IdContent {
  uint32_t magic;
  SharedFile board;
};
static_assert(sizeof(IdContent) <= NCCL_UNIQUE_ID_BYTES);
constexpr uint32_t kIdMagic = 0x48474e32;

IdContent ContentOf(const ncclUniqueId& id) {
  IdContent content;
  std::memcpy(&content, id.internal, sizeof content);
  return content;
}

// The boards that this process has created and keeps open, by inode.
struct Boards {
  std::mutex mutex;
  std::map<uint64_t, File> open;
};

// Never destroyed, because background threads may still run Joining while the process exits.
Boards& TheBoards() { return Leaked<Boards>(); }

// Makes one rank's communicator in several steps.
class Joining {
 public:
  Joining(const Place& place, const std::atomic<bool>& cancelled, Membership& membership)
      : place_(place), cancelled_(cancelled), board_(membership.board), membership_(membership) {}

  Outcome Run(const SharedFile& board);

 private:
  Outcome OpenBoard(const SharedFile& board);
  Outcome TakeSeat(const File& memory);
  // Waits until every rank has reached `state`.
  Outcome Await(SeatState state);
  // Fails if the rank's process has ended, or if the rank cannot join any more.
  Outcome CheckAlive(int rank);
  Outcome CheckDevices() const;
  Outcome OpenMemories();
  // Makes all ranks fail for this reason, unless they already fail for another reason.
  void RefuseAll(const Outcome& outcome);

  const Place place_;
  const std::atomic<bool>& cancelled_;
  Board& board_;
  Membership& membership_;
  ProcessWatch maker_;
  std::map<int, ProcessWatch> watches_;  // watches the other processes, by rank
};

Outcome Joining::Run(const SharedFile& board) {
  if (Outcome o = OpenBoard(board); !o.ok()) return o;
  const File memory(hostgpuDeviceFile(place_.device));
  Outcome outcome{ncclUnhandledCudaError,
                  "the memory of device " + std::to_string(place_.device) + " cannot be shared"};
  if (memory.open()) outcome = TakeSeat(memory);
  if (outcome.ok()) outcome = Await(SeatState::kSeated);
  if (outcome.ok()) outcome = CheckDevices();
  if (outcome.ok()) outcome = OpenMemories();
  if (outcome.ok()) {
    board_.seat(place_.rank).state = SeatState::kReady;
    board_.RingAll();
    outcome = Await(SeatState::kReady);
  }
  if (!outcome.ok()) RefuseAll(outcome);
  Boards& boards = TheBoards();
  const std::lock_guard lock(boards.mutex);
  boards.open.erase(board.inode);
  return outcome;
}

Outcome Joining::OpenBoard(const SharedFile& board) {
  maker_ = ProcessWatch(board.process);
  const File file = OpenShared(board, Mapping::Access::kWrite);
  board_ = Board(file, place_.ranks);
  if (board_) return {};
  return {
      ncclSystemError,
      "nobody answers for the unique id (it is used, its process has ended, or it is of another "
      "machine): " +
          std::generic_category().message(errno)};
}

Outcome Joining::TakeSeat(const File& memory) {
  int32_t ranks = 0;
  if (!board_.roll().ranks.compare_exchange_strong(ranks, place_.ranks) && ranks != place_.ranks) {
    return {ncclInvalidUsage, NameOf(place_.rank) + " joins a communicator of " +
                                  std::to_string(place_.ranks) + " ranks, another rank one of " +
                                  std::to_string(ranks)};
  }
  Seat& seat = board_.seat(place_.rank);
  const SharedFile shared = SharedFileOf(memory);
  if (int32_t nobody = 0; !seat.pid.compare_exchange_strong(nobody, shared.process)) {
    return {ncclInvalidUsage, NameOf(place_.rank) + " joined twice"};
  }
  seat.member = {ThisProcess(), place_.device, shared};
  seat.state = SeatState::kSeated;
  board_.RingAll();
  return {};
}

Outcome Joining::Await(SeatState state) {
  Roll& roll = board_.roll();
  for (;;) {
    const uint32_t seen = board_.seat(place_.rank).bell.load();
    if (roll.refusal == Refusal::kTold)
      return {static_cast<ncclResult_t>(roll.result), roll.reason};
    bool all = true;
    for (int rank = 0; rank < place_.ranks; ++rank) all &= board_.seat(rank).state.load() >= state;
    if (all) return {};
    for (int rank = 0; rank < place_.ranks; ++rank) {
      if (Outcome o = CheckAlive(rank); !o.ok()) return o;
    }
    if (cancelled_) return {ncclInvalidUsage, "the communicator was aborted"};
    board_.AwaitBell(place_.rank, seen, NowNs() + kLookNs);
  }
}

Outcome Joining::CheckAlive(int rank) {
  const int32_t pid = board_.seat(rank).pid.load();
  if (pid == 0) {
    if (!maker_.Gone()) return {};
    return {ncclRemoteError, "the process that made the unique id has ended"};
  }
  if (pid == getpid()) return {};
  const auto watch = watches_.try_emplace(rank, pid).first;
  if (!watch->second.Gone()) return {};
  return {ncclRemoteError, NameOf(rank) + " left while the communicator was made"};
}

Outcome Joining::CheckDevices() const {
  for (int b = 0; b < place_.ranks; ++b) {
    for (int a = 0; a < b; ++a) {
      const Member &first = board_.seat(a).member, &second = board_.seat(b).member;
      if (first.process != second.process || first.device != second.device) continue;
      return {ncclInvalidUsage, "Duplicate GPU detected : " + NameOf(a) + " and " + NameOf(b) +
                                    " both on CUDA device " + std::to_string(first.device) +
                                    " of process " + std::to_string(first.memory.process)};
    }
  }
  return {};
}

Outcome Joining::OpenMemories() {
  for (int rank = 0; rank < place_.ranks; ++rank) {
    const File file = OpenShared(board_.seat(rank).member.memory, Mapping::Access::kRead);
    membership_.memories.emplace_back(file, Mapping::Access::kRead);
    if (!membership_.memories.back().data()) {
      return {ncclSystemError, "the memory of " + NameOf(rank) + " could not be mapped: " +
                                   std::generic_category().message(errno)};
    }
  }
  return {};
}

void Joining::RefuseAll(const Outcome& outcome) {
  Roll& roll = board_.roll();
  if (Refusal none = Refusal::kNone;
      roll.refusal.compare_exchange_strong(none, Refusal::kBeingTold)) {
    // The other ranks see an error that concerns only this rank as the loss of this rank
    // (ncclRemoteError). Only ncclInvalidUsage, which concerns all ranks, is passed on unchanged.
    const bool usage = outcome.result == ncclInvalidUsage && !cancelled_;
    roll.result = usage ? ncclInvalidUsage : ncclRemoteError;
    const std::string reason = usage ? outcome.reason : NameOf(place_.rank) + ": " + outcome.reason;
    std::strncpy(roll.reason, reason.c_str(), sizeof roll.reason - 1);
    roll.refusal = Refusal::kTold;
  }
  // Ranks that have already seen all ranks ready no longer read the roll. They learn of the failure
  // from `presence`.
  if (board_.seat(place_.rank).pid == getpid()) {
    board_.seat(place_.rank).presence = Presence::kFailed;
  }
  board_.RingAll();
}

}  // namespace

Outcome NewUniqueId(ncclUniqueId* id) {
  File board = NewSharedFile(Board::Bytes(kMaxRanks));
  if (!board.open()) {
    return {ncclSystemError, "no shared memory for the ranks of a communicator: " +
                                 std::generic_category().message(errno)};
  }
  const IdContent content{kIdMagic, SharedFileOf(board)};
  *id = {};
  std::memcpy(id->internal, &content, sizeof content);
  Boards& boards = TheBoards();
  const std::lock_guard lock(boards.mutex);
  boards.open.emplace(content.board.inode, std::move(board));
  return {};
}

bool IsUniqueId(const ncclUniqueId& id) { return ContentOf(id).magic == kIdMagic; }

uint64_t ThisProcess() {
  static std::mutex mutex;
  static pid_t owner = 0;
  static uint64_t number = 0;
  std::lock_guard lock(mutex);
  if (owner != getpid() && getrandom(&number, sizeof number, 0) == sizeof number) owner = getpid();
  return number;
}

Outcome Join(const ncclUniqueId& id, const Place& place, const std::atomic<bool>& cancelled,
             Membership* membership) {
  return Joining(place, cancelled, *membership).Run(ContentOf(id).board);
}

}  // namespace hostgpu::nccl
