// The file of a rendezvous file:PATH. Rank 0 writes its address and the job's token; the other
// ranks read them. Whoever can read the file can join, so only its owner can read it (mode 0600).
// Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::transport {

struct MeetingFile {
  // Names and numeric addresses of one host; the host's name comes first.
  std::vector<std::string> hosts;
  uint16_t port = 0;
  std::string token;
};

// Returns none if there is no such file, or an empty one. Fails if it is no regular file, belongs
// to another user, may be read or written by others, was not written by WriteMeetingFile, or lies
// in no folder; the error names the path.
Result<std::optional<MeetingFile>> ReadMeetingFile(const std::string& path);

// Writes the file in one step: a reader sees the old file or the whole new one.
Status WriteMeetingFile(const std::string& path, const MeetingFile& file);

// Removes the file if it still holds `token`.
void RemoveMeetingFile(const std::string& path, const std::string& token);

// Makes 32 random hexadecimal digits.
Result<std::string> RandomToken();

}  // namespace ucudnn::transport
