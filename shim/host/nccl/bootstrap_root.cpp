#include "shim/host/nccl/bootstrap_root.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hostgpu::nccl {
namespace {

constexpr size_t kMostStrangers = 64;
constexpr int kAgainMs = 10;  // when the system is short of descriptors

int32_t PidOf(const File& socket) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket.number(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return 0;
  return credentials.pid;
}

// Every byte is looked at, however early the first difference is.
bool SameToken(const unsigned char* a, const unsigned char* b, size_t bytes) {
  unsigned char difference = 0;
  for (size_t i = 0; i < bytes; ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

std::string Text(int number) { return std::to_string(number); }

}  // namespace

void BootstrapRoot::Serve() {
  Outcome outcome = Gather();
  listener_ = File();
  strangers_.clear();
  if (outcome.ok()) outcome = CheckDevices();
  if (outcome.ok()) {
    std::sort(guests_.begin(), guests_.end(),
              [](const Guest& a, const Guest& b) { return a.hello.rank < b.hello.rank; });
    outcome = HandOut();
  }
  if (!outcome.ok()) return Refuse(outcome);
  const Ready go{kBootstrapMagic, ncclSuccess, {}};
  for (const Guest& guest : guests_) SendMessage(guest.socket, &go, sizeof go, {});
}

// Until all ranks are here.
Outcome BootstrapRoot::Gather() {
  while (guests_.empty() || static_cast<int>(guests_.size()) < guests_[0].hello.ranks) {
    std::vector<pollfd> watched{{listener_.number(), POLLIN, 0}};
    for (const Guest& guest : guests_) watched.push_back({guest.socket.number(), POLLIN, 0});
    for (const File& stranger : strangers_) watched.push_back({stranger.number(), POLLIN, 0});
    if (poll(watched.data(), watched.size(), -1) < 0) continue;
    for (size_t i = 0; i < guests_.size(); ++i) {
      // A rank that waits for its answer says nothing: it is gone.
      if (watched[1 + i].revents == 0) continue;
      return {ncclRemoteError,
              "rank " + Text(guests_[i].hello.rank) + " left while the communicator was made"};
    }
    const size_t first = 1 + guests_.size();
    std::deque<File> still;
    Outcome outcome;
    for (size_t i = 0; i < strangers_.size(); ++i) {
      if (watched[first + i].revents == 0) {
        still.push_back(std::move(strangers_[i]));
      } else if (outcome.ok() && Hear(strangers_[i])) {
        outcome = CheckPlace(guests_.back().hello);
      }
    }
    strangers_ = std::move(still);
    if (!outcome.ok()) return outcome;
    if (watched[0].revents != 0) Accept();
  }
  return {};
}

void BootstrapRoot::Accept() {
  File stranger(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!stranger.open()) {
    const timespec pause{0, kAgainMs * 1'000'000};
    nanosleep(&pause, nullptr);
    return;
  }
  if (strangers_.size() == kMostStrangers) strangers_.pop_front();
  strangers_.push_back(std::move(stranger));
}

// Whether the stranger is a rank of ours, and a guest now.
bool BootstrapRoot::Hear(File& stranger) {
  Hello hello;
  auto received = ReceiveMessage(stranger, &hello, sizeof hello);
  if (!received || received->bytes != sizeof hello || received->files.size() != 1 ||
      hello.magic != kBootstrapMagic || !SameToken(hello.token, id_.token, sizeof id_.token)) {
    return false;
  }
  const int32_t pid = PidOf(stranger);
  guests_.push_back({std::move(stranger), std::move(received->files[0]), hello, pid});
  return true;
}

// Of the guest that came last.
Outcome BootstrapRoot::CheckPlace(const Hello& hello) const {
  if (hello.ranks < 1 || hello.ranks > kMaxRanks || hello.rank < 0 || hello.rank >= hello.ranks) {
    return {ncclInvalidArgument,
            "rank " + Text(hello.rank) + " of " + Text(hello.ranks) + " cannot be"};
  }
  const int ranks = guests_[0].hello.ranks;
  if (hello.ranks != ranks) {
    return {ncclInvalidUsage, "rank " + Text(guests_[0].hello.rank) + " joins a communicator of " +
                                  Text(ranks) + " ranks, rank " + Text(hello.rank) + " one of " +
                                  Text(hello.ranks)};
  }
  const auto same = std::count_if(guests_.begin(), guests_.end(), [&](const Guest& guest) {
    return guest.hello.rank == hello.rank;
  });
  if (same > 1) return {ncclInvalidUsage, "rank " + Text(hello.rank) + " joined twice"};
  return {};
}

Outcome BootstrapRoot::CheckDevices() const {
  for (const Guest& a : guests_) {
    for (const Guest& b : guests_) {
      if (a.hello.rank < b.hello.rank && a.hello.process == b.hello.process &&
          a.hello.device == b.hello.device) {
        return {ncclInvalidUsage, "Duplicate GPU detected : rank " + Text(a.hello.rank) +
                                      " and rank " + Text(b.hello.rank) + " both on CUDA device " +
                                      Text(a.hello.device) + " of process " + Text(a.pid)};
      }
    }
  }
  return {};
}

// One rank after the other: the system limits how many descriptors are on their way.
Outcome BootstrapRoot::HandOut() {
  const File board = NewSharedFile(Board::Bytes(static_cast<int>(guests_.size())));
  if (!board.open()) return {ncclSystemError, "no shared memory for the communicator"};
  Answer answer{kBootstrapMagic, ncclSuccess, {}, {}};
  std::vector<int> files{board.number()};
  for (size_t rank = 0; rank < guests_.size(); ++rank) {
    const Guest& guest = guests_[rank];
    answer.members[rank] = {guest.hello.process, guest.pid, guest.hello.device};
    files.push_back(guest.memory.number());
  }
  for (const Guest& guest : guests_) {
    if (!SendMessage(guest.socket, &answer, sizeof answer, files)) {
      return {ncclRemoteError,
              "rank " + Text(guest.hello.rank) + " cannot be told of the communicator"};
    }
    if (Outcome o = AwaitReady(guest); !o.ok()) return o;
  }
  return {};
}

Outcome BootstrapRoot::AwaitReady(const Guest& guest) {
  const std::string name = "rank " + Text(guest.hello.rank);
  pollfd watched{guest.socket.number(), POLLIN, 0};
  while (poll(&watched, 1, -1) < 0) {
  }
  Ready ready;
  const auto received = ReceiveMessage(guest.socket, &ready, sizeof ready);
  if (!received || received->bytes != sizeof ready || ready.magic != kBootstrapMagic) {
    return {ncclRemoteError, name + " left while the communicator was made"};
  }
  if (ready.result == ncclSuccess) return {};
  return {ncclRemoteError,
          name + ": " + std::string(ready.reason, strnlen(ready.reason, sizeof ready.reason))};
}

// Whatever a rank waits for now, this is an answer to it.
void BootstrapRoot::Refuse(const Outcome& outcome) {
  Ready refusal{kBootstrapMagic, outcome.result, {}};
  SetReason(refusal.reason, outcome.reason);
  for (const Guest& guest : guests_) SendMessage(guest.socket, &refusal, sizeof refusal, {});
}

}  // namespace hostgpu::nccl
