#include "base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace ucudnn {
namespace {

constexpr size_t kLargestFile = size_t{1} << 30;

}  // namespace

Result<std::string> ReadTextFile(const std::string& path) {
  const auto fault = [&](const std::string& reason) { return Status::Error(path + ": " + reason); };
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return fault(std::string("cannot be opened: ") + std::strerror(errno));
  std::string text;
  std::vector<char> block(size_t{1} << 16);
  ssize_t length = 0;
  do {
    length = read(descriptor, block.data(), block.size());
    if (length > 0) text.append(block.data(), static_cast<size_t>(length));
  } while ((length > 0 && text.size() <= kLargestFile) || (length < 0 && errno == EINTR));
  const int error = errno;
  close(descriptor);
  if (length < 0) return fault(std::string("cannot be read: ") + std::strerror(error));
  if (text.size() > kLargestFile) return fault("larger than 1 GiB");
  return text;
}

std::string TextFileOrEmpty(const std::string& path) {
  Result<std::string> text = ReadTextFile(path);
  return text.ok() ? *std::move(text) : std::string();
}

}  // namespace ucudnn
