// The socket on which rank 0 listens for the other ranks. Thread-safe.
#pragma once

#include <string>

#include "base/status.h"
#include "transport/descriptor.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

struct Door {
  Descriptor listening;  // empty in a job of one rank
  std::string token;     // the meeting's token, or a random one that the meeting's file contains
};

// Listens at the place of `meeting`, which must be the meeting of rank 0. At tcp://host:port it
// listens on all interfaces if there is a token and the host is not a loopback address, otherwise
// only on the loopback interface. At file:PATH it listens on all interfaces, at a free port, and
// writes the file, which the caller removes (RemoveMeetingFile). Fails if another job uses the
// address or the file. Replaces a file that was left by a job that has ended.
Result<Door> OpenDoor(const Meeting& meeting);

}  // namespace ucudnn::transport
