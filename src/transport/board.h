// A board over which ranks pass device buffers to each other if they are threads of one process.
// The board has a lane for each ordered pair of ranks. A lane holds one message at a time.
// Thread-safe.
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

  // A message in the sender's memory. The receiver may read it once the sender's stream has reached
  // `ready`.
  struct Parcel {
    CUdeviceptr data = 0;
    size_t bytes = 0;
    CUcontext context = nullptr;
    CUevent ready = nullptr;
  };

  // Returns a key that no other board of this process has.
  static std::string NewKey();
  // Returns the process's board with this key. The first caller makes the board. The board exists
  // as long as a rank holds it.
  static std::shared_ptr<Board> Open(const std::string& key, int size, const cuda::Driver& driver);
  Board(int size, const cuda::Driver& driver);
  ~Board();

  // Adds a rank and makes its events. The board keeps `context`, which must be current.
  Status Enter(int rank, CUcontext context);
  // Returns null before the rank has entered.
  CUcontext ContextOf(int rank) const;

  // Returns the event that the rank's stream records before each LayOut. The rank's messages are
  // ready once the stream has reached the event.
  cuda::Event& ReadyOf(int rank) { return *members_[rank].ready; }
  // Returns the event that the receiver's stream records behind its copy of the sender's message.
  cuda::Event& TakenOf(int receiver, int sender) { return *members_[receiver].taken[sender]; }

  // Called by the sender: puts a message on its lane. REQUIRES: the receiver has taken the previous
  // message.
  void LayOut(int sender, int receiver, const Parcel& parcel);
  // Called by the receiver: waits for the message.
  Result<Parcel> Await(int sender, int receiver, Deadline deadline);
  // Called by the receiver after each Await that succeeded: says whether its stream has recorded
  // TakenOf behind its copy of the message.
  void SayTaken(int sender, int receiver, bool taken);
  // Called by the sender: waits until the receiver has said that it took the message. The sender
  // then makes its stream wait for TakenOf, and calls SaySettled.
  Status AwaitTaken(int sender, int receiver, Deadline deadline);
  void SaySettled(int sender, int receiver);
  // Replaces AwaitTaken after an abort. Returns true if the receiver's stream copies or has copied
  // the message. Then the sender must, as after AwaitTaken, make its stream wait for TakenOf and
  // call SaySettled.
  bool TakenAfterAbort(int sender, int receiver, Deadline deadline);

  // Ends all waits, now and in the future. Error messages name the `rank` of the first abort only.
  void Abort(int rank);
  // Ends all waits for the rank, and destroys its events once no other rank needs them. If the
  // events are still needed at the deadline, they are kept until the board is destroyed. The rank's
  // context must be current.
  void Leave(int rank, Deadline deadline);
  // Returns Ok, or, after an abort, an error that says which rank aborted.
  Status State() const;

 private:
  struct Lane {
    Parcel parcel;
    bool laid_out = false, taken = false;  // both false: the lane is empty
    bool copying = false;                  // the receiver is between Await and SayTaken
    bool settling = false;                 // the sender is between AwaitTaken and SaySettled
  };
  struct Member {
    CUcontext context = nullptr;
    std::unique_ptr<cuda::Event> ready;
    std::vector<std::unique_ptr<cuda::Event>> taken;  // one for each sender
    bool left = false;
  };

  Lane& LaneOf(int sender, int receiver) UCUDNN_REQUIRES(mutex_) {
    return lanes_[sender * size_ + receiver];
  }
  // Returns whether another rank uses an event of `rank`, or will use one.
  bool OwesEvents(int rank) const UCUDNN_REQUIRES(mutex_);
  Status StateLocked() const UCUDNN_REQUIRES(mutex_);
  // Waits until `flag` is true. Fails if the board is aborted, `other` has left, or the deadline
  // has passed.
  Status WaitFor(const bool& flag, int other, Deadline deadline) UCUDNN_REQUIRES(mutex_);

  const int size_;
  const cuda::Driver& driver_;
  mutable Mutex mutex_;
  Condition changed_;
  std::vector<Lane> lanes_ UCUDNN_GUARDED_BY(mutex_);
  // Each rank writes its own member when it enters; `context` and `left` are written under the
  // mutex.
  std::vector<Member> members_;
  std::optional<int> aborted_by_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::transport
