// The steps of one rank for a slice of images of one split kernel, beside its own call: which rows
// it packs, sends and receives, and how received rows become part of the result. Made once, when
// ranks agree; running it allocates nothing. Not thread-safe: a rank makes one call at a time.
//
// All memory is one buffer of the rank, laid out here:
//   received rows | rows to send, and later the operands of small calls
// Results that are kept for later lie behind it, those of all slices at once.
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
#include "spatial/call_form.h"
#include "spatial/group_stripes.h"
#include "spatial/small_convolution.h"
#include "spatial/tensor_add.h"
#include "transport/channel.h"

namespace ucudnn::spatial {

using cuda::BoxCopy;
using cuda::BoxExtents;
using cuda::DeviceBox;
using cuda::Elements;
using cuda::Fill;
using cuda::kNanByte;
using cuda::PackedStrides;

// Values that all plans of a rank share.
struct PlanContext {
  const cudnn::Functions& functions;
  const cuda::Driver& driver;
  cudnnHandle_t handle;  // for asking about engines; its stream is not used
  EngineDemand demand;
};

// A call whose pointers are at the slice's first image, and the rank's buffer.
struct SliceCall {
  const cudnn::ConvolutionCall& call;
  CUdeviceptr buffer = 0;
  CUdeviceptr kept = 0;       // place of this slice's kept results
  CUstream stream = nullptr;  // the caller's
  // Sums gradients of 16-bit filters in its workspace `sums`; null for other calls.
  const cudnn::PartialSum* sum = nullptr;
  void* sums = nullptr;
  TensorAdd& add;
};

class SlicePlan {
 public:
  // Makes the kind of plan that the form needs. `group.stripes.local` has the slice's images.
  static Result<std::unique_ptr<SlicePlan>> Make(const PlanContext& context,
                                                 const GroupStripes& group, const CallForm& form);
  virtual ~SlicePlan() = default;

  const ConvolutionProblem& problem() const { return problem_; }
  size_t buffer_bytes() const { return shared_end_; }
  size_t kept_bytes() const { return kept_bytes_; }  // of separate memory, for each slice
  bool exchanges() const { return !sends_.empty() || !receives_.empty(); }
  // Returns the bytes that this rank receives and sends in one exchange.
  size_t received_bytes() const;
  size_t sent_bytes() const;
  // The buffer's bytes before this place are received.
  size_t received_end() const { return received_end_; }

  // Returns the messages to exchange, with places in the buffer at `buffer`. Valid until the next
  // call.
  std::span<const transport::Message> Sends(CUdeviceptr buffer);
  std::span<const transport::Message> Receives(CUdeviceptr buffer);

  // Enqueues on `stream`: packs the rows to send, and fills the received rows with NaN. If a fused
  // operation may hide NaN, a message ends with an arrival number, which does not change numbers
  // that it is added to; if the message never came, it is NaN and makes all dependent results NaN.
  Status Pack(const SliceCall& slice, CUstream stream) const;
  // Keeps results that the correction reads and the caller's own call overwrites. To be called
  // before that call.
  virtual Status Keep(const SliceCall& slice) const = 0;
  // Makes every small call once, on zeros, with a result in the buffer or with 0 added to the
  // gradient. Fails if the library refuses one of them.
  virtual Status Try(const SliceCall& slice) const = 0;
  // Corrects the result on the caller's stream, behind the exchange and the caller's own call. Adds
  // gradients of filters to `call.w`, or in 16 bits to the sum.
  virtual Status Correct(const SliceCall& slice) const = 0;

 protected:
  // The tensor of a call whose rows are exchanged.
  enum class Exchange { kImage, kOutput };  // x of the forward call; or y, or dy
  // One box of a message.
  struct Block {
    Exchange tensor = Exchange::kImage;
    BoxCopy pack;      // for a block that is sent
    int64_t from = 0;  // bytes into the tensor
    size_t place = 0;
  };
  struct Packet {
    int peer = 0;
    std::vector<Block> blocks;
    size_t place = 0, bytes = 0;
    std::optional<size_t> arrival;  // place of the message's arrival number
  };
  // A box of one of the tensors, counted in the rank's own.
  struct OwnBox {
    Exchange tensor = Exchange::kImage;
    SpatialBox box;
  };
  class Places;  // hands out places of the buffer, one after the other

  SlicePlan(const PlanContext& context, const GroupStripes& group, const CallForm& form)
      : problem_(group.stripes.local),
        form_(form),
        layout_(group.layout),
        functions_(&context.functions),
        driver_(&context.driver) {}
  // Makes a message: its boxes one behind the other, each packed, and then the arrival number. The
  // message begins at `end`, which is moved behind it.
  Packet MakePacket(int peer, std::span<const OwnBox> boxes, size_t& end) const;
  // Takes over the complete packets. Received rows end at `received_end`, rows to send at `end`.
  void TakePackets(std::vector<Packet> receives, std::vector<Packet> sends, size_t received_end,
                   size_t end);
  const Strides& StridesOf(Exchange tensor) const {
    return tensor == Exchange::kImage ? problem_.x_strides : problem_.y_strides;
  }
  int ChannelsOf(Exchange tensor) const {
    return tensor == Exchange::kImage ? problem_.c : problem_.k;
  }
  // Adds the arrival numbers at `arrivals` of the slice's buffer to `count` packed elements at
  // `result`.
  Status AddArrivals(std::span<const size_t> arrivals, const SliceCall& slice, CUdeviceptr result,
                     size_t count) const;

  const ConvolutionProblem problem_;
  const CallForm form_;
  const Layout layout_;  // layout of packed tensors
  const cudnn::Functions* const functions_;
  const cuda::Driver* const driver_;
  std::vector<Packet> sends_, receives_;
  size_t received_end_ = 0, shared_end_ = 0, kept_bytes_ = 0;

 private:
  static CUdeviceptr TensorOf(Exchange tensor, const cudnn::ConvolutionCall& call);

  std::vector<transport::Message> sent_, received_;
};

class SlicePlan::Places {
 public:
  explicit Places(size_t begin) : end_(begin) {}
  size_t Take(size_t bytes);
  size_t end() const { return end_; }

 private:
  size_t end_;
};

// Enqueues a write of -0, the arrival number, to `number`.
Status WriteArrival(const cuda::Driver& driver, DataType type, CUdeviceptr number, CUstream stream);

// Returns the extents of a box of `n` images with `channels`.
BoxExtents ExtentsOf(int64_t n, int64_t channels, const SpatialBox& box);
// Returns the bytes from a tensor's first element to a box's.
int64_t OffsetOf(const SpatialBox& box, const Strides& strides, size_t element_bytes);

}  // namespace ucudnn::spatial
