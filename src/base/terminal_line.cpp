#include "base/terminal_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <optional>

namespace ucudnn {
namespace {

constexpr char kBegin[] = "\r\033[K";  // moves to the first column and erases the line
constexpr int kColumns = 80;  // width to assume for a terminal that does not report its width

// Returns none if `descriptor` is not a terminal.
std::optional<int> ColumnsOf(int descriptor) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0) return std::nullopt;
  return size.ws_col > 0 ? size.ws_col : kColumns;
}

// Returns whether another process group is in the foreground of the terminal. Returns false if
// `descriptor` is not this process's controlling terminal.
bool IsInBackground(int descriptor) {
  const pid_t foreground = tcgetpgrp(descriptor);
  return foreground > 0 && foreground != getpgrp();
}

void Write(int descriptor, std::string_view text) {
  // If the write fails, there is no other place to report that.
  [[maybe_unused]] const ssize_t written = write(descriptor, text.data(), text.size());
}

}  // namespace

bool TerminalLine::IsTerminal() const { return ColumnsOf(descriptor_).has_value(); }

void TerminalLine::Show(std::string_view text) noexcept {
  try {
    const std::optional<int> columns = ColumnsOf(descriptor_);
    if (!columns) return;
    if (IsInBackground(descriptor_)) return Erase();
    const std::string line = kBegin + FitToColumns(text, *columns);
    // TryLock fails if another thread shows a text now, or did so when this process was forked from
    // its parent.
    if (!mutex_.TryLock()) return;
    const MutexLock lock(mutex_, MutexLock::kAdopt);
    shown_by_ = getpid();
    Write(descriptor_, line);
  } catch (...) {
  }
}

void TerminalLine::Erase() noexcept {
  // In a forked child the parent's text is not erased. The mutex is locked only after this check,
  // because a fork may have left it locked forever in the child.
  if (const pid_t by = shown_by_; by == 0 || by != getpid() || !ColumnsOf(descriptor_)) return;
  MutexLock lock(mutex_);
  if (shown_by_.exchange(0) != 0) Write(descriptor_, kBegin);
}

void TerminalLine::Print(std::string_view text) noexcept {
  if (!ColumnsOf(descriptor_)) return;
  try {
    const std::string line = std::string(text) + "\n";
    Erase();
    Write(descriptor_, line);
  } catch (...) {
  }
}

std::string FitToColumns(std::string_view text, int columns) {
  std::string line;
  int used = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xc0) == 0x80;  // a continuation byte of UTF-8
    if (!continues && ++used >= columns) break;
    line += byte < ' ' || byte == 0x7f ? ' ' : c;
  }
  return line;
}

}  // namespace ucudnn
