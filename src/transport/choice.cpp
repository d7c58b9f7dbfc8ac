#include "transport/choice.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <functional>
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

// The first two ranks for which `holds`.
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

const char* NameOf(Transport transport) {
  switch (transport) {
    case Transport::kNccl:
      return "nccl";
    case Transport::kPeer:
      return "peer";
    case Transport::kLoopback:
      return "loopback";
    default:
      return "auto";
  }
}

std::string RankFacts::Text() const { return Join({host, process, device, NameOf(wanted)}, "\n"); }

Result<RankFacts> RankFacts::Parse(std::string_view text) {
  const std::vector<std::string> words = Split(text, '\n');
  if (words.size() == 4) {
    for (const Transport transport : kTransports) {
      if (words[3] == NameOf(transport)) {
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
  // Devices of the CPU stand-in have the same identities on all machines.
  facts.device = boot + " " + Hex(uuid.bytes, sizeof uuid.bytes);
  facts.wanted = wanted;
  return facts;
}

Result<Choice> ChooseTransport(std::span<const RankFacts> ranks) {
  const auto differ = [&](auto member) {
    return FirstPair(ranks, [=](const RankFacts& a, const RankFacts& b) {
      return std::invoke(member, a) != std::invoke(member, b);
    });
  };
  if (const auto pair = differ(&RankFacts::wanted)) {
    return Status::Error("rank " + std::to_string(pair->first) + " wants the transport " +
                         NameOf(ranks[pair->first].wanted) + " and rank " +
                         std::to_string(pair->second) + " wants " +
                         NameOf(ranks[pair->second].wanted));
  }
  const auto other_host = differ(&RankFacts::host);
  const auto other_process = FirstPair(ranks, [](const RankFacts& a, const RankFacts& b) {
    return a.host != b.host || a.process != b.process;
  });
  const auto same_device =
      FirstPair(ranks, [](const RankFacts& a, const RankFacts& b) { return a.device == b.device; });
  // Streams of one context that wait for words would wait for each other's ranks wherever one of
  // these frees memory.
  const auto loopback_refused = [&]() -> Status {
    if (other_host) {
      return Status::Error(other_host->Ranks() +
                           " are on different hosts or in different containers, which loopback "
                           "does not reach");
    }
    if (!other_process || !same_context) return Status::Ok();
    return Status::Error(same_context->Ranks() + " are threads of one process with one GPU, and " +
                         other_process->Ranks() +
                         " are different processes: loopback takes all ranks from one process, or "
                         "one for each of its GPUs");
  };
  Choice choice;
  choice.one_process = !other_process;
  choice.transport = ranks.empty() ? Transport::kPeer : ranks[0].wanted;
  switch (choice.transport) {
    case Transport::kAuto:
      if (!same_device) {
        choice.transport = other_process ? Transport::kNccl : Transport::kPeer;
        return choice;
      }
      if (const Status refused = loopback_refused(); !refused.ok()) {
        return Status::Error(same_device->Ranks() + " share one GPU, which NCCL refuses; and " +
                             refused.message());
      }
      choice.transport = Transport::kLoopback;
      choice.note = same_device->Ranks() +
                    " share one GPU, which NCCL refuses: they exchange by loopback, through the "
                    "host's memory, which is meant for tests";
      return choice;
    case Transport::kNccl:
      if (!same_device) return choice;
      return Status::Error(same_device->Ranks() +
                           " share one GPU, which NCCL refuses: loopback serves there, for tests");
    case Transport::kPeer:
      if (other_process) {
        return Status::Error(other_process->Ranks() +
                             " are different processes: the transport peer is for threads of one");
      }
      if (!same_device) return choice;
      return Status::Error(same_device->Ranks() +
                           " share one GPU, and the transport peer tells ranks apart by theirs: "
                           "loopback serves there");
    case Transport::kLoopback:
      UCUDNN_RETURN_IF_ERROR(loopback_refused());
      return choice;
  }
  return choice;
}

}  // namespace ucudnn::transport
