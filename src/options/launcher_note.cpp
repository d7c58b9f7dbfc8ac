#include "options/launcher_note.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "options/options.h"

namespace ucudnn {
namespace {

// A datagram begins with one of these marks. A byte for the rank (255: none) and the line follow.
constexpr char kFailedMark = 'F', kUnequalMark = 'U';
constexpr int kNoRank = 255;

}  // namespace

void TellLauncher(LauncherNote note, std::string_view line) noexcept {
  try {
    const Options& options = ProcessOptions();
    TellLauncher(options.launcher_socket, note, options.rank, line);
  } catch (...) {
  }
}

void TellLauncher(const std::string& socket, LauncherNote note, int rank,
                  std::string_view line) noexcept {
  sockaddr_un address{};
  if (socket.empty() || socket.size() + 1 > sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, socket.data(), socket.size());
  char datagram[2 + kLongestLauncherNote];
  datagram[0] = note == LauncherNote::kFailed ? kFailedMark : kUnequalMark;
  datagram[1] = static_cast<char>(rank >= 0 && rank < kNoRank ? rank : kNoRank);
  const size_t length = std::min(line.size(), kLongestLauncherNote);
  std::memcpy(datagram + 2, line.data(), length);
  const int sender = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (sender < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + socket.size());
  // If the launcher has ended, the note is lost.
  [[maybe_unused]] const ssize_t sent = sendto(sender, datagram, 2 + length, MSG_NOSIGNAL,
                                               reinterpret_cast<const sockaddr*>(&address), size);
  close(sender);
}

std::optional<ReceivedNote> ReadLauncherNote(std::string_view datagram) {
  if (datagram.size() < 2 || datagram.size() > 2 + kLongestLauncherNote) return std::nullopt;
  if (datagram[0] != kFailedMark && datagram[0] != kUnequalMark) return std::nullopt;
  ReceivedNote received;
  received.note = datagram[0] == kFailedMark ? LauncherNote::kFailed : LauncherNote::kUnequal;
  const int rank = static_cast<unsigned char>(datagram[1]);
  received.rank = rank == kNoRank ? -1 : rank;
  received.line = datagram.substr(2);
  std::replace_if(
      received.line.begin(), received.line.end(),
      [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return received;
}

}  // namespace ucudnn
