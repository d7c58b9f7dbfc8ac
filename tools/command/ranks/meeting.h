// What the ranks of a job on this machine need to connect: free ports and a secret, for connections
// to each other, and the socket on which the launcher receives their notes. Used from main's thread
// only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "options/launcher_note.h"

namespace ucudnn::command {

// Returns `count` different TCP ports of the loopback interface that are currently free.
Result<std::vector<int>> FreePorts(int count);

// Returns 32 hexadecimal digits that cannot be guessed.
Result<std::string> RandomWord();

// Receives the notes that ranks send by TellLauncher(). Ignores messages of other users.
class NoteSocket {
 public:
  NoteSocket() = default;
  NoteSocket(const NoteSocket&) = delete;
  NoteSocket& operator=(const NoteSocket&) = delete;
  ~NoteSocket();

  Status Open();
  const std::string& name() const { return name_; }  // the value of UCUDNN_LAUNCHER for the ranks
  int descriptor() const { return descriptor_; }
  // Returns the next note that has arrived; unset if no note is waiting.
  std::optional<ReceivedNote> Receive();

 private:
  std::string name_;
  int descriptor_ = -1;
};

}  // namespace ucudnn::command
