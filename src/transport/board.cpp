#include "transport/board.h"

#include <atomic>
#include <map>

namespace ucudnn::transport {
namespace {

struct Boards {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<Board>> by_key UCUDNN_GUARDED_BY(mutex);
};

// Never destroyed, because threads may still exchange data while the process exits.
Boards& TheBoards() {
  static Boards* const boards = new Boards;
  return *boards;
}

}  // namespace

std::string Board::NewKey() {
  static std::atomic<unsigned> made{0};
  return "board " + std::to_string(++made);
}

std::shared_ptr<Board> Board::Open(const std::string& key, int size, const cuda::Driver& driver) {
  Boards& boards = TheBoards();
  MutexLock lock(boards.mutex);
  std::erase_if(boards.by_key, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Board>& known = boards.by_key[key];
  std::shared_ptr<Board> board = known.lock();
  if (board == nullptr) {
    board = std::make_shared<Board>(size, driver);
    known = board;
  }
  return board;
}

Board::Board(int size, const cuda::Driver& driver)
    : size_(size), driver_(driver), lanes_(size * size), members_(size) {}

Board::~Board() {
  for (Member& member : members_) {
    const cuda::ContextScope scope(driver_, member.context);
    member.ready.reset();
    member.taken.clear();
  }
}

Status Board::Enter(int rank, CUcontext context) {
  Member& member = members_[rank];
  auto ready = std::make_unique<cuda::Event>(driver_);
  std::vector<std::unique_ptr<cuda::Event>> taken;
  UCUDNN_RETURN_IF_ERROR(ready->CreateUntimed());
  for (int sender = 0; sender < size_; ++sender) {
    taken.push_back(std::make_unique<cuda::Event>(driver_));
    UCUDNN_RETURN_IF_ERROR(taken.back()->CreateUntimed());
  }
  MutexLock lock(mutex_);
  member.context = context;
  member.ready = std::move(ready);
  member.taken = std::move(taken);
  return Status::Ok();
}

CUcontext Board::ContextOf(int rank) const {
  MutexLock lock(mutex_);
  return members_[rank].context;
}

void Board::LayOut(int sender, int receiver, const Parcel& parcel) {
  MutexLock lock(mutex_);
  Lane& lane = LaneOf(sender, receiver);
  lane.parcel = parcel;
  lane.taken = false;
  lane.laid_out = true;
  changed_.NotifyAll();
}

Result<Board::Parcel> Board::Await(int sender, int receiver, Deadline deadline) {
  MutexLock lock(mutex_);
  Lane& lane = LaneOf(sender, receiver);
  UCUDNN_RETURN_IF_ERROR(WaitFor(lane.laid_out, sender, deadline));
  lane.copying = true;
  return lane.parcel;
}

void Board::SayTaken(int sender, int receiver, bool taken) {
  MutexLock lock(mutex_);
  Lane& lane = LaneOf(sender, receiver);
  lane.copying = false;
  lane.laid_out = false;
  lane.taken = taken;
  changed_.NotifyAll();
}

Status Board::AwaitTaken(int sender, int receiver, Deadline deadline) {
  MutexLock lock(mutex_);
  Lane& lane = LaneOf(sender, receiver);
  UCUDNN_RETURN_IF_ERROR(WaitFor(lane.taken, receiver, deadline));
  lane.settling = true;
  return Status::Ok();
}

Status Board::WaitFor(const bool& flag, int other, Deadline deadline) {
  for (bool in_time = true;;) {
    // First checks for an abort, because no exchange may begin after an abort. Checks `flag` before
    // `left`, because a flag that a rank set before leaving is still valid.
    UCUDNN_RETURN_IF_ERROR(StateLocked());
    if (flag) return Status::Ok();
    if (members_[other].left) {
      return Status::Error("rank " + std::to_string(other) + " has left the exchange");
    }
    if (!in_time) {
      return Status::Error("rank " + std::to_string(other) +
                           " did not come to an exchange in time");
    }
    in_time = changed_.WaitUntil(mutex_, deadline);
  }
}

void Board::Abort(int rank) {
  MutexLock lock(mutex_);
  if (!aborted_by_) aborted_by_ = rank;
  changed_.NotifyAll();
}

void Board::SaySettled(int sender, int receiver) {
  MutexLock lock(mutex_);
  Lane& lane = LaneOf(sender, receiver);
  lane.taken = false;
  lane.settling = false;
  changed_.NotifyAll();
}

bool Board::TakenAfterAbort(int sender, int receiver, Deadline deadline) {
  MutexLock lock(mutex_);
  Lane& lane = LaneOf(sender, receiver);
  lane.settling = true;  // prevents the receiver from destroying its events meanwhile
  while (lane.copying && changed_.WaitUntil(mutex_, deadline)) {
  }
  const bool taken = lane.taken && members_[receiver].ready != nullptr;
  if (!taken) lane.settling = false;
  changed_.NotifyAll();
  return taken;
}

bool Board::OwesEvents(int rank) const {
  for (int other = 0; other < size_; ++other) {
    const Lane& to = lanes_[rank * size_ + other];
    const Lane& from = lanes_[other * size_ + rank];
    // After an abort, a sender needs the receiver's event only while the lane is settling. So
    // `taken` is ignored after an abort.
    if (to.copying || from.settling || (from.taken && !aborted_by_)) return true;
  }
  return false;
}

void Board::Leave(int rank, Deadline deadline) {
  MutexLock lock(mutex_);
  Member& member = members_[rank];
  member.left = true;
  changed_.NotifyAll();
  while (OwesEvents(rank)) {
    // If other ranks still need the events at the deadline, the board keeps the events until it is
    // destroyed.
    if (!changed_.WaitUntil(mutex_, deadline)) return;
  }
  member.ready.reset();
  member.taken.clear();
}

Status Board::State() const {
  MutexLock lock(mutex_);
  return StateLocked();
}

Status Board::StateLocked() const {
  if (!aborted_by_) return Status::Ok();
  return Status::Error("rank " + std::to_string(*aborted_by_) + " aborted the exchange");
}

}  // namespace ucudnn::transport
