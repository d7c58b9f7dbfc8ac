#include "shim/host/nccl/make.h"

#include <new>
#include <string>
#include <utility>

#include "shim/host/nccl/config.h"
#include "shim/host/nccl/driver.h"

namespace hostgpu::nccl {

Making::Handle Making::HandleOf(const Communicator& communicator) {
  return communicator.blocking() ? Handle::kWhenUsable : Handle::kAtOnce;
}

Making::Making(std::shared_ptr<Communicator> communicator, ncclComm_t* to, Handle handle)
    : communicator_(std::move(communicator)), to_(to), handle_(handle) {
  *to_ = nullptr;
  if (handle_ != Handle::kAtOnce) return;
  Register(communicator_);
  *to_ = communicator_->Handle();
}

Making::~Making() {
  if (!settled_) (void)GiveUp({ncclInvalidUsage, "the group of its making failed"});
}

Outcome Making::Join(const ncclUniqueId& id) {
  const Communicator& c = *communicator_;
  Membership membership;
  Outcome outcome = nccl::Join(id, {c.ranks(), c.rank(), c.device()}, c.aborted(), &membership);
  return Settle(std::move(outcome), std::move(membership));
}

Outcome Making::GiveUp(Outcome outcome) { return Settle(std::move(outcome), {}); }

Outcome Making::Settle(Outcome outcome, Membership membership) {
  settled_ = true;
  const bool usable = membership.board && outcome.ok();
  Recorded(outcome);
  communicator_->Settle(usable || !outcome.ok() ? outcome.result : ncclInvalidUsage,
                        std::move(membership));
  if (usable && handle_ == Handle::kWhenUsable) {
    Register(communicator_);
    *to_ = communicator_->Handle();
  }
  // Whoever has a handle ends the communicator with it.
  if (!usable && handle_ != Handle::kAtOnce) ReleaseContext(communicator_->device());
  return outcome;
}

namespace {

Outcome CheckArguments(const ncclComm_t* to, const ncclUniqueId& id, const Place& place) {
  if (!to) return {ncclInvalidArgument, "comm argument is NULL"};
  if (place.ranks < 1 || place.rank < 0 || place.rank >= place.ranks) {
    return {ncclInvalidArgument, "Invalid rank requested : " + std::to_string(place.rank) + "/" +
                                     std::to_string(place.ranks)};
  }
  if (place.ranks > kMaxRanks) {
    return {ncclInvalidArgument, std::to_string(place.ranks) +
                                     " ranks: the CPU stand-in has at most " +
                                     std::to_string(kMaxRanks)};
  }
  if (!IsUniqueId(id)) return {ncclInvalidArgument, "the unique id is none of this library's"};
  return {};
}

// A communicator of the device, with its context retained.
Outcome Prepare(const Place& place, bool blocking, std::shared_ptr<Communicator>* communicator) {
  CUcontext context = nullptr;
  if (Outcome o = RetainContext(place.device, &context); !o.ok()) return o;
  *communicator = std::make_shared<Communicator>(place, context, blocking);
  return {};
}

Outcome MakeRank(ncclComm_t* to, const ncclUniqueId& id, const Place& place,
                 const ncclConfig_t* given) {
  if (Outcome o = CheckArguments(to, id, place); !o.ok()) return o;
  Config config;
  if (Outcome o = ReadConfig(given, &config); !o.ok()) return o;
  std::shared_ptr<Communicator> communicator;
  if (Outcome o = Prepare(place, config.blocking.value_or(true), &communicator); !o.ok()) return o;
  const auto making = std::make_shared<Making>(communicator, to, Making::HandleOf(*communicator));
  return Submit(Job{[making, id] { return making->Join(id); }, communicator->blocking()});
}

Outcome MakeRankHere(ncclComm_t* to, const ncclUniqueId& id, int ranks, int rank,
                     const ncclConfig_t* given) {
  int device = 0;
  if (Outcome o = CurrentDevice(&device); !o.ok()) return o;
  return MakeRank(to, id, {ranks, rank, device}, given);
}

Outcome MakeAll(ncclComm_t* to, int count, const int* devices) {
  int present = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&present) != CUDA_SUCCESS) {
    return {ncclUnhandledCudaError, "no device"};
  }
  if (!to || count < 1 || count > kMaxRanks || (!devices && count > present)) {
    return {ncclInvalidArgument, "Invalid device count requested : " + std::to_string(count) +
                                     " of " + std::to_string(present)};
  }
  ncclUniqueId id;
  for (int rank = 0; rank < count; ++rank) {
    const int device = devices ? devices[rank] : rank;
    if (device < 0 || device >= present) {
      return {ncclInvalidArgument, "Invalid device " + std::to_string(device)};
    }
    for (int earlier = 0; devices && earlier < rank; ++earlier) {
      if (devices[earlier] == device) {
        return {ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(earlier) +
                                      " and rank " + std::to_string(rank) +
                                      " both on CUDA device " + std::to_string(device)};
      }
    }
  }
  if (Outcome o = NewUniqueId(&id); !o.ok()) return o;
  if (Outcome o = BeginGroup(); !o.ok()) return o;
  for (int rank = 0; rank < count; ++rank) {
    Outcome outcome;
    try {
      outcome = MakeRank(to + rank, id, {count, rank, devices ? devices[rank] : rank}, nullptr);
    } catch (const std::bad_alloc&) {
      outcome = {ncclSystemError, "no host memory"};
    }
    if (!outcome.ok()) FailGroup(outcome);
  }
  return EndGroup();
}

struct Color {
  int color;
  int key;
};

Outcome MakeSplit(ncclComm_t comm, const Color& wanted, ncclComm_t* to, const ncclConfig_t* given) {
  const auto parent = Find(comm);
  if (!parent) return {ncclInvalidArgument, "comm argument is no communicator"};
  if (!to) return {ncclInvalidArgument, "newcomm argument is NULL"};
  if (Outcome o = parent->CheckUsable(); !o.ok()) return o;
  if (wanted.color < 0 && wanted.color != NCCL_SPLIT_NOCOLOR) {
    return {ncclInvalidArgument, "Invalid color " + std::to_string(wanted.color)};
  }
  Config config;
  if (Outcome o = ReadConfig(given, &config); !o.ok()) return o;
  std::shared_ptr<Communicator> communicator;
  const bool blocking = config.blocking.value_or(parent->blocking());
  if (Outcome o = Prepare({1, 0, parent->device()}, blocking, &communicator); !o.ok()) return o;
  const Making::Handle handle =
      wanted.color == NCCL_SPLIT_NOCOLOR ? Making::Handle::kNever : Making::HandleOf(*communicator);
  const auto making = std::make_shared<Making>(communicator, to, handle);
  const auto part = std::make_shared<SplitPart>(parent, wanted.color, wanted.key);
  return Submit(Job{[part, making] { return part->Run(*making); }, blocking});
}

}  // namespace
}  // namespace hostgpu::nccl

using hostgpu::nccl::Guarded;
using hostgpu::nccl::Outcome;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return Guarded([&]() -> Outcome {
    if (!id) return {ncclInvalidArgument, "uniqueId argument is NULL"};
    return hostgpu::nccl::NewUniqueId(id);
  });
}
HOSTGPU_NCCL_PROFILED(GetUniqueId);

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return Guarded([&] { return hostgpu::nccl::MakeRankHere(comm, id, nranks, rank, nullptr); });
}
HOSTGPU_NCCL_PROFILED(CommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return Guarded([&] { return hostgpu::nccl::MakeRankHere(comm, id, nranks, rank, config); });
}
HOSTGPU_NCCL_PROFILED(CommInitRankConfig);

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return Guarded([&] { return hostgpu::nccl::MakeAll(comms, count, devices); });
}
HOSTGPU_NCCL_PROFILED(CommInitAll);

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* new_comm,
                           ncclConfig_t* config) {
  return Guarded([&] { return hostgpu::nccl::MakeSplit(comm, {color, key}, new_comm, config); });
}
HOSTGPU_NCCL_PROFILED(CommSplit);
