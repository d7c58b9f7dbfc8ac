#include "transport/meeting_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "transport/descriptor.h"

namespace ucudnn::transport {
namespace {

constexpr std::string_view kFirstLine = "ucudnn rendezvous 1";
constexpr size_t kLargestFile = 16384;

Status FileFault(const std::string& path, const std::string& why) {
  return Status::Error("rendezvous file:" + path + " " + why);
}

Status SystemFault(const std::string& path, const std::string& what) {
  return FileFault(path, what + ": " + std::strerror(errno));
}

// Reads the file's bytes, but no more than kLargestFile + 1, which are too many for a meeting file.
Result<std::string> ReadAll(int file, const std::string& path) {
  std::string text(kLargestFile + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemFault(path, "cannot be read");
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

std::optional<MeetingFile> ParseMeetingFile(const std::string& text) {
  MeetingFile file;
  std::vector<std::string> lines = Split(text, '\n');
  if (text.size() > kLargestFile || lines.size() < 5 || lines.front() != kFirstLine) return {};
  if (!lines.back().empty()) return {};
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    const size_t space = lines[i].find(' ');
    if (space == std::string::npos) return {};
    const std::string key = lines[i].substr(0, space), value = lines[i].substr(space + 1);
    if (key == "host") {
      file.hosts.push_back(value);
    } else if (key == "port") {
      if (!ReadNumber(value, file.port)) return {};
    } else if (key == "token") {
      file.token = value;
    } else {
      return {};
    }
  }
  if (file.hosts.empty() || file.port == 0 || file.token.empty()) return {};
  return file;
}

}  // namespace

Result<std::optional<MeetingFile>> ReadMeetingFile(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) {
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    if (access(folder.c_str(), X_OK) != 0) return SystemFault(path, "lies in no usable folder");
    return std::optional<MeetingFile>();
  }
  if (!file) return SystemFault(path, "cannot be opened");
  struct stat facts = {};
  if (fstat(file.get(), &facts) != 0) return SystemFault(path, "cannot be examined");
  if (!S_ISREG(facts.st_mode)) return FileFault(path, "is no regular file");
  if (facts.st_uid != geteuid()) {
    return FileFault(path, "belongs to user " + std::to_string(facts.st_uid) + ", not to user " +
                               std::to_string(geteuid()));
  }
  if ((facts.st_mode & 077) != 0) {
    const char digits[] = {static_cast<char>('0' + (facts.st_mode >> 6 & 7)),
                           static_cast<char>('0' + (facts.st_mode >> 3 & 7)),
                           static_cast<char>('0' + (facts.st_mode & 7)), 0};
    return FileFault(path, "has mode 0" + std::string(digits) +
                               ", so others may read or write the token; 0600 is needed");
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadAll(file.get(), path));
  if (text.empty()) return std::optional<MeetingFile>();
  std::optional<MeetingFile> parsed = ParseMeetingFile(text);
  if (!parsed) return FileFault(path, "holds something else: " + Quoted(text));
  return parsed;
}

Status WriteMeetingFile(const std::string& path, const MeetingFile& file) {
  std::string text = std::string(kFirstLine) + "\n";
  for (const std::string& host : file.hosts) text += "host " + host + "\n";
  text += "port " + std::to_string(file.port) + "\ntoken " + file.token + "\n";
  std::string temporary = path + ".XXXXXX";
  const Descriptor out(mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!out) return SystemFault(path, "cannot be written");
  const ssize_t written = write(out.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || fchmod(out.get(), 0600) != 0 ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    const Status fault = SystemFault(path, "cannot be written");
    unlink(temporary.c_str());
    return fault;
  }
  return Status::Ok();
}

void RemoveMeetingFile(const std::string& path, const std::string& token) {
  const Result<std::optional<MeetingFile>> file = ReadMeetingFile(path);
  if (file.ok() && file.value() && file.value()->token == token) unlink(path.c_str());
}

Result<std::string> RandomToken() {
  unsigned char bytes[16];
  ssize_t got = 0;
  do {
    got = getrandom(bytes, sizeof bytes, 0);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof bytes) return Status::Error("the system gives no random numbers");
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

}  // namespace ucudnn::transport
