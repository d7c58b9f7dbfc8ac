#include "shim/host/nccl/bootstrap.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "shim/host/hostgpu.h"
#include "shim/host/nccl/bootstrap_root.h"
#include "shim/host/nccl/process_watch.h"
#include "shim/host/nccl/quiet_thread.h"

namespace hostgpu::nccl {
namespace {

constexpr int kLookMs = 100;  // between looks at whether to go on waiting
constexpr uint32_t kIdMagic = 0x4844494e;

bool Random(void* to, size_t bytes) {
  return getrandom(to, bytes, 0) == static_cast<ssize_t>(bytes);
}

// An abstract name: it is no file, and ends with its socket.
socklen_t AddressOf(const IdContent& id, sockaddr_un* address) {
  constexpr char kPrefix[] = "hostgpu-nccl-", kDigits[] = "0123456789abcdef";
  *address = {};
  address->sun_family = AF_UNIX;
  char* to = address->sun_path + 1;
  for (const char* from = kPrefix; *from; ++from) *to++ = *from;
  for (const unsigned char byte : id.name) {
    *to++ = kDigits[byte >> 4];
    *to++ = kDigits[byte & 15];
  }
  return static_cast<socklen_t>(to - reinterpret_cast<char*>(address));
}

IdContent ContentOf(const ncclUniqueId& id) {
  IdContent content;
  std::memcpy(&content, id.internal, sizeof content);
  return content;
}

File NewSocket() { return File(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

void StartRoot(File listener, const IdContent& id) {
  QuietThread([root = BootstrapRoot(std::move(listener), id)]() mutable {
    try {
      root.Serve();
    } catch (const std::bad_alloc&) {
      // Its ranks see their sockets closed.
    }
  }).detach();
}

// One message from the root, once it comes.
Outcome Await(const File& root, const std::atomic<bool>& cancelled, void* data, size_t bytes,
              Received* received) {
  // The process that made the id: sockets that its children inherited do not speak for it.
  ucred maker{};
  socklen_t maker_bytes = sizeof maker;
  getsockopt(root.number(), SOL_SOCKET, SO_PEERCRED, &maker, &maker_bytes);
  const ProcessWatch watch(maker.pid);
  for (;;) {
    pollfd watched{root.number(), POLLIN, 0};
    const int ready = poll(&watched, 1, kLookMs);
    if (cancelled.load()) return {ncclInvalidUsage, "the communicator was aborted"};
    if (ready > 0) break;
    if (watch.Gone()) return {ncclRemoteError, "the process that made the unique id has ended"};
  }
  auto message = ReceiveMessage(root, data, bytes);
  if (!message) return {ncclRemoteError, "the root of the communicator has gone"};
  *received = std::move(*message);
  return {};
}

Outcome ToOutcome(const Ready& ready, size_t bytes) {
  if (bytes != sizeof ready || ready.magic != kBootstrapMagic || ready.result < 0 ||
      ready.result >= ncclNumResults) {
    return {ncclInternalError, "the root of the communicator speaks another language"};
  }
  return {static_cast<ncclResult_t>(ready.result),
          std::string(ready.reason, strnlen(ready.reason, sizeof ready.reason))};
}

Outcome TakeAnswer(const Answer& answer, Received received, int ranks, Membership* membership) {
  if (received.bytes != sizeof answer) {
    Ready refusal;
    std::memcpy(&refusal, &answer, sizeof refusal);
    Outcome refused = ToOutcome(refusal, received.bytes);
    if (refused.ok()) return {ncclInternalError, "an answer of the root is incomplete"};
    return refused;
  }
  if (answer.magic != kBootstrapMagic || received.files.size() != static_cast<size_t>(ranks) + 1) {
    return {ncclSystemError, "descriptors for the memory of all ranks could not be had"};
  }
  membership->board = Board(received.files[0], ranks);
  bool mapped{membership->board};
  for (int rank = 0; rank < ranks; ++rank) {
    membership->members.push_back(answer.members[rank]);
    membership->memories.emplace_back(received.files[rank + 1], Mapping::Access::kRead);
    mapped = mapped && membership->memories.back().data();
  }
  if (!mapped) return {ncclSystemError, "the memory of all ranks could not be mapped"};
  return {};
}

}  // namespace

Outcome NewUniqueId(ncclUniqueId* id) try {
  IdContent content{};
  content.magic = kIdMagic;
  if (!Random(content.name, sizeof content.name) || !Random(content.token, sizeof content.token)) {
    return {ncclSystemError, "the system gives no random numbers"};
  }
  File listener = NewSocket();
  sockaddr_un address;
  const socklen_t bytes = AddressOf(content, &address);
  if (!listener.open() ||
      bind(listener.number(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      listen(listener.number(), kMaxRanks) != 0) {
    return {ncclSystemError,
            "no socket for the ranks of a communicator: " + std::generic_category().message(errno)};
  }
  StartRoot(std::move(listener), content);
  *id = {};
  std::memcpy(id->internal, &content, sizeof content);
  return {};
} catch (const std::system_error&) {
  return {ncclSystemError, "no thread for the ranks of a communicator"};
}

bool IsUniqueId(const ncclUniqueId& id) { return ContentOf(id).magic == kIdMagic; }

uint64_t ThisProcess() {
  static std::mutex mutex;
  static pid_t owner = 0;
  static uint64_t number = 0;
  std::lock_guard lock(mutex);
  if (owner != getpid() && Random(&number, sizeof number)) owner = getpid();
  return number;
}

Outcome Join(const ncclUniqueId& id, const Place& place, const std::atomic<bool>& cancelled,
             Membership* membership) {
  const IdContent content = ContentOf(id);
  const File memory(hostgpuDeviceFile(place.device));
  if (!memory.open()) {
    return {ncclUnhandledCudaError,
            "the memory of device " + std::to_string(place.device) + " cannot be shared"};
  }
  const File root = NewSocket();
  sockaddr_un address;
  const socklen_t bytes = AddressOf(content, &address);
  if (!root.open() ||
      connect(root.number(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    return {ncclSystemError,
            "nobody answers for the unique id (it is used, its process has ended, or it is of "
            "another machine): " +
                std::generic_category().message(errno)};
  }
  Hello hello{kBootstrapMagic, place.ranks, place.rank, place.device, ThisProcess(), {}};
  std::memcpy(hello.token, content.token, sizeof hello.token);
  if (!SendMessage(root, &hello, sizeof hello, {memory.number()})) {
    return {ncclSystemError, "the root of the communicator does not listen"};
  }
  Answer answer;
  Received received;
  if (Outcome o = Await(root, cancelled, &answer, sizeof answer, &received); !o.ok()) return o;
  Outcome taken = TakeAnswer(answer, std::move(received), place.ranks, membership);
  Ready ready{kBootstrapMagic, taken.result, {}};
  SetReason(ready.reason, taken.reason);
  if (!SendMessage(root, &ready, sizeof ready, {}) && taken.ok()) {
    return {ncclRemoteError, "the root of the communicator has gone"};
  }
  if (!taken.ok()) return taken;
  if (Outcome o = Await(root, cancelled, &ready, sizeof ready, &received); !o.ok()) return o;
  return ToOutcome(ready, received.bytes);
}

}  // namespace hostgpu::nccl
