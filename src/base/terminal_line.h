// A line on a terminal that is rewritten again and again to show what a long operation is doing.
// Thread-safe. Never throws, and ignores errors of the terminal. Each text is one write, so nothing
// stays in a buffer. A forked child does not erase its parent's text unless the child shows a text
// of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <string_view>

#include "base/mutex.h"

namespace ucudnn {

class TerminalLine {
 public:
  // Nothing is written while `descriptor` is not a terminal. Each call checks that, because at any
  // time the program may open another file with this number.
  explicit TerminalLine(int descriptor) : descriptor_(descriptor) {}

  // Returns whether `descriptor` is a terminal now.
  bool IsTerminal() const;
  // Replaces the shown text by `text`, cut to the terminal's width. If the process runs in the
  // background, only erases the shown text, because the foreground program uses the terminal.
  void Show(std::string_view text) noexcept;
  // Erases the text that is shown.
  void Erase() noexcept;
  // Erases the shown text, and writes `text` as a line that is not rewritten later.
  void Print(std::string_view text) noexcept;

 private:
  const int descriptor_;
  Mutex mutex_;
  std::atomic<pid_t> shown_by_ = 0;  // the process that shows a text now; 0: none
};

// Returns `text` cut to one line of a terminal of `columns` columns, without unprintable bytes. The
// last column stays free, because some terminals begin a new line after it.
std::string FitToColumns(std::string_view text, int columns);

}  // namespace ucudnn
