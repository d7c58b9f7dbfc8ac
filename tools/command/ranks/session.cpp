#include "command/ranks/session.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>

#include "base/text_file.h"
#include "command/numbers.h"

namespace ucudnn::command {
namespace {

struct SessionMember {
  pid_t pid, group;
};

// Reads the process group and session of a process. Returns false if the process has ended, or
// cannot be read.
bool ReadStat(const std::filesystem::path& process, pid_t& group, pid_t& session) {
  const Result<std::string> read = ReadTextFile(process / "stat");
  if (!read.ok()) return false;
  const std::string& text = *read;
  // The fields follow the program's name, which is in parentheses and may contain parentheses.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream fields(text.substr(name_end + 1));
  char state = 0;
  pid_t parent = -1;
  fields >> state >> parent >> group >> session;
  return !fields.fail() && state != 'Z' && state != 'X';
}

std::vector<SessionMember> MembersOf(const std::vector<pid_t>& sessions) {
  std::vector<SessionMember> members;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc", error); !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    const auto pid = ParseNumber<pid_t>(name, 1);
    if (!pid) continue;
    SessionMember member{*pid, -1};
    pid_t session = -1;
    if (!ReadStat(at->path(), member.group, session)) continue;
    if (std::find(sessions.begin(), sessions.end(), session) != sessions.end()) {
      members.push_back(member);
    }
  }
  return members;
}

}  // namespace

void SignalSessions(const std::vector<pid_t>& sessions, int signal) {
  for (const pid_t session : sessions) kill(-session, signal);
  for (const SessionMember& member : MembersOf(sessions)) {
    const bool had_it = std::find(sessions.begin(), sessions.end(), member.group) != sessions.end();
    if (!had_it) kill(member.pid, signal);
  }
}

bool AnyLives(const std::vector<pid_t>& sessions) { return !MembersOf(sessions).empty(); }

}  // namespace ucudnn::command
