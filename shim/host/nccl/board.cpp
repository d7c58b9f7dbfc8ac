#include "shim/host/nccl/board.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace hostgpu::nccl {
namespace {

constexpr int64_t kSpinNs = 5'000;  // about the time to fall asleep and to wake up again

void PauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

size_t Board::Bytes(int ranks) {
  const auto n = static_cast<size_t>(ranks);
  return kRollBytes + sizeof(Seat) * n + sizeof(Channel) * kKinds * n * n;
}

Board::Board(const File& file, int ranks) : memory_(file, Mapping::Access::kWrite), ranks_(ranks) {
  if (memory_.bytes() < Bytes(ranks)) memory_ = Mapping();
}

void Board::Ring(int rank) const {
  Seat& seat = this->seat(rank);
  seat.bell.fetch_add(1);
  // A thread that increases `sleepers` after this load will see the new value of the bell.
  if (seat.sleepers.load() != 0) {
    syscall(SYS_futex, &seat.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void Board::RingAll() const {
  for (int rank = 0; rank < ranks_; ++rank) Ring(rank);
}

void Board::AwaitBell(int rank, uint32_t seen, int64_t deadline_ns) const {
  Seat& seat = this->seat(rank);
  int64_t now_ns = NowNs();
  for (const int64_t begin_ns = now_ns; now_ns - begin_ns < kSpinNs; now_ns = NowNs()) {
    if (seat.bell.load() != seen || now_ns >= deadline_ns) return;
    PauseBriefly();
  }
  if (now_ns >= deadline_ns) return;
  const int64_t left_ns = deadline_ns - now_ns;
  const timespec timeout{static_cast<time_t>(left_ns / 1'000'000'000),
                         static_cast<long>(left_ns % 1'000'000'000)};
  seat.sleepers.fetch_add(1);
  syscall(SYS_futex, &seat.bell, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  seat.sleepers.fetch_sub(1);
}

}  // namespace hostgpu::nccl
