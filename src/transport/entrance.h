// How a rank other than 0 gets into the job: it finds rank 0, connects, and greets it.
// Blocks, within the times of the meeting. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "transport/connection.h"
#include "transport/meeting.h"
#include "transport/meeting_file.h"
#include "transport/sockets.h"

namespace ucudnn::transport {

// What came of one attempt.
struct Answer {
  enum Kind {  // what tells more comes first
    kAccepted,
    kRefused,      // `text` is the line of the job's failure
    kOtherToken,   // another job
    kNoHub,        // who listens there is none of ours, or does not answer
    kNobody,       // nobody listens there (yet)
    kUnreachable,  // `text` says why
  };
  Kind kind = kNobody;
  std::string text;
  std::unique_ptr<Connection> connection;  // where accepted
};

// Connects and greets with `meeting`'s rank and `token`. Takes `handshake` for each at most.
Answer AskOnce(const SocketAddress& address, const Meeting& meeting, const std::string& token);

// Whether the job that wrote `file` still lets ranks in.
bool IsMeetingNow(const MeetingFile& file, const Meeting& meeting);

// Tries until rank 0 has accepted this rank. The error is a line that names this rank and what it
// met with. A rank 0 that does not listen yet is waited for until the timeout, with one warning; a
// place that cannot be reached or does not answer as a hub does, for times.unreachable.
Result<std::unique_ptr<Connection>> Enter(const Meeting& meeting);

}  // namespace ucudnn::transport
