// The kernels of a rank, on which all ranks of its group agree at their first execution: each makes
// a claim, and all come to one verdict (agreement.h), make their parts and keep them. Not
// thread-safe, but for HearPost: a rank makes one call at a time. The context of the call is
// current.
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
  // A call that the rank makes now.
  struct Turn {
    const SplitCall& call;
    LocalCall& local;
    uint64_t sequence = 0;
    CallForm form;
    // The beginning of the buffer that holds what the call before received for this one.
    size_t kept_bytes = 0;
  };
  struct Found {
    SplitKernel* kernel = nullptr;  // null: the ranks can no longer agree
    bool agreed_now = false;
  };

  // All arguments outlive this.
  KernelAgreement(const SplitSettings& settings, RankDevice& device, transport::Ranks& ranks,
                  RankFailure& failure, const CallRecords& records, KernelLog& log);

  // The kernel of the call, agreed on by all ranks. While no gradient has run, the program may
  // change who sums gradients: then the ranks agree anew on those that were refused before.
  Found KernelOf(const Turn& turn);
  // What was agreed on before. Valid until the next KernelOf.
  std::span<AgreedKernel> Find(const ConvolutionProblem& problem, const CallForm& form) {
    return kernels_.Find(KernelKey::Of(problem, form));
  }
  size_t most_buffer_bytes() const { return most_buffer_bytes_; }  // as of the last agreement

  // On the transport's thread: another rank's record. Fails where this rank gathers at that call
  // and the other does not.
  void HearPost(int rank, const CallRecord& theirs);

 private:
  Found FindOrAgree(const Turn& turn);
  // Opens the channel where there is none yet: at the ranks' first kernel, which is the same call
  // on all of them. Where a rank lacks what a channel needs, none is opened: its claim will say so.
  // False where the ranks can no longer agree.
  bool OpenFirst(const Turn& turn);
  // Runs the rank's own call on memory that nobody reads; an error says why it cannot.
  Status Try(const Turn& turn);
  // A hash of the tensor whose rows travel; 0 where it cannot be read, or all of it is one value.
  // Pieces all over it stand for a large one.
  uint64_t InputHash(const SplitCall& call) const;
  // All of the call that ranks must have in common.
  std::string TextOf(const Turn& turn) const;
  Claim ClaimOf(const Turn& turn, std::span<const AgreedKernel> made);
  std::unique_ptr<SplitKernel> MakeKernel(const Turn& turn, const Agreed& agreed);
  // What was agreed on, for the call's tensors as they lie: made by this rank alone where they lie
  // as never before. Null where that fails, which is an error on all ranks.
  SplitKernel* ForTensorsOf(const Turn& turn, AgreedKernel& agreed);
  Result<std::unique_ptr<SplitKernel>> MakeForTensorsOf(const Turn& turn,
                                                        const SplitKernel& agreed);
  // The numbers of all ranks, to which `own` may add an error: then all ranks have it. None where
  // the ranks can no longer agree.
  std::optional<Result<std::vector<std::vector<uint64_t>>>> GatherNumbers(
      std::span<const uint64_t> mine, const Status& own, const std::string& doing);
  // Whether no cut axis has maps of one row, which may well be copies.
  bool HoldsStripes(const Agreed& agreed) const;
  // The stripes of the call, by what was agreed; an error is the same on all ranks.
  Result<GroupStripes> StripesOf(const SplitCall& call, std::span<const Spatial> extents,
                                 std::span<const OwnWindow> windows) const;
  Result<GroupStripes> PooledStripesOf(const SplitCall& call, std::span<const Spatial> extents,
                                       std::span<const OwnWindow> windows) const;
  PlanContext ContextOf(const Turn& turn) const;
  // In split_figures.cpp. What the report tells of a kernel that was agreed on for the call.
  KernelFacts FactsOf(const Turn& turn, const SplitKernel& kernel) const;
  // The call's kernel is new here and not to `rank`.
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
  std::array<std::atomic<int32_t>, kMaxSpatial> gathered_extents_ = {};  // of that call
  std::atomic<uint64_t> gathered_kernel_ = 0;                            // and its common hash
  KernelTable kernels_;
  size_t most_buffer_bytes_ = 0;
  std::optional<bool> sums_gradients_;
  bool has_gradients_ = false;  // some were agreed on
};

}  // namespace ucudnn::spatial
