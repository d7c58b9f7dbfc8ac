#include "shim/host/nccl/launch.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "shim/host/hostgpu.h"
#include "shim/host/nccl/driver.h"

namespace hostgpu::nccl {
namespace {

// The calls of one communicator in a group.
struct Part {
  std::shared_ptr<Communicator> communicator;
  std::vector<CUstream> streams;  // the streams of the calls, each stream once
  Operation operation;
  int calls = 0;
};

// The work that a stream or a graph holds.
struct Launched {
  std::shared_ptr<Communicator> communicator;
  Operation operation;
  // The operation's place in turns(). None for captured work, and once the operation has run.
  std::optional<uint64_t> place;

  bool is_held = false;  // true for captured work, which a graph holds

  ~Launched() {
    if (place) communicator->turns().Withdraw(*place);
    if (is_held) communicator->AddHeld(-1);
  }
  // The operation gives up its place when it runs. A captured operation has no place. Two graphs
  // may run a captured operation at once, so for such an operation this function changes no member.
  void Run() {
    communicator->Perform(operation, place ? std::exchange(place, std::nullopt) : place);
  }
};

void Add(Part& part, Call& call) {
  if (std::find(part.streams.begin(), part.streams.end(), call.stream) == part.streams.end()) {
    part.streams.push_back(call.stream);
  }
  for (Outgoing& outgoing : call.operation.out) {
    outgoing.call = part.calls;
    part.operation.out.push_back(outgoing);
  }
  for (Incoming& incoming : call.operation.in) {
    incoming.call = part.calls;
    part.operation.in.push_back(std::move(incoming));
  }
  for (const void* use : call.operation.uses) part.operation.uses.push_back(use);
  ++part.calls;
}

// Checks that messages which a rank sends to itself are received in the same group with the same
// sizes. No other rank could receive them.
Outcome CheckSelf(const Part& part) {
  const int self = part.communicator->rank();
  std::vector<uint64_t> sent, received;
  for (const Outgoing& outgoing : part.operation.out) {
    if (outgoing.kind == Kind::kPointToPoint && outgoing.to == self) sent.push_back(outgoing.bytes);
  }
  for (const Incoming& incoming : part.operation.in) {
    if (incoming.kind == Kind::kPointToPoint && incoming.from[0] == self) {
      received.push_back(incoming.bytes);
    }
  }
  if (sent == received) return {};
  return {ncclInvalidUsage, "rank " + std::to_string(self) + " sends itself " +
                                std::to_string(sent.size()) + " messages and receives " +
                                std::to_string(received.size()) +
                                ", or others: both belong into one group"};
}

// Returns true if the stream captures, so that work enqueued now runs at each launch of a graph
// instead of once.
bool IsCaptured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Outcome Enqueue(Part& part) {
  const CUstream stream = part.streams[0];
  StreamKnot knot(stream, {part.streams.begin() + 1, part.streams.end()});
  if (Outcome o = knot.Join(); !o.ok()) return o;
  const std::vector<const void*> uses = part.operation.uses;
  auto* const launched = new Launched{part.communicator, std::move(part.operation), std::nullopt};
  if (IsCaptured(stream)) {
    launched->is_held = true;
    part.communicator->AddHeld(1);
  } else {
    launched->place = part.communicator->turns().Enlist();
  }
  const hostgpuWork work{[](void* argument) { static_cast<Launched*>(argument)->Run(); },
                         [](void* argument) { delete static_cast<Launched*>(argument); }, launched,
                         uses.data(), uses.size()};
  if (!hostgpuEnqueue(stream, &work)) {
    return {ncclUnhandledCudaError, "the stream does not take the operation"};
  }
  return knot.Part();
}

}  // namespace

Outcome Launch(std::vector<Call> calls) {
  std::vector<Part> parts;
  for (Call& call : calls) {
    auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& other) {
      return other.communicator == call.communicator;
    });
    if (part == parts.end()) part = parts.insert(part, Part{call.communicator, {}, {}, 0});
    Add(*part, call);
  }
  for (const Part& part : parts) {
    if (Outcome o = CheckSelf(part); !o.ok()) return o;
  }
  for (Part& part : parts) {
    const ContextScope scope(part.communicator->context());
    if (!scope.entered()) return {ncclUnhandledCudaError, "the device's context is gone"};
    if (Outcome o = Enqueue(part); !o.ok()) return o;
  }
  return {};
}

}  // namespace hostgpu::nccl
