#include "shim/host/nccl/make.h"

#include <new>
#include <string>
#include <utility>

#include "shim/host/nccl/config.h"
#include "shim/host/nccl/driver.h"

namespace hostgpu::nccl {

Making::Making(std::shared_ptr<Communicator> communicator, ncclComm_t* to)
    : communicator_(std::move(communicator)), to_(to) {
  *to_ = nullptr;
  if (communicator_->blocking()) return;
  Register(communicator_);
  *to_ = communicator_->Handle();
}

Making::~Making() {
  if (!settled_) (void)Settle({ncclInvalidUsage, "the group of its making failed"}, {});
}

Outcome Making::Join(const ncclUniqueId& id) {
  const Communicator& c = *communicator_;
  Membership membership;
  Outcome outcome = nccl::Join(id, {c.ranks(), c.rank(), c.device()}, c.aborted(), &membership);
  return Settle(std::move(outcome), std::move(membership));
}

Outcome Making::Settle(Outcome outcome, Membership membership) {
  settled_ = true;
  Recorded(outcome);
  communicator_->Settle(outcome.result, std::move(membership));
  // The caller of a non-blocking communicator already has the handle, and must end the communicator
  // even if making it failed.
  if (!communicator_->blocking()) return outcome;
  if (outcome.ok()) {
    Register(communicator_);
    *to_ = communicator_->Handle();
  } else {
    ReleaseContext(communicator_->device());
  }
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

Outcome MakeRank(ncclComm_t* to, const ncclUniqueId& id, const Place& place,
                 const ncclConfig_t* given) {
  if (Outcome o = CheckArguments(to, id, place); !o.ok()) return o;
  Config config;
  if (Outcome o = ReadConfig(given, &config); !o.ok()) return o;
  CUcontext context = nullptr;
  if (Outcome o = RetainContext(place.device, &context); !o.ok()) return o;
  const auto communicator =
      std::make_shared<Communicator>(place, context, config.blocking.value_or(true));
  const auto making = std::make_shared<Making>(communicator, to);
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

}  // namespace
}  // namespace hostgpu::nccl

using namespace hostgpu::nccl;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return Guarded([&]() -> Outcome {
    if (!id) return {ncclInvalidArgument, "uniqueId argument is NULL"};
    return NewUniqueId(id);
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return Guarded([&] { return MakeRankHere(comm, id, nranks, rank, nullptr); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return Guarded([&] { return MakeRankHere(comm, id, nranks, rank, config); });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return Guarded([&] { return MakeAll(comms, count, devices); });
}
