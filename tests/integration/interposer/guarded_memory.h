// A test's device memory between two pages that fault: an access beyond it ends the process where
// it happens, and writes into the few bytes that alignment leaves are found afterwards.
#pragma once

#include <cstddef>
#include <vector>

namespace ucudnn::test {

using Bytes = std::vector<unsigned char>;

// The faulting page that the memory touches (as closely as its alignment allows), and how many
// bytes after a multiple of 16 it starts.
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

  void* data() const;  // null when there are no bytes
  size_t bytes() const { return bytes_; }
  void Upload(const Bytes& content);
  Bytes Download() const;
  // Returns whether nobody wrote between the data and the faulting pages. Waits for the device.
  bool GuardsAreIntact() const;

 private:
  const size_t bytes_;
  void* block_ = nullptr;          // device memory, some of it in the faulting pages
  unsigned char* host_ = nullptr;  // the first host address between the faulting pages...
  size_t host_bytes_ = 0;          // ...and how many there are
  size_t before_ = 0;              // of them before the data
  void* data_ = nullptr;
};

}  // namespace ucudnn::test
