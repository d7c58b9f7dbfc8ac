// All processes that ranks started. A rank is a session, to which the processes that it starts
// belong, in whichever process group, unless they make another session as daemons do. A session's
// number stays reserved while one of its processes is not reaped. Thread-safe.
#pragma once

#include <sys/types.h>

#include <vector>

namespace ucudnn::command {

// Sends a signal to every process of these sessions; if /proc cannot be read, to their first
// process groups.
void SignalSessions(const std::vector<pid_t>& sessions, int signal);

// Returns whether a process of these sessions lives, which only /proc tells.
bool AnyLives(const std::vector<pid_t>& sessions);

}  // namespace ucudnn::command
