// Device memory between two pages that fault. The data touches one of them but for alignment. An
// access in these pages ends the process at once. Between the data and the pages there may be
// about a page; writes there are found afterwards, and reads are not.
#pragma once

#include <cstddef>
#include <vector>

namespace ucudnn::test {

using Bytes = std::vector<unsigned char>;

// Says where data lies: as close to the faulting page at `edge` as alignment allows, and `offset`
// bytes beyond a multiple of 16.
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
  // Waits for the device. Returns whether nothing wrote between the data and the faulting pages.
  bool GuardsAreIntact() const;

 private:
  const size_t bytes_;
  void* block_ = nullptr;          // the whole allocation, faulting pages included
  unsigned char* host_ = nullptr;  // the host address of the memory between the faulting pages
  size_t host_bytes_ = 0;          // the number of bytes from host_ on
  size_t before_ = 0;              // the number of bytes between host_ and the data
  void* data_ = nullptr;
};

}  // namespace ucudnn::test
