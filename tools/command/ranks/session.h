// All processes that ranks started. Each rank has a session. All processes that the rank starts
// belong to this session, whatever their process group; only daemons make sessions of their own. A
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
