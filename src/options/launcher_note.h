// Notes that a rank sends to its launcher, the `ucudnn run --ranks` that started the rank. If the
// launcher gets a note, its exit code is 1. After kFailed the launcher also ends the ranks; the
// library itself never ends a process. Thread-safe. TellLauncher never throws and never waits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ucudnn {

// The variable that `ucudnn run --ranks` sets for its ranks. Its value is the name of the
// launcher's abstract socket.
inline constexpr const char* kLauncherSocketVariable = "UCUDNN_LAUNCHER";
inline constexpr size_t kLongestLauncherNote = 1024;

enum class LauncherNote {
  kFailed,   // the job cannot go on, so the launcher ends its ranks
  kUnequal,  // the job went wrong, but its ranks go on and end by themselves
};

// Sends a note to the launcher. Does nothing unless `ucudnn run --ranks` started this process.
// `line` is cut to kLongestLauncherNote bytes.
void TellLauncher(LauncherNote note, std::string_view line) noexcept;

// Sends the note of `rank` to the launcher that listens on `socket`.
void TellLauncher(const std::string& socket, LauncherNote note, int rank,
                  std::string_view line) noexcept;

// A note that the launcher received.
struct ReceivedNote {
  LauncherNote note = LauncherNote::kFailed;
  int rank = -1;
  std::string line;  // with control characters replaced by spaces
};
std::optional<ReceivedNote> ReadLauncherNote(std::string_view datagram);

}  // namespace ucudnn
