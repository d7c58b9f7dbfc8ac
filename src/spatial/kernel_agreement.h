// The kernels of a rank. At a kernel's first execution all ranks of the group agree on it: each
// makes a claim, and all come to one verdict (agreement.h), make their parts and keep them. Not
// thread-safe, except HearPost: a rank makes one call at a time. REQUIRES: the context of the call
// is current.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spatial/agreement.h"
#include "spatial/call_record.h"
#include "spatial/kernel_log.h"
#include "spatial/kernel_table.h"
#include "spatial/rank_device.h"
#include "spatial/rank_failure.h"
#include "spatial/split_call.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {

class KernelAgreement {
 public:
  // The call that the rank is making.
  struct Turn {
    const SplitCall& call;
    LocalCall& local;
    uint64_t sequence = 0;
    CallForm form;
    // The first bytes of the buffer, which hold what the previous call received for this one.
    size_t kept_bytes = 0;
  };
  struct Found {
    SplitKernel* kernel = nullptr;  // null: the ranks can no longer agree
    bool agreed_now = false;
  };

  // All arguments outlive the object.
  KernelAgreement(const SplitSettings& settings, RankDevice& device, transport::Ranks& ranks,
                  RankFailure& failure, const CallRecords& records, KernelLog& log);

  // Returns the kernel of the call, on which all ranks have agreed. Until a gradient has run, the
  // program may change who sums gradients; the ranks then agree again on gradients that were
  // refused.
  Found KernelOf(const Turn& turn);
  // Returns the kernels that were agreed on before. Valid until the next KernelOf.
  std::span<AgreedKernel> Find(const ConvolutionProblem& problem, const CallForm& form) {
    return kernels_.Find(KernelKey::Of(problem, form));
  }
  size_t most_buffer_bytes() const { return most_buffer_bytes_; }  // at the last agreement

  // Hears another rank's record, on the transport's thread. Fails if this rank gathers at that call
  // and the other rank does not.
  void HearPost(int rank, const CallRecord& theirs);

 private:
  Found FindOrAgree(const Turn& turn);
  // Opens the channel if there is none yet. That happens at the ranks' first kernel, which is the
  // same call on all ranks. If a rank lacks what a channel needs, no channel is opened, and that
  // rank's claim says so. Returns false if the ranks can no longer agree.
  bool OpenFirst(const Turn& turn);
  // Runs the rank's own call on memory that nobody reads. Fails if the call cannot run.
  Status Try(const Turn& turn);
  // Returns a hash of the tensor whose rows are exchanged, or 0 if the tensor cannot be read or has
  // a single value. Of a large tensor only pieces, spread over all of it, are hashed.
  uint64_t InputHash(const SplitCall& call) const;
  // Returns, in words, all that ranks must have in common in the call.
  std::string TextOf(const Turn& turn) const;
  Claim ClaimOf(const Turn& turn, std::span<const AgreedKernel> made);
  std::unique_ptr<SplitKernel> MakeKernel(const Turn& turn, const Agreed& agreed);
  // Returns the part of an agreed kernel that fits the layout of the call's tensors. This rank
  // alone makes a new part if the layout is new. Returns null if that fails, which is an error on
  // all ranks.
  SplitKernel* ForTensorsOf(const Turn& turn, AgreedKernel& agreed);
  Result<std::unique_ptr<SplitKernel>> MakeForTensorsOf(const Turn& turn,
                                                        const SplitKernel& agreed);
  // Gathers the numbers of all ranks. If `own` is an error on any rank, all ranks get the error.
  // Returns none if the ranks can no longer agree.
  std::optional<Result<std::vector<std::vector<uint64_t>>>> GatherNumbers(
      std::span<const uint64_t> mine, const Status& own, const std::string& doing);
  // Returns false if maps have one row on all ranks along a cut axis: such maps may well be copies.
  bool HoldsStripes(const Agreed& agreed) const;
  // Returns the stripes of the call, by what was agreed. Fails in the same way on all ranks.
  Result<GroupStripes> StripesOf(const SplitCall& call, std::span<const Spatial> extents,
                                 std::span<const OwnWindow> windows) const;
  Result<GroupStripes> PooledStripesOf(const SplitCall& call, std::span<const Spatial> extents,
                                       std::span<const OwnWindow> windows) const;
  PlanContext ContextOf(const Turn& turn) const;
  // Returns what the report tells about a kernel that was agreed on for the call. Defined in
  // split_figures.cpp.
  KernelFacts FactsOf(const Turn& turn, const SplitKernel& kernel) const;
  // Fails because the call's kernel is new on this rank, but not on `rank`.
  void FailNotNew(int rank, const CallRecord& theirs);

  const SplitSettings& settings_;
  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  RankDevice& device_;
  transport::Ranks& ranks_;
  RankFailure& failure_;
  const CallRecords& records_;
  KernelLog& log_;
  std::atomic<uint64_t> gathering_ = 0;  // the call whose claims this rank waits for; 0: none
  std::array<std::atomic<int32_t>, kMaxSpatial> gathered_extents_ = {};  // of the `gathering_` call
  std::atomic<uint64_t> gathered_kernel_ = 0;  // common hash of the `gathering_` call
  KernelTable kernels_;
  size_t most_buffer_bytes_ = 0;
  std::optional<bool> sums_gradients_;
  bool has_gradients_ = false;  // ranks have agreed on a gradient
};

}  // namespace ucudnn::spatial
