// Finds the processes that ranks started, by their sessions. Each rank leads a session. A process
// that the rank starts belongs to this session, whatever its process group, unless it makes a new
// session, as daemons do. A session's id stays reserved until all its processes are reaped.
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <vector>

namespace ucudnn::command {

// Sends a signal to every process of these sessions. If /proc cannot be read, sends it only to the
// process groups of the session leaders.
void SignalSessions(const std::vector<pid_t>& sessions, int signal);

// Returns whether a process of these sessions lives. Without /proc, returns false.
bool AnyLives(const std::vector<pid_t>& sessions);

}  // namespace ucudnn::command
