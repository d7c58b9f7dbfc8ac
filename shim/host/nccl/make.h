// Making communicators, on whatever thread.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {

// A communicator that is being made for a caller, who finds its handle at `to`.
class Making {
 public:
  enum class Handle { kAtOnce, kWhenUsable, kNever };
  // Of what is made in the background, where it is not blocking.
  static Handle HandleOf(const Communicator& communicator);
  Making(std::shared_ptr<Communicator> communicator, ncclComm_t* to, Handle handle);
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  // Fails where nothing settled it.
  ~Making();

  Communicator& communicator() { return *communicator_; }
  // Joins the others of `id`.
  Outcome Join(const ncclUniqueId& id);
  // It comes to nothing, for which `outcome` is the reason. Returns that.
  Outcome GiveUp(Outcome outcome);

 private:
  Outcome Settle(Outcome outcome, Membership membership);
  const std::shared_ptr<Communicator> communicator_;
  ncclComm_t* const to_;
  const Handle handle_;
  bool settled_ = false;
};

// A rank's part in a split of `parent`. The ranks count their splits: where one leaves a split out,
// the parent fails, since the others would wait for it.
class SplitPart {
 public:
  SplitPart(std::shared_ptr<Communicator> parent, int color, int key)
      : parent_(std::move(parent)), color_(color), key_(key), number_(parent_->NextSplit()) {}
  SplitPart(const SplitPart&) = delete;
  SplitPart& operator=(const SplitPart&) = delete;
  ~SplitPart();
  // Tells the others the color, and joins those of the same.
  Outcome Run(Making& making);

 private:
  // The place in the new communicator and its id; no ranks for one without a color.
  struct Found {
    int ranks = 0;
    int rank = 0;
    ncclUniqueId id = {};
  };
  Outcome Agree(const std::atomic<bool>& cancelled, Found* found);
  Outcome FindId(const std::atomic<bool>& cancelled, Found* found);

  const std::shared_ptr<Communicator> parent_;
  const int color_, key_;
  const uint64_t number_;  // of the split, from 1
  bool took_part_ = false;
};

}  // namespace hostgpu::nccl
