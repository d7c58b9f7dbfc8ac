// NCCL's communicating functions. Each one describes its messages between ranks as an Operation.
#include <climits>
#include <functional>
#include <string>
#include <utility>

#include "shim/host/hostgpu.h"
#include "shim/host/nccl/driver.h"
#include "shim/host/nccl/group.h"
#include "shim/host/nccl/reduction.h"

namespace hostgpu::nccl {
namespace {

// The functions that a signature distinguishes.
enum class Name : uint64_t {
  kSendRecv,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce
};
// Returns a number that encodes the arguments that must be equal on all ranks, other than the
// number of bytes.
uint64_t SignatureOf(Name name, int root, const Reduction* reduction) {
  uint64_t signature = static_cast<uint64_t>(name) | static_cast<uint64_t>(root) << 8;
  if (reduction) {
    signature |= (static_cast<uint64_t>(reduction->type) << 24) |
                 (static_cast<uint64_t>(reduction->op) << 32);
  }
  return signature;
}

// The arguments that most functions have.
struct Arguments {
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  size_t bytes() const { return count * ElementBytes(type); }
};

// Builds the operation of one rank from a call.
class Builder {
 public:
  Builder(const Communicator& communicator, const Arguments& arguments)
      : communicator(communicator), arguments(arguments) {}

  int rank() const { return communicator.rank(); }
  int ranks() const { return communicator.ranks(); }

  // UseSource and UseTarget prepare the buffers of Send and Receive. They check that a buffer is
  // device memory of the communicator's device and has `bytes` bytes.
  Outcome UseSource(size_t bytes) { return Use(arguments.from, bytes, "sendbuff", &source_); }
  Outcome UseTarget(size_t bytes) {
    uint64_t offset = 0;
    if (Outcome o = Use(arguments.to, bytes, "recvbuff", &offset); !o.ok()) return o;
    target_ = static_cast<char*>(bytes > 0 ? hostgpuHostAlias(arguments.to) : nullptr);
    return {};
  }

  void Send(Kind kind, int to, uint64_t at, uint64_t bytes) {
    operation.out.push_back({kind, to, source_ + at, bytes, signature, 0});
  }
  Incoming& Receive(Kind kind, std::vector<int> from, uint64_t at, uint64_t bytes) {
    Incoming incoming;
    incoming.kind = kind;
    incoming.from = std::move(from);
    incoming.to = target_ + at;
    incoming.bytes = bytes;
    incoming.signature = signature;
    operation.in.push_back(std::move(incoming));
    return operation.in.back();
  }
  std::vector<int> Everybody() const {
    std::vector<int> all(static_cast<size_t>(ranks()));
    for (int rank = 0; rank < ranks(); ++rank) all[static_cast<size_t>(rank)] = rank;
    return all;
  }

  const Communicator& communicator;
  const Arguments& arguments;
  uint64_t signature = 0;
  Operation operation;

 private:
  Outcome Use(const void* address, size_t bytes, const char* name, uint64_t* offset) {
    if (bytes == 0) return {};
    if (!address) return {ncclInvalidArgument, std::string(name) + " argument is NULL"};
    *offset = hostgpuDeviceOffset(communicator.device(), address);
    const size_t there = *offset == SIZE_MAX ? 0 : hostgpuBytesFrom(address);
    if (there < bytes) {
      return {ncclInvalidArgument,
              std::string(name) + " has " + std::to_string(there) + " bytes of memory of device " +
                  std::to_string(communicator.device()) + ", not " + std::to_string(bytes)};
    }
    operation.uses.push_back(address);
    return {};
  }
  uint64_t source_ = 0;
  char* target_ = nullptr;
};

Outcome CheckRank(const Builder& builder, int rank, const char* name) {
  if (rank >= 0 && rank < builder.ranks()) return {};
  return {ncclInvalidArgument, std::string(name) + " " + std::to_string(rank) +
                                   " should be in the 0.." + std::to_string(builder.ranks() - 1) +
                                   " range"};
}

Outcome CheckArguments(const Communicator& communicator, const Arguments& arguments) {
  if (ElementBytes(arguments.type) == 0) {
    return {ncclInvalidArgument, "invalid type " + std::to_string(arguments.type)};
  }
  const size_t most = SIZE_MAX / 2 / ElementBytes(arguments.type) / kMaxRanks;
  if (arguments.count > most) {
    return {ncclInvalidArgument, "count " + std::to_string(arguments.count) + " is too large"};
  }
  CUcontext context = communicator.context();
  if (arguments.stream && cuStreamGetCtx(arguments.stream, &context) == CUDA_SUCCESS &&
      context != communicator.context() && arguments.stream != CU_STREAM_LEGACY &&
      arguments.stream != CU_STREAM_PER_THREAD) {
    return {ncclInvalidUsage, "the stream is one of another device than the communicator"};
  }
  return {};
}

Outcome CheckReduction(const Reduction& reduction) {
  if (reduction.op < ncclSum || reduction.op >= ncclNumOps) {
    return {ncclInvalidArgument, "invalid reduction operation " + std::to_string(reduction.op)};
  }
  if (!CanReduce(reduction.type)) {
    return {ncclInvalidArgument, "FP8 reduction support begins with sm90 capable devices."};
  }
  return {};
}

// Calls `build` to describe the call, and submits it. A call without messages is ignored. ncclSend
// and ncclRecv of 0 bytes have a message, because the two ranks wait for each other.
ncclResult_t Communicate(const Arguments& arguments,
                         const std::function<Outcome(Builder&)>& build) {
  return Guarded([&]() -> Outcome {
    Call call;
    call.communicator = Find(arguments.comm);
    call.stream = arguments.stream;
    if (!call.communicator) return {ncclInvalidArgument, "comm argument is no communicator"};
    if (Outcome o = call.communicator->CheckUsable(); !o.ok()) return o;
    if (Outcome o = CheckArguments(*call.communicator, arguments); !o.ok()) return o;
    Builder builder(*call.communicator, arguments);
    if (Outcome o = build(builder); !o.ok()) return o;
    call.operation = std::move(builder.operation);
    if (call.operation.out.empty() && call.operation.in.empty()) return {};
    return Submit(std::move(call));
  });
}

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

// Each rank reduces all elements itself. All ranks sum in the same order of ranks, so they get the
// same result to the last bit.
Outcome BuildAllReduce(Builder& call, ncclRedOp_t op) {
  const Arguments& a = call.arguments;
  const Reduction reduction{a.type, op, -1};
  if (Outcome o = CheckReduction(reduction); !o.ok()) return o;
  const size_t bytes = a.bytes();
  if (bytes == 0) return {};
  if (Outcome o = call.UseSource(bytes); !o.ok()) return o;
  if (Outcome o = call.UseTarget(bytes); !o.ok()) return o;
  call.signature = SignatureOf(Name::kAllReduce, 0, &reduction);
  for (const int rank : call.Everybody()) call.Send(Kind::kCollective, rank, 0, bytes);
  Incoming& in = call.Receive(Kind::kCollective, call.Everybody(), 0, bytes);
  in.reduction = reduction;
  in.in_place = Overlap(a.from, bytes, a.to, bytes);
  return {};
}

Outcome BuildReduceScatter(Builder& call, ncclRedOp_t op) {
  const Arguments& a = call.arguments;
  const Reduction reduction{a.type, op, (call.rank() + 1) % call.ranks()};
  if (Outcome o = CheckReduction(reduction); !o.ok()) return o;
  const size_t bytes = a.bytes(), all = bytes * static_cast<size_t>(call.ranks());
  if (bytes == 0) return {};
  if (Outcome o = call.UseSource(all); !o.ok()) return o;
  if (Outcome o = call.UseTarget(bytes); !o.ok()) return o;
  call.signature = SignatureOf(Name::kReduceScatter, 0, &reduction);
  for (const int rank : call.Everybody()) {
    call.Send(Kind::kCollective, rank, bytes * static_cast<size_t>(rank), bytes);
  }
  Incoming& in = call.Receive(Kind::kCollective, call.Everybody(), 0, bytes);
  in.reduction = reduction;
  // The rank's own part of the source may be the target, because no other rank reads that part.
  const char* const own =
      static_cast<const char*>(a.from) + bytes * static_cast<size_t>(call.rank());
  in.in_place = a.to != own && Overlap(a.from, all, a.to, bytes);
  return {};
}

Outcome BuildAllGather(Builder& call) {
  const Arguments& a = call.arguments;
  const size_t bytes = a.bytes(), all = bytes * static_cast<size_t>(call.ranks());
  if (bytes == 0) return {};
  if (Outcome o = call.UseSource(bytes); !o.ok()) return o;
  if (Outcome o = call.UseTarget(all); !o.ok()) return o;
  call.signature = SignatureOf(Name::kAllGather, 0, nullptr);
  for (const int rank : call.Everybody()) {
    const size_t at = bytes * static_cast<size_t>(rank);
    if (rank == call.rank() && a.from == static_cast<const char*>(a.to) + at) continue;
    call.Send(Kind::kCollective, rank, 0, bytes);
    call.Receive(Kind::kCollective, {rank}, at, bytes);
  }
  return {};
}

Outcome BuildBroadcast(Builder& call, int root) {
  const Arguments& a = call.arguments;
  if (Outcome o = CheckRank(call, root, "root"); !o.ok()) return o;
  const size_t bytes = a.bytes();
  if (bytes == 0) return {};
  if (Outcome o = call.UseTarget(bytes); !o.ok()) return o;
  call.signature = SignatureOf(Name::kBroadcast, root, nullptr);
  if (call.rank() == root) {
    if (Outcome o = call.UseSource(bytes); !o.ok()) return o;
    for (const int rank : call.Everybody()) {
      if (rank != root || a.from != a.to) call.Send(Kind::kCollective, rank, 0, bytes);
    }
  }
  if (call.rank() != root || a.from != a.to) call.Receive(Kind::kCollective, {root}, 0, bytes);
  return {};
}

Outcome BuildReduce(Builder& call, ncclRedOp_t op, int root) {
  const Arguments& a = call.arguments;
  const Reduction reduction{a.type, op, (root + 1) % call.ranks()};
  if (Outcome o = CheckRank(call, root, "root"); !o.ok()) return o;
  if (Outcome o = CheckReduction(reduction); !o.ok()) return o;
  const size_t bytes = a.bytes();
  if (bytes == 0) return {};
  if (Outcome o = call.UseSource(bytes); !o.ok()) return o;
  call.signature = SignatureOf(Name::kReduce, root, &reduction);
  call.Send(Kind::kCollective, root, 0, bytes);
  if (call.rank() != root) return {};
  if (Outcome o = call.UseTarget(bytes); !o.ok()) return o;
  call.Receive(Kind::kCollective, call.Everybody(), 0, bytes).reduction = reduction;
  return {};
}

}  // namespace
}  // namespace hostgpu::nccl

using namespace hostgpu::nccl;

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Communicate({from, nullptr, count, type, comm, stream}, [&](Builder& call) -> Outcome {
    if (Outcome o = CheckRank(call, peer, "peer"); !o.ok()) return o;
    const size_t bytes = call.arguments.bytes();
    if (Outcome o = call.UseSource(bytes); !o.ok()) return o;
    call.Send(Kind::kPointToPoint, peer, 0, bytes);
    return {};
  });
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Communicate({nullptr, to, count, type, comm, stream}, [&](Builder& call) -> Outcome {
    if (Outcome o = CheckRank(call, peer, "peer"); !o.ok()) return o;
    const size_t bytes = call.arguments.bytes();
    if (Outcome o = call.UseTarget(bytes); !o.ok()) return o;
    call.Receive(Kind::kPointToPoint, {peer}, 0, bytes);
    return {};
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Communicate({from, to, count, type, comm, stream},
                     [&](Builder& call) { return BuildAllReduce(call, op); });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Communicate({from, to, count, type, comm, stream},
                     [&](Builder& call) { return BuildReduceScatter(call, op); });
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Communicate({from, to, count, type, comm, stream},
                     [&](Builder& call) { return BuildAllGather(call); });
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Communicate({from, to, count, type, comm, stream},
                     [&](Builder& call) { return BuildBroadcast(call, root); });
}

ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Communicate({from, to, count, type, comm, stream},
                     [&](Builder& call) { return BuildReduce(call, op, root); });
}
