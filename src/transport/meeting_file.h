// The file of a rendezvous file:PATH: rank 0 writes where it listens and the job's token, the other
// ranks read it. Whoever may read it may join, so it is its owner's alone (mode 0600).
// Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::transport {

struct MeetingFile {
  std::vector<std::string> hosts;  // names and numeric addresses of one host: the first is its name
  uint16_t port = 0;
  std::string token;
};

// None where there is no such file, or an empty one. An error, in words with the path, where it is
// no regular file, belongs to another user, may be read or written by others, was not written by
// WriteMeetingFile, or lies in no folder.
Result<std::optional<MeetingFile>> ReadMeetingFile(const std::string& path);

// Writes the file in one step: a reader sees the old one, or the new one whole.
Status WriteMeetingFile(const std::string& path, const MeetingFile& file);

// Removes the file if it still holds `token`.
void RemoveMeetingFile(const std::string& path, const std::string& token);

// 32 random hexadecimal digits.
Result<std::string> RandomToken();

}  // namespace ucudnn::transport
