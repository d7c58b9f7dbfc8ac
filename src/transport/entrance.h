// The entrance of a rank other than 0: it finds rank 0, connects, and greets it. Blocks, within the
// times of the meeting. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "transport/connection.h"
#include "transport/meeting.h"
#include "transport/meeting_file.h"
#include "transport/sockets.h"

namespace ucudnn::transport {

// The outcome of one attempt.
struct Answer {
  enum Kind {  // the more telling ones first
    kAccepted,
    kRefused,      // `text` is the line of the job's failure
    kOtherToken,   // another job
    kNoHub,        // the listener is no rank 0, or does not answer
    kNobody,       // nobody listens there (yet)
    kUnreachable,  // `text` says why
  };
  Kind kind = kNobody;
  std::string text;
  std::unique_ptr<Connection> connection;  // set if accepted
};

// Connects and sends the greeting of `meeting`'s rank with `token`. Takes at most `handshake` for
// each.
Answer AskOnce(const SocketAddress& address, const Meeting& meeting, const std::string& token);

// Returns whether the job that wrote `file` still admits ranks.
bool IsMeetingNow(const MeetingFile& file, const Meeting& meeting);

// Tries until rank 0 has accepted this rank. The error is a line that names this rank and the
// obstacle. A rank 0 that does not listen yet is awaited until the timeout, with one warning; a
// place that cannot be reached, or where no rank 0 answers, is retried for times.unreachable.
Result<std::unique_ptr<Connection>> Enter(const Meeting& meeting);

}  // namespace ucudnn::transport
