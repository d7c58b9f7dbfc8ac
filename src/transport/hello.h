// A rank's greeting to rank 0. It begins with a fixed text and the token. Rank 0 checks these
// first, so that it reads no more of a stranger's data. Then come the rank and the version, and
// then the values on which the ranks must agree. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/meeting.h"

namespace ucudnn::transport {

struct Hello {
  Membership membership;
  std::string version;
  std::string process;  // "process 12 on host a", for messages
  std::vector<Term> terms;
};

// Makes the greeting of `meeting`'s rank in this process.
std::string PackHello(const Meeting& meeting, const std::string& token);

enum class Greeting { kRight, kOtherToken, kNone };
// Returns kNone if `body` does not begin like a greeting; otherwise whether the greeting has
// `token`. The duration of the comparison does not depend on where the tokens differ.
Greeting CompareToken(std::string_view body, std::string_view token);

// Reads the rest of a greeting that has the right token. If its version differs from `version`,
// reads only rank and version. Returns none if the greeting is malformed.
std::optional<Hello> UnpackHello(std::string_view body, const std::string& version);

// Fails if `hello` does not belong to the job of `meeting`, which must be the meeting of rank 0.
// The error contains the differing values of both ranks.
Status CompareHello(const Hello& hello, const Meeting& meeting);

std::string ThisProcess();

}  // namespace ucudnn::transport
