// Passes on what is typed at this process's terminal to rank 0, which has a session of its own and
// therefore cannot read the terminal itself. For use from main's thread only; nothing here waits.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn::command {

class TerminalInput {
 public:
  TerminalInput() = default;
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;
  ~TerminalInput();

  // If standard input is no terminal, nothing is passed on and `reader()` is standard input.
  Status Open();
  int reader() const { return reader_; }
  void CloseReader();  // to be called once rank 0 has the reader

  // Descriptors to poll; -1: not now. Only a job in the foreground may read its terminal.
  int wants_to_read() const;
  int wants_to_write() const;
  void Read();
  void Write();

 private:
  void Close();

  // Ends of a pipe; the writer is -1 once there is nothing to pass on.
  int reader_ = -1, writer_ = -1;
  bool owns_reader_ = false;
  std::string typed_;
};

}  // namespace ucudnn::command
