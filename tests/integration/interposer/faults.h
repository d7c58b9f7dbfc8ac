// Makes chosen calls fail: calls at the stand-in's sites (hostgpuInjectFault), or allocations of
// host memory inside libucudnn.so. A program that links this file gets this file's malloc and
// realloc; allocations of other code succeed.
#pragma once

#include <string>
#include <string_view>

namespace ucudnn::test {

// Returns false in builds with a sanitizer, where malloc cannot be replaced.
bool AllocationsCanFail();

// Makes the k-th allocation after this call fail, counted over all threads. If k is 0, none fails.
void FailAllocation(long kth);
// Ends the counting that FailAllocation began. Returns the number of allocations since then.
long AllocationsSince();

// Returns whether INTERPOSER_TEST_FAULTS is "every", which tools/check --full sets.
bool EveryFault();

constexpr std::string_view kHostMemory = "host memory";

// Makes the k-th occurrence at a site fail. Counts only occurrences between Arm and Disarm. Arm and
// Disarm may be called several times. At the site kHostMemory, occurrences are allocations.
class Fault {
 public:
  Fault(std::string_view site, long kth) : site_(site), left_(kth), kth_(kth) {}

  void Arm() const;
  void Disarm();
  bool occurred() const { return left_ <= 0; }
  // Returns whether the occurrence that failed was the last one before Disarm.
  bool last_failed() const { return last_failed_; }
  bool IsConvolution() const { return site_ == "convolution"; }
  std::string Name() const { return site_ + " " + std::to_string(kth_); }

 private:
  std::string site_;
  long left_, kth_;
  bool last_failed_ = false;
};

}  // namespace ucudnn::test
