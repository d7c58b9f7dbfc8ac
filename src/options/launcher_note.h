// Notes of a rank to the `ucudnn run --ranks` that started it, so that the job ends with exit code
// 1: the library itself never ends a process. Thread-safe; never throws, never waits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ucudnn {

// The name of an abstract socket. `ucudnn run --ranks` sets the variable for its ranks alone.
inline constexpr const char* kLauncherSocketVariable = "UCUDNN_LAUNCHER";
inline constexpr size_t kLongestLauncherNote = 1024;

enum class LauncherNote {
  kFailed,   // the job cannot go on: its ranks are ended
  kUnequal,  // the job went wrong, but its ranks end by themselves
};

// Sends a note to the launcher. Does nothing in a process that no `ucudnn run --ranks` started.
// `line` is cut to kLongestLauncherNote bytes.
void TellLauncher(LauncherNote note, std::string_view line) noexcept;

// Sends the note to the launcher that listens on this socket.
void TellLauncher(const std::string& socket, LauncherNote note, int rank,
                  std::string_view line) noexcept;

// A note that the launcher received. Its datagram may have any content.
struct ReceivedNote {
  LauncherNote note = LauncherNote::kFailed;
  int rank = -1;
  std::string line;  // printable
};
std::optional<ReceivedNote> ReadLauncherNote(std::string_view datagram);

}  // namespace ucudnn
