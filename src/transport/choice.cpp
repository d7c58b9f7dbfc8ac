#include "transport/choice.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <optional>
#include <utility>

#include "base/text.h"
#include "cuda/resources.h"

namespace ucudnn::transport {
namespace {

constexpr Transport kTransports[] = {Transport::kAuto, Transport::kNccl, Transport::kPeer,
                                     Transport::kLoopback};

struct Pair {
  int first, second;
  std::string Ranks() const {
    return "ranks " + std::to_string(first) + " and " + std::to_string(second);
  }
};

// Returns the first pair of ranks for which `holds` returns true.
template <class Holds>
std::optional<Pair> FirstPair(std::span<const RankFacts> ranks, Holds holds) {
  for (size_t second = 1; second < ranks.size(); ++second) {
    for (size_t first = 0; first < second; ++first) {
      if (holds(ranks[first], ranks[second])) {
        return Pair{static_cast<int>(first), static_cast<int>(second)};
      }
    }
  }
  return std::nullopt;
}

// For each property on which the choice depends: the first pair of ranks with this property, which
// messages name.
struct Pairs {
  explicit Pairs(std::span<const RankFacts> ranks) {
    const auto same_process = [](const RankFacts& a, const RankFacts& b) {
      return a.host == b.host && a.process == b.process;
    };
    wanting_others = FirstPair(
        ranks, [](const RankFacts& a, const RankFacts& b) { return a.wanted != b.wanted; });
    on_hosts =
        FirstPair(ranks, [](const RankFacts& a, const RankFacts& b) { return a.host != b.host; });
    on_processes = FirstPair(
        ranks, [&](const RankFacts& a, const RankFacts& b) { return !same_process(a, b); });
    on_one_device = FirstPair(
        ranks, [](const RankFacts& a, const RankFacts& b) { return a.device == b.device; });
    in_one_context = FirstPair(ranks, [&](const RankFacts& a, const RankFacts& b) {
      return same_process(a, b) && a.device == b.device;
    });
  }

  std::optional<Pair> wanting_others, on_hosts, on_processes, on_one_device, in_one_context;
};

Status CheckNccl(const Pairs& pairs) {
  if (!pairs.on_one_device) return Status::Ok();
  return Status::Error(pairs.on_one_device->Ranks() +
                       " share one GPU, which NCCL refuses: loopback serves there, for tests");
}

Status CheckPeer(const Pairs& pairs) {
  if (pairs.on_processes) {
    return Status::Error(pairs.on_processes->Ranks() +
                         " are different processes: the transport peer is for threads of one");
  }
  if (!pairs.on_one_device) return Status::Ok();
  return Status::Error(pairs.on_one_device->Ranks() +
                       " share one GPU, and the transport peer tells ranks apart by theirs: "
                       "loopback serves there");
}

// Ranks that share a context must not use loopback: freeing memory waits for all streams of the
// context, including another rank's streams, which may be waiting for words in shared memory
// (lanes.h).
Status CheckLoopback(const Pairs& pairs) {
  if (pairs.on_hosts) {
    return Status::Error(pairs.on_hosts->Ranks() +
                         " are on different hosts or in different containers, which loopback does "
                         "not reach");
  }
  if (!pairs.on_processes || !pairs.in_one_context) return Status::Ok();
  return Status::Error(pairs.in_one_context->Ranks() +
                       " are threads of one process with one GPU, and " +
                       pairs.on_processes->Ranks() +
                       " are different processes: loopback takes all ranks from one process, or "
                       "one for each of its GPUs");
}

std::string Hex(const char* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string FirstWordOf(const char* path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::string TargetOf(const char* link) {
  char target[PATH_MAX] = {};
  const ssize_t length = readlink(link, target, sizeof target);
  return length > 0 ? std::string(target, length) : "";
}

}  // namespace

std::string RankFacts::Text() const {
  return Join({host, process, device, TransportName(wanted)}, "\n");
}

Result<RankFacts> RankFacts::Parse(std::string_view text) {
  const std::vector<std::string> words = Split(text, '\n');
  if (words.size() == 4) {
    for (const Transport transport : kTransports) {
      if (words[3] == TransportName(transport)) {
        return RankFacts{words[0], words[1], words[2], transport};
      }
    }
  }
  return Status::Error("a rank tells what is not understood: " + Quoted(text));
}

Result<RankFacts> OwnFacts(const cuda::Driver& driver, Transport wanted) {
  CUdevice device = 0;
  CUuuid uuid = {};
  UCUDNN_RETURN_IF_ERROR(
      cuda::DriverStatus(driver, driver.cuCtxGetDevice(&device), "asking for the device"));
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver, driver.cuDeviceGetUuid(&uuid, device),
                                            "asking for the device's identity"));
  const std::string boot = FirstWordOf("/proc/sys/kernel/random/boot_id");
  if (boot.empty()) return Status::Error("the machine's identity cannot be read");
  RankFacts facts;
  facts.host = boot + " " + TargetOf("/proc/self/ns/pid");
  facts.process = std::to_string(getpid());
  // The boot id of the host is included because devices of the CPU stand-in have the same UUIDs on
  // all machines.
  facts.device = boot + " " + Hex(uuid.bytes, sizeof uuid.bytes);
  facts.wanted = wanted;
  return facts;
}

Result<Choice> ChooseTransport(std::span<const RankFacts> ranks) {
  const Pairs pairs(ranks);
  if (pairs.wanting_others) {
    const auto [first, second] = *pairs.wanting_others;
    return Status::Error("rank " + std::to_string(first) + " wants the transport " +
                         TransportName(ranks[first].wanted) + " and rank " +
                         std::to_string(second) + " wants " + TransportName(ranks[second].wanted));
  }
  Choice choice;
  choice.transport = ranks.empty() ? Transport::kPeer : ranks[0].wanted;
  switch (choice.transport) {
    case Transport::kNccl:
      UCUDNN_RETURN_IF_ERROR(CheckNccl(pairs));
      return choice;
    case Transport::kPeer:
      UCUDNN_RETURN_IF_ERROR(CheckPeer(pairs));
      return choice;
    case Transport::kLoopback:
      UCUDNN_RETURN_IF_ERROR(CheckLoopback(pairs));
      if (!pairs.on_processes) choice.transport = Transport::kPeer;
      return choice;
    default:
      break;
  }
  if (!pairs.on_one_device) {
    choice.transport = pairs.on_processes ? Transport::kNccl : Transport::kPeer;
    return choice;
  }
  const std::string why = pairs.on_one_device->Ranks() + " share one GPU, which NCCL refuses";
  if (const Status refused = CheckLoopback(pairs); !refused.ok()) {
    return Status::Error(why + "; and " + refused.message());
  }
  choice.transport = pairs.on_processes ? Transport::kLoopback : Transport::kPeer;
  choice.note = why + ": they exchange by " + TransportName(choice.transport) + ", for tests";
  return choice;
}

}  // namespace ucudnn::transport
