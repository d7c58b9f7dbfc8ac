// Packs numbers and texts into the body of a frame, and unpacks a body, which may have any content.
// Plain values; thread-compatible.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ucudnn::transport {

class Packer {
 public:
  template <typename Number>
  void Put(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void PutText(std::string_view text) {
    Put(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  void PutBytes(std::string_view bytes) { bytes_.append(bytes); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads a body from front to back. A read beyond its end returns 0 or an empty text, and from then
// on ok() is false.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  template <typename Number>
  Number Take() {
    Number value = {};
    const std::string_view bytes = TakeBytes(sizeof value);
    if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view TakeText() { return TakeBytes(Take<uint32_t>()); }
  std::string_view TakeBytes(size_t size) {
    ok_ = ok_ && size <= rest_.size();
    if (!ok_) return {};
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  std::string_view rest() const { return ok_ ? rest_ : std::string_view(); }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace ucudnn::transport
