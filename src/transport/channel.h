// The data plane of one rank: it exchanges device buffers with the other ranks of its group, and
// sums over these ranks. It does not interpret the buffers. Ranks are numbers within the group.
//
// One thread at a time calls Exchange, AllReduce and Reserve, in the same order and with matching
// arguments on all ranks. Exchange and AllReduce only enqueue. Over some transports they may have
// to wait on the host (peer.h, loopback.h); such a wait is bounded by the timeout given at opening,
// and Abort ends it. A call of NCCL that waits is ended by Abort only. Any thread may call Check,
// Progress and Abort at any time. Every function makes the channel's context current for itself.
//
// If an Exchange or AllReduce fails, it aborts the channel, and all later calls of both functions
// fail. After an abort no stream waits for ever because of this channel. A buffer that was to
// receive data then holds the peer's data, its earlier content, NaN (bytes of 0xff), or a mixture
// of these. So a caller that fills the buffer with NaN before an exchange sees whether the exchange
// took place. Later work on the stream may rewrite the sent data, even after a failure.
//
// Exchange and AllReduce may be called on a stream that is captured into a CUDA graph, on all ranks
// or on none (CanBeCaptured). The exchange then takes place each time the graph is launched, with
// the buffers' content at that time, without a call of the channel. For captured calls:
// - Calls of one capture follow each other in the order in which they were made, as uncaptured
//   calls do. The program must order everything else: its streams must run launches of graphs and
//   uncaptured calls one after the other, in the same order on all ranks.
// - Captured calls use other device and host memory than uncaptured calls. So Reserve need not wait
//   for captured calls, and graphs that were captured before a Reserve remain valid.
// - Progress and Reserve ignore launches of graphs. Check reports an error in a launch.
// - If graphs are launched after an abort, they still end, and received buffers have the content
//   described above. This holds until the channel is closed, and for kLeavingTime after that.
// - Before a program closes the channel, it waits for the graphs that it launched; afterwards it
//   launches none of them.
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
  size_t bytes = 0;  // at least 1; the same on both sides
};

enum class Element { kFloat32, kFloat64 };

inline size_t SizeOf(Element element) { return element == Element::kFloat32 ? 4 : 8; }

// A reduction is done in pieces (ranges of its numbers) of at most this many bytes, one after the
// other; a channel has device memory for one piece.
inline constexpr size_t kReductionPieceBytes = size_t{16} << 20;
// Returns the bytes of device memory, without alignment, that Reserve allocates for reductions of
// up to `bytes`.
inline size_t ReductionScratchBytes(size_t bytes) {
  return bytes < kReductionPieceBytes ? bytes : kReductionPieceBytes;
}

// How many of a channel's enqueued calls the device has finished.
struct DeviceProgress {
  bool is_pending = false;  // the device has not reached the end of the last call
  // How many calls the device has finished. The number may be too small if many calls are enqueued.
  uint64_t reached = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;

  // Enqueues all messages on `stream`, at most one to and one from each peer. Later work on the
  // stream may read the received data and rewrite the sent data.
  virtual Status Exchange(std::span<const Message> sends, std::span<const Message> receives,
                          CUstream stream) = 0;

  // Enqueues a sum over all ranks: the `count` numbers at `data` are replaced by the sums of these
  // numbers on all ranks. If the sum fails, even after AllReduce has returned, `data` is filled
  // with NaN.
  virtual Status AllReduce(CUdeviceptr data, size_t count, Element element, CUstream stream) = 0;

  // Returns Ok, or an error that says why calls cannot be captured; calls in a capture then fail.
  // The result is the same on all ranks, so that all can refuse before anything is enqueued. Any
  // thread may call this function.
  virtual Status CanBeCaptured() const { return Status::Ok(); }

  // Prepares for messages and reductions of up to these numbers of bytes. The reserved memory never
  // shrinks. Gathers, allocates, and waits for the work of earlier uncaptured calls. All ranks call
  // it with the same numbers. If it fails, it fails on all ranks and leaves the channel unchanged.
  virtual Status Reserve(size_t message_bytes, size_t reduction_bytes) = 0;

  // Returns the bytes of device memory that the channel owns. The first captured reduction
  // allocates memory for captured reductions. If a later one needs more, further memory is
  // allocated, and the earlier memory is kept.
  virtual size_t device_bytes() const = 0;

  // Returns an error that occurred after a call had returned; Ok if there was none. The error may
  // have occurred on another rank, if this rank can see it.
  virtual Status Check() = 0;

  // Returns the device's progress with uncaptured calls. A lack of progress is not an error of the
  // channel, because earlier work on a stream, on this or another rank, may take long.
  virtual DeviceProgress Progress() = 0;

  // Gives up: from now on no stream and no thread waits because of this channel. The same holds for
  // graphs that are launched before the channel is closed. Calling Abort again has no effect.
  virtual void Abort() = 0;
};

// Enqueues to[i] += from[i] on `stream`. This folder has no CUDA kernels, so the user of a channel
// provides this addition. A channel needs no other arithmetic.
using AddInto = std::function<Status(CUdeviceptr to, CUdeviceptr from, size_t count,
                                     Element element, CUstream stream)>;

struct ChannelSetup {
  // Must have all functions of UCUDNN_DRIVER_EXCHANGE_FUNCTIONS (MissingForExchange() is null).
  const cuda::Driver* driver = nullptr;
  CUcontext context = nullptr;
  int rank = 0, size = 1;
  Gatherer* gatherer = nullptr;               // must outlive the channel
  std::chrono::milliseconds timeout{600000};  // limit of each wait for other ranks
  // Returns whether the job has failed. A channel cannot be aborted while it is being made;
  // meanwhile its waits call this function repeatedly. May be empty.
  std::function<bool()> given_up;
  AddInto add;
};

// How long a channel, when it is closed, waits until its streams, its graphs and the other ranks
// have finished.
inline constexpr std::chrono::milliseconds kLeavingTime{2000};

// Fails unless Exchange accepts these messages. The error names rank, peer and size.
Status CheckMessages(std::span<const Message> messages, int rank, int size);

}  // namespace ucudnn::transport
