// What one rank does for a slice of images of one split kernel, beside its own call: which rows it
// packs, sends and receives, and how the received ones become part of the result. Made once at the
// agreement; running it allocates nothing. Not thread-safe: a rank makes one call at a time.
//
// All memory is one buffer of the rank's, laid out here:
//   received rows | rows to send, and later the operands of small convolutions
// Results that are kept for later lie apart, those of all slices at once.
#pragma once

#include <cuda.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "convolution/recomputation.h"
#include "cuda/driver.h"
#include "cudnn/convolution_call.h"
#include "cudnn/partial_sum.h"
#include "spatial/box_copy.h"
#include "spatial/call_form.h"
#include "spatial/group_stripes.h"
#include "spatial/small_convolution.h"
#include "spatial/tensor_add.h"
#include "transport/channel.h"

namespace ucudnn::spatial {

// How the halo becomes part of the result.
enum class Correction {
  kAdded,       // what it contributes is added to what the caller's own call computed
  kRecomputed,  // results that it touches are computed anew, with it, and overwritten
  kPlaced,      // it is part of the result, as it is
};

// Linear calls of 32 and 64 bit are corrected by adding; filter gradients always are, because their
// sums are kept in 32 bit at least.
Correction CorrectionOf(const ConvolutionProblem& problem, const CallForm& form);

// What is of all plans of a rank.
struct PlanContext {
  const cudnn::Functions& functions;
  const cuda::Driver& driver;
  cudnnHandle_t handle;  // to ask for engines; its stream is not used
  EngineDemand demand;
};

// A call whose pointers are at the slice's first image, and the rank's buffer.
struct SliceCall {
  const cudnn::ConvolutionCall& call;
  CUdeviceptr buffer = 0;
  CUdeviceptr kept = 0;       // where this slice's results are kept
  CUstream stream = nullptr;  // the caller's
  // What gradients of 16-bit filters are summed by, in its workspace `sums`; null else.
  const cudnn::PartialSum* sum = nullptr;
  void* sums = nullptr;
  TensorAdd& add;
};

class SlicePlan {
 public:
  // `group.stripes.local` has the slice's images.
  static Result<std::unique_ptr<SlicePlan>> Make(const PlanContext& context,
                                                 const GroupStripes& group, const CallForm& form);

  const ConvolutionProblem& problem() const { return problem_; }
  Correction correction() const { return correction_; }
  size_t buffer_bytes() const { return shared_end_; }
  size_t kept_bytes() const { return kept_bytes_; }  // of a memory apart, for each slice
  bool exchanges() const { return !sends_.empty() || !receives_.empty(); }
  // Bytes that this rank receives and sends in one exchange.
  size_t received_bytes() const;
  size_t sent_bytes() const;
  // The buffer's bytes before it are what is received.
  size_t received_end() const { return received_end_; }

  // What is exchanged, with places in the buffer at `buffer`. Valid until the next call.
  std::span<const transport::Message> Sends(CUdeviceptr buffer);
  std::span<const transport::Message> Receives(CUdeviceptr buffer);

  // Enqueues on `stream`: packs what is sent, and fills what is received with NaN.
  // Where what is fused may hide NaN, a message ends with a number that does not change what it is
  // added to; one that never came is NaN, and so is what depends on it.
  Status Pack(const SliceCall& slice, CUstream stream) const;
  // Keeps results that the correction reads and the caller's own call overwrites. Call before that.
  Status Keep(const SliceCall& slice) const;
  // Runs every small convolution once, on zeros and with nothing but the buffer as its result, or
  // with 0 added to the gradient: an error is that the library refuses one of them.
  Status Try(const SliceCall& slice) const;
  // Corrects the result on the caller's stream, behind the exchange and the caller's own call.
  // Gradients of filters are added to `call.w`, in 16 bit to the sum.
  Status Correct(const SliceCall& slice) const;

 private:
  // One box of a message.
  struct Block {
    BoxCopy pack;      // of what is sent
    int64_t from = 0;  // bytes into the exchanged tensor
    size_t place = 0;
  };
  struct Packet {
    int peer = 0;
    std::vector<Block> blocks;
    size_t place = 0, bytes = 0;
    std::optional<size_t> arrival;  // place of the number that says that it came
  };
  enum class Source { kReceived, kExchanged, kImage, kFilter, kFused, kResult };
  // Elements of an operand that are packed at `to` of the buffer before a small convolution, or of
  // what is kept before the caller's own call.
  struct Fetch {
    Source source = Source::kReceived;
    size_t operand = 0;  // kFused: which one
    BoxCopy copy;
    int64_t from = 0;  // bytes into the source
    size_t to = 0;
  };
  struct Step {
    std::unique_ptr<SmallConvolution> convolution;
    size_t zero_place = 0, zero_bytes = 0;  // set to 0 before the fetches
    std::vector<Fetch> fetches;
    size_t exchanged = 0, image = 0, workspace = 0;  // places of its operands
    // Of what is fused behind the sum: operands that are laid out like the result, as many
    // elements.
    struct Fused {
      size_t operand = 0, place = 0;
    };
    std::vector<Fused> fused;
    bool keeps_fused = false;      // they are in what is kept
    std::vector<Fetch> kept;       // Keep fetches these
    std::optional<size_t> filter;  // none: the caller's filter
    // The result's box: in the buffer, or in what is kept. Without a place it is the whole filter
    // gradient, where that lies.
    std::optional<size_t> result;
    BoxCopy fetch_result, store_result;
    int64_t result_at = 0;  // bytes into the result
    size_t result_count = 0;
    std::vector<size_t> arrivals;  // of the messages that it reads, added to the result
    bool is_kept = false;          // the result is in what is kept
    bool is_added = false;         // to what is there
  };
  class Places;  // of the buffer, given one after the other

  SlicePlan(const Stripes& stripes, const CallForm& form)
      : problem_(stripes.local), form_(form), correction_(CorrectionOf(stripes.local, form)) {}
  void PlanPackets(const GroupStripes& group);
  Packet MakePacket(int peer, std::span<const SpatialBox> boxes, size_t& end) const;
  void PlanPlaces(const Stripes& stripes);
  Status PlanTerms(const PlanContext& context, const Stripes& stripes);
  Status PlanTerm(const PlanContext& context, const Block& received, const HaloBlock& block,
                  const HaloTerm& term);
  Status PlanRegions(const PlanContext& context, const Stripes& stripes);
  Status PlanRegion(const PlanContext& context, std::span<const HaloMessage> messages,
                    const RecomputedBox& region);
  Fetch FetchAssembled(std::span<const HaloMessage> messages, const AssembledCopy& copy,
                       const BoxExtents& assembled, size_t place) const;
  Status MakeConvolution(const PlanContext& context, const ConvolutionProblem& problem,
                         Places& places, Step& step);
  void FetchTaps(const HaloTerm& term, Places& places, Step& step) const;
  // What a region's result, of `extents`, needs of what is there before, and of what is fused.
  void FetchFused(const PlanContext& context, const BoxExtents& extents, Places& places,
                  Step& step);
  // In slice_run.cpp, as is all that follows, and what is public and runs.
  bool exchanges_gradient() const { return problem_.operation != Operation::kForward; }
  CUdeviceptr Address(const SliceCall& slice, const Fetch& fetch) const;
  static CUdeviceptr ResultOf(const Step& step, const SliceCall& slice);
  // The call of a step's convolution, with its operands in the buffer.
  struct StepCall {
    cudnn::ConvolutionCall call;
    cudnn::BiasActivation bias;
    cudnn::FusedPointers fused;
  };
  void Fill(const Step& step, const SliceCall& slice, StepCall& to) const;
  Status WriteArrival(CUdeviceptr number, CUstream stream) const;
  Status AddArrivals(const Step& step, const SliceCall& slice) const;
  Status RunStep(const Step& step, const SliceCall& slice) const;
  Status RunSummed(const Step& step, const SliceCall& slice, cudnn::ConvolutionCall& call) const;

  const ConvolutionProblem problem_;
  const CallForm form_;
  const Correction correction_;
  const cudnn::Functions* functions_ = nullptr;
  const cuda::Driver* driver_ = nullptr;
  std::vector<Packet> sends_, receives_;
  std::vector<transport::Message> sent_, received_;
  std::vector<Step> steps_;
  // A received block that is part of the result.
  struct Placed {
    BoxCopy copy;
    size_t place = 0;
    int64_t to = 0;  // bytes into the result
  };
  std::vector<Placed> placed_;
  size_t received_end_ = 0, shared_end_ = 0, kept_bytes_ = 0;
};

}  // namespace ucudnn::spatial
