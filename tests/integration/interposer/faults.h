// Makes occurrences of a fault fail: of the stand-in's sites, and of allocations of host memory
// inside libucudnn.so. The program that links this has its own malloc and realloc; allocations of
// other code succeed.
#pragma once

#include <string>
#include <string_view>

namespace ucudnn::test {

// Returns false if a sanitizer keeps malloc for itself.
bool AllocationsCanFail();

// Makes the k-th allocation from now on fail, in whichever thread; 0 makes none fail.
void FailAllocation(long kth);
// Ends what FailAllocation began. Returns the number of allocations since then.
long AllocationsSince();

// Returns whether INTERPOSER_TEST_FAULTS is "every", as tools/check --full sets it.
bool EveryFault();

constexpr std::string_view kHostMemory = "host memory";

// Makes the k-th occurrence at a site fail, counted over all that happens between Arm and Disarm.
// The site kHostMemory is that of allocations.
class Fault {
 public:
  Fault(std::string_view site, long kth) : site_(site), left_(kth), kth_(kth) {}

  void Arm() const;
  void Disarm();
  bool occurred() const { return left_ <= 0; }
  // Returns whether nothing of the kind came after the failed one.
  bool last_failed() const { return last_failed_; }
  bool IsConvolution() const { return site_ == "convolution"; }
  std::string Name() const { return site_ + " " + std::to_string(kth_); }

 private:
  std::string site_;
  long left_, kth_;
  bool last_failed_ = false;
};

}  // namespace ucudnn::test
