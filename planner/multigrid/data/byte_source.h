// Bytes that can be read from any place: those of a file, or of memory. What files of data are read
// from, so that readers hold no more of them than they decode. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace ucudnn::multigrid {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // What errors call it: a file's path.
  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }

  // Fills `bytes` with those from `offset` on. The error is one line that begins with the name: the
  // source ends before, or it cannot be read.
  Status Read(uint64_t offset, std::span<char> bytes) const;

  // An error that begins with the name.
  Status Fault(const std::string& what) const { return Status::Error(name_ + ": " + what); }

 protected:
  ByteSource(std::string name, uint64_t size) : name_(std::move(name)), size_(size) {}

 private:
  // REQUIRES: offset + bytes.size() <= size().
  virtual Status ReadInside(uint64_t offset, std::span<char> bytes) const = 0;

  const std::string name_;
  const uint64_t size_;
};

// Memory that the caller owns and keeps.
class MemoryBytes final : public ByteSource {
 public:
  MemoryBytes(std::string name, std::string_view bytes)
      : ByteSource(std::move(name), bytes.size()), bytes_(bytes) {}

 private:
  Status ReadInside(uint64_t offset, std::span<char> bytes) const override;

  const std::string_view bytes_;
};

// The bytes [offset, offset + size) of `whole`, which outlives it. REQUIRES: they are inside.
class PartOfBytes final : public ByteSource {
 public:
  PartOfBytes(std::string name, const ByteSource& whole, uint64_t offset, uint64_t size)
      : ByteSource(std::move(name), size), whole_(whole), offset_(offset) {}

 private:
  Status ReadInside(uint64_t offset, std::span<char> bytes) const override {
    return whole_.Read(offset_ + offset, bytes);
  }

  const ByteSource& whole_;
  const uint64_t offset_;
};

// Opens a regular file. Its size is what it is now: one that becomes shorter gives an error when it
// is read. The error is one line with the path and the reason.
Result<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path);

// The unsigned number in `bytes`, the lowest byte first. REQUIRES: at most eight bytes.
uint64_t LittleEndian(std::string_view bytes);

}  // namespace ucudnn::multigrid
