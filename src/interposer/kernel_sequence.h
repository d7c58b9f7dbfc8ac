// How a program's network is learned: which kernels it asked about, and which it ran, in which
// order, until enough is known to divide one workspace among them. Plain values, no CUDA. Source:
// mu-cuDNN, section III-E, which learns from queries only; recording is ours. Thread-compatible.
//
// A lane is what runs one call after the other. Each lane's calls are recorded on their own: how
// lanes mix differs from one iteration to the next.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

namespace ucudnn::interposer {

struct KernelUse {
  int kernel = 0;
  double calls = 0;        // in one iteration
  std::vector<int> lanes;  // rising
  bool operator==(const KernelUse&) const = default;
};

class KernelSequence {
 public:
  // Calls of one lane that are recorded at most.
  static constexpr size_t kMostCalls = 20000;
  // So many calls of the same kernel, and nothing else, are a repeat.
  static constexpr size_t kOfOneKernel = 4;
  // And so many while others were asked about that never ran: programs time one plan after the
  // other.
  static constexpr size_t kOfOneAmongOthers = 128;
  // So many times the calls that made one lane known end the waiting for others.
  static constexpr size_t kPatience = 3;

  enum class Known {
    kNotYet,
    kAsked,     // everything, as it seems: the first call follows queries for several kernels
    kRepeated,  // everything: all lanes have run the same again
  };

  // The program asks what `kernel` needs.
  void Ask(int kernel);

  // The program runs `kernel` on `lane`. `one_lane`: it has no other, so that a network asked about
  // beforehand is known without running it. What becomes known is told once: kAsked at the first
  // call only, kRepeated at the end.
  Known Run(int kernel, int lane, bool one_lane);

  // A kernel was asked about, or ran, that was not among those of kAsked.
  bool surprised() const { return surprised_; }
  bool complete() const { return complete_; }

  // Nothing more is recorded.
  void End() { complete_ = true; }

  // The kernels by number: those asked about and, once they ran, those of each lane's repeat.
  std::vector<KernelUse> Uses() const;

 private:
  struct Lane {
    std::vector<int> calls;
    std::vector<size_t> borders;  // of every prefix of the calls: its longest border
    size_t period = 0;            // of the first whole repeat; 0: none yet
    size_t known_after = 0;       // calls, with that repeat
  };
  void Record(Lane& lane, int kernel);

  std::map<int, int> asked_;  // how often
  std::set<int> ran_;
  std::set<int> idle_;      // asked about, and never ran
  std::set<int> expected_;  // at kAsked
  int first_lane_ = 0;
  std::map<int, Lane> lanes_;
  bool surprised_ = false;
  bool complete_ = false;
};

}  // namespace ucudnn::interposer
