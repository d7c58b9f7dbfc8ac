// All that ranks started: a rank is a session, and what it starts belongs to it, in whichever
// process group, unless it makes itself another session as daemons do. A session's number stays
// taken for as long as one of its processes is not reaped. Thread-safe.
#pragma once

#include <sys/types.h>

#include <vector>

namespace ucudnn::command {

// To every process of these sessions. Where /proc cannot be read, to those of their first groups.
void SignalSessions(const std::vector<pid_t>& sessions, int signal);

// Whether a process of theirs lives, which only /proc tells.
bool AnyLives(const std::vector<pid_t>& sessions);

}  // namespace ucudnn::command
