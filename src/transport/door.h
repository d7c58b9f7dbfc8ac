// Where rank 0 listens for the others. Thread-safe.
#pragma once

#include <string>

#include "base/status.h"
#include "transport/descriptor.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

struct Door {
  Descriptor listening;  // none in a job of one rank, which meets nobody
  std::string token;     // the meeting's, or a random one that the meeting's file holds
};

// Listens where `meeting` (rank 0's) says. At tcp://host:port: with a token on all interfaces,
// unless the host is a loopback address, and without one on the loopback interface alone. At
// file:PATH: on all interfaces, at a free port, and writes the file; whoever opened the door
// removes it (RemoveMeetingFile). Refuses an address or a file that another job uses. A file of a
// job that meets no more is replaced.
Result<Door> OpenDoor(const Meeting& meeting);

}  // namespace ucudnn::transport
