// Passes on to rank 0 what is typed at this process's terminal. Rank 0 cannot read the terminal
// itself, because it is in another session. Used from main's thread only; no function waits.
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

  // If standard input is a terminal, opens a pipe, whose read end reader() is. Otherwise reader()
  // is standard input itself, and nothing is passed on.
  Status Open();
  int reader() const { return reader_; }
  void CloseReader();  // to be called when rank 0 has inherited reader()

  // The descriptors to poll before Read() and Write(); -1 if there is nothing to read or write now.
  // In the background there is nothing to read, because only a foreground job may read a terminal.
  int wants_to_read() const;
  int wants_to_write() const;
  void Read();
  void Write();

 private:
  void Close();

  // The ends of the pipe, or standard input and -1. writer_ is also -1 after the end of the input.
  int reader_ = -1, writer_ = -1;
  bool owns_reader_ = false;
  std::string typed_;
};

}  // namespace ucudnn::command
