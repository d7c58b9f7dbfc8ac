// The data plane of one rank. It exchanges device buffers with the other ranks of its group, and
// sums over them, without knowing what the buffers hold. Ranks are numbers within the group.
//
// One thread at a time calls Exchange, AllReduce and Reserve, in the same order and with matching
// arguments on all ranks. The first two only enqueue: a host wait that they need (peer.h) is
// bounded by the timeout given at opening, and Abort ends it. Any thread may call Check, Progress
// and Abort at any time. Every function makes the channel's context current for itself.
//
// A call that fails aborts the channel; all later calls fail. After an abort no stream waits for
// ever because of this channel, and a buffer that was to be received holds the peer's data, its
// earlier content, NaN (bytes of 0xff), or a mixture of them, never anything else. A caller that
// fills it with NaN before an exchange therefore sees whether the exchange took place. Later work
// on the stream may rewrite the sent data, also after a failure.
//
// Exchange and AllReduce may be called on a stream that is captured into a CUDA graph, on all ranks
// or on none (CanBeCaptured). The call then takes place each time the graph is launched, with what
// the buffers hold at that time, and no function of the channel is called. For captured calls:
// - Calls of one capture follow each other in the order in which they were made, as uncaptured
//   calls do. The program must order everything else: its streams let launches of graphs and
//   uncaptured calls run one after the other, in the same order on all ranks.
// - They use device and host memory of their own. Reserve need not wait for them, and graphs that
//   were captured before it remain valid.
// - Progress and Reserve know nothing of launches. Check reports an error in a launch.
// - After an abort launches of their graphs pass, with the same content of received buffers. That
//   holds until the channel is closed, and for kLeavingTime after that.
// - A program that closes the channel launches no graph any more, and waits for those that it
//   launched.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "cuda/driver.h"
#include "transport/gatherer.h"

namespace ucudnn::transport {

struct Message {
  int peer = 0;  // another rank
  CUdeviceptr data = 0;
  size_t bytes = 0;  // more than none; the same on both sides
};

enum class Element { kFloat32, kFloat64 };

inline size_t SizeOf(Element element) { return element == Element::kFloat32 ? 4 : 8; }

// Reductions go in pieces of at most this many bytes, for which a channel has device memory.
inline constexpr size_t kReductionPieceBytes = size_t{16} << 20;
// Returns the device memory that Reserve allocates for reductions of up to `bytes`, apart from
// alignment.
inline size_t ReductionScratchBytes(size_t bytes) {
  return bytes < kReductionPieceBytes ? bytes : kReductionPieceBytes;
}

// Says how far the device has come with the calls that a channel has enqueued.
struct DeviceProgress {
  bool is_pending = false;  // it has not reached the end of the last call
  // Calls whose end the device has reached; may lag behind with many calls enqueued.
  uint64_t reached = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;

  // Enqueues all messages on `stream`, at most one to, and one from, each peer. Later work on the
  // stream may read the received data and rewrite the sent data.
  virtual Status Exchange(std::span<const Message> sends, std::span<const Message> receives,
                          CUstream stream) = 0;

  // Enqueues the in-place sum of all ranks' `count` numbers at `data`. Fills `data` with NaN if it
  // fails, also if it fails later.
  virtual Status AllReduce(CUdeviceptr data, size_t count, Element element, CUstream stream) = 0;

  // Returns Ok, or an error that says why calls cannot be captured. The result is the same on all
  // ranks, so that all can refuse before anything is enqueued; calls in a capture fail with it. Any
  // thread may call this.
  virtual Status CanBeCaptured() const { return Status::Ok(); }

  // Prepares for messages and reductions of up to these numbers of bytes; a smaller size than
  // before changes nothing. Gathers, allocates, and waits for the work of earlier uncaptured calls.
  // All ranks call it with the same numbers. If it fails, it fails on all ranks, and leaves the
  // channel unchanged.
  virtual Status Reserve(size_t message_bytes, size_t reduction_bytes) = 0;

  // Returns the bytes of device memory that the channel owns. Captured reductions have memory of
  // their own, from the first one on, and keep it when a later one needs more.
  virtual size_t device_bytes() const = 0;

  // Returns an error that came up after a call had returned, on this rank or, if it can be seen
  // here, on another.
  virtual Status Check() = 0;

  // Returns the device's progress with uncaptured calls. A device that makes none is no error of
  // the channel: earlier work on a stream, or on another rank's, may take its time.
  virtual DeviceProgress Progress() = 0;

  // Gives up: the channel no longer blocks a stream or a thread, nor does a graph that is launched
  // before the channel is closed. Further calls have no effect.
  virtual void Abort() = 0;
};

// Enqueues to[i] += from[i] on `stream`: the only arithmetic, for which there are no kernels here.
using AddInto = std::function<Status(CUdeviceptr to, CUdeviceptr from, size_t count,
                                     Element element, CUstream stream)>;

struct ChannelSetup {
  const cuda::Driver* driver = nullptr;  // it has all functions for exchange (MissingForExchange)
  CUcontext context = nullptr;
  int rank = 0, size = 1;
  Gatherer* gatherer = nullptr;               // outlives the channel
  std::chrono::milliseconds timeout{600000};  // for each wait for other ranks
  // Returns whether the job has failed. Waits ask it now and then while there is no channel yet
  // that could be aborted. May be empty.
  std::function<bool()> given_up;
  AddInto add;
};

// The time that a channel, when it is closed, gives its streams, graphs and other ranks to finish.
inline constexpr std::chrono::milliseconds kLeavingTime{2000};

// Fails unless Exchange accepts these messages; the error names rank, peer and size.
Status CheckMessages(std::span<const Message> messages, int rank, int size);

}  // namespace ucudnn::transport
