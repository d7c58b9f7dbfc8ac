// How a rank other than 0 enters the job: it finds rank 0, connects, and greets it. Rank 0 uses the
// same functions to ask who meets at its place. Functions block, but no longer than the times of
// the meeting and of the resolver allow. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "transport/connection.h"
#include "transport/meeting.h"
#include "transport/meeting_file.h"
#include "transport/sockets.h"

namespace ucudnn::transport {

// The result of one attempt to enter the job.
struct Answer {
  enum Kind {  // if addresses answer differently, the smallest kind counts
    kAccepted,
    kRefused,      // `text` is the line of the job's failure
    kOtherToken,   // the listening process belongs to another job
    kNoHub,        // the listening process is not a rank 0, or does not answer
    kNobody,       // nobody listens at the address, or not yet
    kUnreachable,  // `text` says why
  };
  Kind kind = kNobody;
  std::string text;
  std::unique_ptr<Connection> connection;  // set if accepted
};

// Connects to `address` and sends the greeting of `meeting`'s rank with `token`. Connecting may
// take times.handshake, and so may the wait for the answer.
Answer AskOnce(const SocketAddress& address, const Meeting& meeting, const std::string& token);

// Returns whether the job that wrote `file` still admits ranks.
bool IsMeetingNow(const MeetingFile& file, const Meeting& meeting);

// Tries until rank 0 has accepted this rank. An error is a line that names this rank and the
// obstacle. If rank 0 does not listen yet, tries until the timeout, and warns once. If the place
// cannot be reached, or no rank 0 answers there, tries for times.unreachable.
Result<std::unique_ptr<Connection>> Enter(const Meeting& meeting);

}  // namespace ucudnn::transport
