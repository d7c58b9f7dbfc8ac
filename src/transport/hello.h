// A rank's greeting: the token first, so that nothing else of a stranger's bytes is looked at, then
// the version, then what the ranks must agree on. Pure functions.
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
  std::string process;  // "process 12 on host a", for lines to the user
  std::vector<Term> terms;
};

// The greeting of `meeting`'s rank, from this process.
std::string PackHello(const Meeting& meeting, const std::string& token);

enum class Greeting { kRight, kOtherToken, kNone };
// Whether `body` begins as a greeting does (otherwise kNone) and then with `token`, which is
// compared in a time that does not depend on where they differ.
Greeting CompareToken(std::string_view body, std::string_view token);

// The rest of a right greeting. Where the version is not `version`, only rank and version are read;
// none where the greeting is malformed.
std::optional<Hello> UnpackHello(std::string_view body, const std::string& version);

// Why `hello` does not belong to the job of `meeting` (rank 0's), in words that name both ranks'
// values.
Status CompareHello(const Hello& hello, const Meeting& meeting);

std::string ThisProcess();

}  // namespace ucudnn::transport
