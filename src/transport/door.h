// The socket on which rank 0 listens for the others. Thread-safe.
#pragma once

#include <string>

#include "base/status.h"
#include "transport/descriptor.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

struct Door {
  Descriptor listening;  // none in a job of one rank
  std::string token;     // the meeting's token, or a random one that the meeting's file holds
};

// Listens at the place of `meeting` (rank 0's). At tcp://host:port it listens on all interfaces if
// there is a token and the host is no loopback address, otherwise on the loopback interface alone.
// At file:PATH it listens on all interfaces, at a free port, and writes the file; the caller
// removes it (RemoveMeetingFile). Refuses an address or a file that another job uses. A file that a
// finished job has left is replaced.
Result<Door> OpenDoor(const Meeting& meeting);

}  // namespace ucudnn::transport
