// Passes on to rank 0 what is typed at this process's terminal. Rank 0 has a session of its own,
// and therefore cannot read the terminal itself. Used from main's thread only; no function waits.
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

  // If standard input is no terminal, passes nothing on, and reader() is standard input itself.
  Status Open();
  int reader() const { return reader_; }
  void CloseReader();  // to be called when rank 0 has its copy

  // Descriptors to poll; -1 if there is nothing to do now. Only a job in the foreground may read
  // its terminal.
  int wants_to_read() const;
  int wants_to_write() const;
  void Read();
  void Write();

 private:
  void Close();

  // The ends of a pipe. The writer is -1 when there is nothing more to pass on.
  int reader_ = -1, writer_ = -1;
  bool owns_reader_ = false;
  std::string typed_;
};

}  // namespace ucudnn::command
