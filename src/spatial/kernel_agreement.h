// The kernels of a rank. At a kernel's first execution all ranks of the group agree on the kernel:
// each rank makes a claim, computes the same agreement from all claims (agreement.h), and makes and
// keeps its part of the kernel.
//
// Not thread-safe, except for HearPost: a rank makes one call at a time. REQUIRES, except for
// HearPost: the context of the call is current.
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
  // The call that the rank is making now.
  struct Turn {
    const SplitCall& call;
    LocalCall& local;
    uint64_t sequence = 0;
    CallProperties form;
    // How many bytes at the beginning of the buffer the previous call has received for this call.
    size_t kept_bytes = 0;
  };
  struct Found {
    SplitKernel* kernel = nullptr;  // null: the ranks can no longer agree, and all calls fail
    bool agreed_now = false;
  };

  // All arguments must outlive the object.
  KernelAgreement(const SplitSettings& settings, RankDevice& device, transport::Ranks& ranks,
                  RankFailure& failure, const CallRecords& records, KernelLog& log);

  // Returns the kernel of the call, on which all ranks have agreed. Until a gradient has run, the
  // program may change who sums gradients; ranks then agree again on gradients that were refused.
  Found KernelOf(const Turn& turn);
  // Returns the kernel of a captured call; the ranks have already agreed on that kernel. Returns
  // null if the kernel has no version for the layout of the call's tensors. Fails on all ranks in
  // the same way if the call cannot be captured.
  Result<SplitKernel*> FindForCapture(const SplitCall& call);
  // Returns the limit of memory for exchanges, in bytes, as it was at the last agreement.
  size_t most_buffer_bytes() const { return most_buffer_bytes_; }

  // To be called on the transport's thread when a record of another rank has arrived. Fails the job
  // if this rank gathers claims for the call with the record's number and the other rank does not.
  void HearPost(int rank, const CallRecord& theirs);

 private:
  Found FindOrAgree(const Turn& turn);
  // Opens the channel if it is not open. All ranks open their channels at the same call, the first
  // call of their first kernel. If a rank lacks what a channel needs, no rank opens a channel, and
  // that rank's claim says why. Returns false if the ranks can no longer agree.
  bool OpenFirst(const Turn& turn);
  // Runs the rank's own call as a trial. If the call reads its old output, the trial's result goes
  // to scratch memory; otherwise it goes to the output. Fails if the call cannot run.
  Status Try(const Turn& turn);
  // Returns a hash of the tensor whose rows are exchanged; 0 if the tensor cannot be read or all
  // elements that were read are equal. From a large tensor only samples, spread over all of it, are
  // read.
  uint64_t InputHash(const SplitCall& call) const;
  // Returns a text of all properties of the call that ranks must share.
  std::string TextOf(const Turn& turn) const;
  Claim ClaimOf(const Turn& turn, std::span<const AgreedKernel> made);
  std::unique_ptr<SplitKernel> MakeKernel(const Turn& turn, const Agreed& agreed);
  // Returns the version of an agreed kernel for the layout of the call's tensors. For a new layout,
  // makes a version on this rank alone. If that fails, all ranks get an error, and null is
  // returned.
  SplitKernel* ForTensorsOf(const Turn& turn, AgreedKernel& agreed);
  Result<std::unique_ptr<SplitKernel>> MakeForTensorsOf(const Turn& turn,
                                                        const SplitKernel& agreed);
  // Gathers `mine` of all ranks. If `own` is an error on some rank, every rank gets that error.
  // Returns none if the ranks can no longer agree.
  std::optional<Result<std::vector<std::vector<uint64_t>>>> GatherNumbers(
      std::span<const uint64_t> mine, const Status& own, const std::string& doing);
  // Returns false if all ranks have extent 1 along a cut axis, because such tensors may be copies.
  bool HoldsStripes(const Agreed& agreed) const;
  // StripesOf and PooledStripesOf return the call's stripes as agreed. They fail on all ranks in
  // the same way.
  Result<GroupStripes> StripesOf(const SplitCall& call, std::span<const Spatial> extents,
                                 std::span<const OwnWindow> windows) const;
  Result<GroupStripes> PooledStripesOf(const SplitCall& call, std::span<const Spatial> extents,
                                       std::span<const OwnWindow> windows) const;
  PlanContext ContextOf(const Turn& turn) const;
  // Fails the job, because this rank gathers claims for the call of `theirs` and rank `rank` does
  // not.
  void FailNotNew(int rank, const CallRecord& theirs);

  const SplitSettings& settings_;
  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  RankDevice& device_;
  transport::Ranks& ranks_;
  RankFailure& failure_;
  const CallRecords& records_;
  KernelLog& log_;
  // The number of the call for which this rank gathers claims; 0: it gathers none.
  std::atomic<uint64_t> gathering_ = 0;
  // The extents of x in the call `gathering_`.
  std::array<std::atomic<int32_t>, kMaxSpatial> gathered_extents_ = {};
  std::atomic<uint64_t> gathered_kernel_ = 0;  // hash of TextOf for the call `gathering_`
  KernelTable kernels_;
  size_t most_buffer_bytes_ = 0;
  std::optional<bool> sums_gradients_;
  bool has_gradients_ = false;  // ranks have agreed to run a gradient
};

}  // namespace ucudnn::spatial
