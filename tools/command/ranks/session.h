// All processes that ranks started. A rank has a session, to which all processes that it starts
// belong, whatever their process group, unless they make a session of their own as daemons do. A
// session's number stays reserved until all its processes are reaped. Thread-safe.
#pragma once

#include <sys/types.h>

#include <vector>

namespace ucudnn::command {

// Sends a signal to every process of these sessions. If /proc cannot be read, sends it to the
// sessions' first process groups.
void SignalSessions(const std::vector<pid_t>& sessions, int signal);

// Returns whether a process of these sessions lives. Without /proc, returns false.
bool AnyLives(const std::vector<pid_t>& sessions);

}  // namespace ucudnn::command
