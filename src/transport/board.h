// Where ranks that are threads of one process hand each other device buffers: a lane for each
// ordered pair of ranks, with one message on it at a time. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "cuda/resources.h"

namespace ucudnn::transport {

class Board {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // A sent message as it lies in the sender's memory from the time its stream has reached `ready`.
  struct Parcel {
    CUdeviceptr data = 0;
    size_t bytes = 0;
    CUcontext context = nullptr;
    CUevent ready = nullptr;
  };

  // A key that no other board of this process has.
  static std::string NewKey();
  // The process's board of that key, made by whoever asks first; it lives as long as a rank holds
  // it.
  static std::shared_ptr<Board> Meet(const std::string& key, int size, const cuda::Driver& driver);
  Board(int size, const cuda::Driver& driver);
  ~Board();

  // A rank is there: makes its events. `context`, which the board keeps, is current.
  Status Enter(int rank, CUcontext context);
  // Null before the rank entered.
  CUcontext ContextOf(int rank) const;

  // What the rank's stream has to reach before its messages are ready.
  cuda::Event& ReadyOf(int rank) { return *members_[rank].ready; }
  // What its stream reaches when it has copied the sender's message.
  cuda::Event& TakenOf(int receiver, int sender) { return *members_[receiver].taken[sender]; }

  // The sender lays out a message; its receiver has taken the one before.
  void LayOut(int sender, int receiver, const Parcel& parcel);
  // The receiver waits for it...
  Result<Parcel> Await(int sender, int receiver, Deadline deadline);
  // ... says, after each Await that was answered, whether TakenOf is recorded behind its copy...
  void SayTaken(int sender, int receiver, bool taken);
  // ... and the sender waits for that, makes its stream wait for TakenOf, and says so.
  Status AwaitTaken(int sender, int receiver, Deadline deadline);
  void SaySettled(int sender, int receiver);
  // After an abort, instead of AwaitTaken: whether the receiver's stream copies the message, or
  // did; then the sender makes its stream wait for TakenOf all the same, and says that it is
  // settled.
  bool TakenAfterAbort(int sender, int receiver, Deadline deadline);

  // Ends all waiting, now and later. The first rank's name stays.
  void Abort(int rank);
  // Ends the waiting for that rank, and its events once nobody needs them. Its context is current.
  void Leave(int rank, Deadline deadline);
  // An error in words after an abort.
  Status State() const;

 private:
  struct Lane {
    Parcel parcel;
    bool laid_out = false, taken = false;  // neither: settled
    bool copying = false;                  // the receiver is between Await and SayTaken
    bool settling = false;                 // the sender between AwaitTaken and SaySettled
  };
  struct Member {
    CUcontext context = nullptr;
    std::unique_ptr<cuda::Event> ready;
    std::vector<std::unique_ptr<cuda::Event>> taken;  // by sender
    bool left = false;
  };

  Lane& LaneOf(int sender, int receiver) UCUDNN_REQUIRES(mutex_) {
    return lanes_[sender * size_ + receiver];
  }
  // Whether another rank has or will have to do with the rank's events.
  bool OwesEvents(int rank) const UCUDNN_REQUIRES(mutex_);
  Status StateLocked() const UCUDNN_REQUIRES(mutex_);
  // Until `flag`; an error when the board is aborted, `other` has left, or it is too late.
  Status WaitFor(const bool& flag, int other, Deadline deadline) UCUDNN_REQUIRES(mutex_);

  const int size_;
  const cuda::Driver& driver_;
  mutable Mutex mutex_;
  Condition changed_;
  std::vector<Lane> lanes_ UCUDNN_GUARDED_BY(mutex_);
  // Each is written by its rank while it enters; `context` and `left` under the mutex.
  std::vector<Member> members_;
  std::optional<int> aborted_by_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::transport
