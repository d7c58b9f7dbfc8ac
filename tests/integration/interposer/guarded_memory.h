// Device memory between two guard pages. An access to a guard page ends the process. The data is as
// close to one of these pages as alignment allows. Up to about a page may lie between the data and
// the other guard page; GuardsAreIntact() finds writes there, but reads there go unnoticed.
#pragma once

#include <cstddef>
#include <vector>

namespace ucudnn::test {

using Bytes = std::vector<unsigned char>;

// Where data lies: as close to the guard page at `edge` as alignment allows. The data begins
// `offset` bytes after a multiple of 16.
struct Placement {
  enum class Edge { kEnd, kBegin } edge = Edge::kEnd;
  size_t offset = 0;
};

class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes, const Placement& placement = {});
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  void* data() const;  // null if bytes() is 0
  size_t bytes() const { return bytes_; }
  void Upload(const Bytes& content);
  Bytes Download() const;
  // Waits for the device. Returns whether nothing was written between the data and the guard pages.
  bool GuardsAreIntact() const;

 private:
  const size_t bytes_;
  void* block_ = nullptr;          // the whole allocation, with the guard pages
  unsigned char* host_ = nullptr;  // host address of the memory between the guard pages
  size_t host_bytes_ = 0;          // number of bytes at host_
  size_t before_ = 0;              // number of bytes between host_ and the data
  void* data_ = nullptr;
};

}  // namespace ucudnn::test
