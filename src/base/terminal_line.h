// A line on a terminal that is rewritten in place. It says what a long operation is doing, and its
// progress. Thread-safe. Never throws, never fails the caller; a text is one write, so nothing
// stays in a buffer. A forked child does not touch its parent's line.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <string_view>

#include "base/mutex.h"

namespace ucudnn {

class TerminalLine {
 public:
  // Nothing is written if `descriptor` is no terminal, now or after the program has opened another
  // file under its number.
  explicit TerminalLine(int descriptor) : descriptor_(descriptor) {}

  // Returns whether `descriptor` is a terminal now, as the system says.
  bool IsTerminal() const;
  // Shows `text` in place of the former text, cut to the terminal's width. Programs in the
  // background show nothing, because the foreground program uses the terminal.
  void Show(std::string_view text) noexcept;
  // Erases the text that is shown.
  void Erase() noexcept;
  // Writes a line that stays, in place of the text that is shown.
  void Print(std::string_view text) noexcept;

 private:
  const int descriptor_;
  Mutex mutex_;
  std::atomic<pid_t> shown_by_ = 0;  // the process that shows a text; 0: none
};

// Returns `text` cut to one line of a terminal of `columns` columns: without unprintable bytes, and
// one column short, because some terminals go to the next line after the last column.
std::string FitToColumns(std::string_view text, int columns);

}  // namespace ucudnn
