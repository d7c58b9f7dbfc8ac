// The file of a rendezvous file:PATH. Rank 0 writes its address and the job's token into it; the
// other ranks read them. Anyone who can read the file can join the job, so only its owner may read
// it (mode 0600). Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::transport {

struct MeetingFile {
  // The name of rank 0's host, then its numeric addresses.
  std::vector<std::string> hosts;
  uint16_t port = 0;
  std::string token;
};

// Returns none if there is no such file, or if the file is empty. Fails if the folder does not
// exist. Fails if the file is not a regular one, belongs to another user, may be read or written by
// others, or was not written by WriteMeetingFile. The error names the path.
Result<std::optional<MeetingFile>> ReadMeetingFile(const std::string& path);

// Writes the file in one step: a reader sees either the old file or the complete new one.
Status WriteMeetingFile(const std::string& path, const MeetingFile& file);

// Removes the file if it contains `token`. If it does not, another job has replaced the file.
void RemoveMeetingFile(const std::string& path, const std::string& token);

// Returns 32 random hexadecimal digits.
Result<std::string> RandomToken();

}  // namespace ucudnn::transport
