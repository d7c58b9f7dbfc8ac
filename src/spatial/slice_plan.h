// The plan of everything that one rank does for one slice of images besides its own call: which
// rows the rank packs, sends and receives, and how received rows become part of the result. A plan
// is made with its split kernel. Running a plan allocates nothing. Not thread-safe: a rank makes
// one call at a time.
//
// All memory is in one buffer of the rank. This class lays out the part for a slice:
//   received rows | rows to send, and later the operands of small calls
// Behind the parts for slices, the buffer has the kept results of all slices.
#pragma once

#include <cuda.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "cuda/box_copy.h"
#include "cuda/driver.h"
#include "cudnn/convolution_call.h"
#include "cudnn/partial_sum.h"
#include "spatial/device_numbers.h"
#include "spatial/group_stripes.h"
#include "spatial/small_convolution.h"
#include "spatial/split_call.h"
#include "transport/channel.h"

namespace ucudnn::spatial {

using cuda::BoxCopy;
using cuda::BoxExtents;
using cuda::DeviceBox;
using cuda::Elements;
using cuda::Fill;
using cuda::kNanByte;
using cuda::PackedStrides;

// The values that all plans of a rank share.
struct PlanContext {
  const cudnn::Functions& functions;
  const cuda::Driver& driver;
  cudnnHandle_t handle;  // for questions about engines; its stream is not used
  EngineDemand demand;
};

// A call whose pointers point to the slice's first image, and the memory in the rank's buffer that
// belongs to the slice.
struct SliceCall {
  const cudnn::ConvolutionCall& call;
  CUdeviceptr buffer = 0;
  CUdeviceptr kept = 0;       // place of this slice's kept results
  CUstream stream = nullptr;  // the caller's stream
  // Sums 16-bit gradients of filters, in its workspace `sums`; null for other calls.
  const cudnn::PartialSum* sum = nullptr;
  void* sums = nullptr;
  TensorAdd& add;
};

class SlicePlan {
 public:
  // Makes a PoolingSlice for a pooling, otherwise a ConvolutionSlice. group.stripes.local.n is the
  // number of the slice's images.
  static Result<std::unique_ptr<SlicePlan>> Make(const PlanContext& context,
                                                 const GroupStripes& group,
                                                 const CallProperties& form);
  virtual ~SlicePlan() = default;

  const ConvolutionProblem& problem() const { return problem_; }
  size_t buffer_bytes() const { return shared_end_; }
  // Bytes of kept results for each slice, which buffer_bytes() does not include.
  size_t kept_bytes() const { return kept_bytes_; }
  bool exchanges() const { return !sends_.empty() || !receives_.empty(); }
  // received_bytes and sent_bytes return the bytes that this rank receives and sends in one
  // exchange.
  size_t received_bytes() const;
  size_t sent_bytes() const;
  // Returns the end of the received rows, which are at the beginning of the buffer.
  size_t received_end() const { return received_end_; }

  // Sends and Receives return the messages to exchange, with addresses in the buffer at `buffer`.
  // Each result is valid until the next call of the same function.
  std::span<const transport::Message> Sends(CUdeviceptr buffer);
  std::span<const transport::Message> Receives(CUdeviceptr buffer);

  // Packs the rows to send, and fills the place of the received rows with NaN, both on `stream`. If
  // a fused operation may hide NaN, each message ends with an arrival number. The sender writes -0,
  // which changes no number to which it is added. If the message never arrives, the receiver's
  // arrival number stays NaN, and turns all results that depend on the message into NaN.
  Status Pack(const SliceCall& slice, CUstream stream) const;
  // Copies to SliceCall::kept what a correction reads and the caller's own call overwrites: old
  // results and fused operands. To be called before that own call.
  virtual Status Keep(const SliceCall& slice) const = 0;
  // Runs every small call once, on a buffer of zeros, and writes its result into the buffer, or
  // adds 0 to the gradient. Fails if the library refuses one of the calls.
  virtual Status Try(const SliceCall& slice) const = 0;
  // Corrects the result on the caller's stream, after the exchange and the caller's own call.
  // Gradients of filters are added to `call.w`; 16-bit gradients are added to SliceCall::sum.
  virtual Status Correct(const SliceCall& slice) const = 0;

 protected:
  // The tensor whose rows are exchanged.
  enum class Exchange { kImage, kOutput };  // kImage: x of the forward call; kOutput: y or dy
  // One box of a message.
  struct Block {
    Exchange tensor = Exchange::kImage;
    BoxCopy pack;      // copies the box into the message, if it is sent
    int64_t from = 0;  // offset in bytes within the tensor
    size_t place = 0;
  };
  struct Packet {
    int peer = 0;
    std::vector<Block> blocks;
    size_t place = 0, bytes = 0;
    std::optional<size_t> arrival;  // place of the message's arrival number
  };
  // A box of one of the tensors. Positions count from the first element of the rank's own stripe.
  struct OwnBox {
    Exchange tensor = Exchange::kImage;
    SpatialBox box;
  };
  class PlaceAllocator;  // hands out places in the buffer, one behind the other

  SlicePlan(const PlanContext& context, const GroupStripes& group, const CallProperties& form)
      : problem_(group.stripes.local),
        form_(form),
        layout_(group.layout),
        functions_(&context.functions),
        driver_(&context.driver) {}
  // Plans a message: its boxes, packed one behind the other, and then the arrival number if one is
  // needed. The message begins at `end`; `end` is moved to the message's end.
  Packet MakePacket(int peer, std::span<const OwnBox> boxes, size_t& end) const;
  // Takes over the planned messages. The received rows end at place `received_end`, and the rows to
  // send end at place `end`.
  void TakePackets(std::vector<Packet> receives, std::vector<Packet> sends, size_t received_end,
                   size_t end);
  const Strides& StridesOf(Exchange tensor) const {
    return tensor == Exchange::kImage ? problem_.x_strides : problem_.y_strides;
  }
  int ChannelsOf(Exchange tensor) const {
    return tensor == Exchange::kImage ? problem_.c : problem_.k;
  }
  // Adds the arrival numbers, which are at `arrivals` in the slice's buffer, to `count` packed
  // elements at `result`.
  Status AddArrivals(std::span<const size_t> arrivals, const SliceCall& slice, CUdeviceptr result,
                     size_t count) const;

  const ConvolutionProblem problem_;
  const CallProperties form_;
  const Layout layout_;  // of packed tensors
  const cudnn::Functions* const functions_;
  const cuda::Driver* const driver_;
  std::vector<Packet> sends_, receives_;
  size_t received_end_ = 0, shared_end_ = 0, kept_bytes_ = 0;

 private:
  static CUdeviceptr TensorOf(Exchange tensor, const cudnn::ConvolutionCall& call);

  std::vector<transport::Message> sent_, received_;
};

class SlicePlan::PlaceAllocator {
 public:
  explicit PlaceAllocator(size_t begin) : end_(begin) {}
  size_t Take(size_t bytes);
  size_t end() const { return end_; }

 private:
  size_t end_;
};

// Enqueues a write of the arrival number, -0, to `number`.
Status WriteArrival(const cuda::Driver& driver, DataType type, CUdeviceptr number, CUstream stream);

// Returns the extents of a box of `n` images with `channels` channels.
BoxExtents ExtentsOf(int64_t n, int64_t channels, const SpatialBox& box);
// Returns the offset in bytes of a box's first element within a tensor.
int64_t OffsetOf(const SpatialBox& box, const Strides& strides, size_t element_bytes);

}  // namespace ucudnn::spatial
