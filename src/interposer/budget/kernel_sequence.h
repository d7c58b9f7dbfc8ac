// Learns a program's network: which kernels it asks about, and which it runs in which order, until
// enough is known to divide one workspace among them. Plain values, no CUDA. Thread-compatible.
// Source: mu-cuDNN, section III-E, which learns from queries only; recording is new here.
//
// A lane runs one call after the other. Each lane's calls are recorded separately, because lanes
// mix differently in each iteration. Programs also time kernels that they might run, in bursts
// before their loop or within its first iteration; such calls do not belong to what repeats
// afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ucudnn::interposer {

struct KernelRun {
  int kernel = 0;
  int problem = 0;  // kernels of one problem can replace each other
  int way = 0;      // the way in which the kernel runs: its algorithm
};

struct KernelUse {
  int kernel = 0;
  double calls = 0;        // in one iteration
  std::vector<int> lanes;  // ascending
  bool operator==(const KernelUse&) const = default;
};

class KernelSequence {
 public:
  // The most calls of a lane that are recorded.
  static constexpr size_t kMostCalls = 20000;
  // A lane that runs a single problem counts as a network after this many calls. Fewer calls are no
  // evidence, since programs time one kernel after the other, each several times.
  static constexpr size_t kOfOneProblem = 128;
  // The number of calls after which a lane that runs a single kernel counts, while other lanes run
  // other kernels. Each layer may have a lane of its own.
  static constexpr size_t kOfOneKernel = 4;
  // A repeat that lacks problems which ran before counts as the network once it has kLongRepeat
  // calls and is kDwarfs times as long as all calls before it. A shorter one may be a block of
  // layers that repeats inside the network.
  static constexpr size_t kDwarfs = 8, kLongRepeat = 1024;
  // A lane that repeats ends the wait for other lanes once it has run kPatience times the calls
  // after which its repeat was known.
  static constexpr size_t kPatience = 3;

  enum class Known {
    kNotYet,
    kAsked,     // probably everything: the first call follows queries for several kernels
    kRepeated,  // everything: each lane has run the same again
  };

  // To be called when the program asks about `kernel`.
  void Ask(int kernel);

  // To be called when the program runs a kernel on `lane`. `asked_counts` is true if queries for
  // several kernels before the first call tell the whole network. Each answer other than kNotYet is
  // given once: kAsked at the first call only, kRepeated at the end.
  Known Run(const KernelRun& run, int lane, bool asked_counts);

  // To be called when `lane` will run nothing more. It is no part of the network unless it runs
  // again.
  void Leave(int lane);

  // Returns whether a kernel was asked about or ran that was not among those of kAsked.
  bool surprised() const { return surprised_; }
  bool complete() const { return complete_; }

  // Stops recording.
  void End() { complete_ = true; }

  // Returns the network's kernels in ascending order of number: the kernels that were asked about
  // or, once learning is complete, the kernels of each lane's repeat.
  std::vector<KernelUse> Uses() const;

 private:
  struct Lane {
    std::vector<int> calls;  // as numbers of ways_
    // At index d - 1: how many of the latest calls equal the call d calls before.
    std::vector<uint32_t> repeated;
    std::map<int, size_t> latest;     // by problem: the index of its latest call
    std::set<int> met;                // all distinct calls
    size_t newest = 0;                // index of the call that was the latest new one
    size_t period = 0;                // length of the first whole repeat; 0: none yet
    size_t known_after = 0;           // number of calls after which it was known
    size_t ran = 0;                   // calls, recorded or not
    size_t known_at = 0, ran_at = 0;  // counted in calls of all lanes
    bool gone = false;
  };
  void Record(Lane& lane, const KernelRun& run);
  size_t PeriodOf(const Lane& lane) const;

  std::map<int, int> asked_;                 // number of queries for each kernel
  std::set<int> expected_;                   // the kernels of kAsked
  std::map<std::pair<int, int>, int> ways_;  // numbers pairs of kernel and way
  std::vector<int> kernels_;                 // kernel of each number of ways_
  int first_lane_ = 0;
  size_t runs_ = 0;  // calls of all lanes
  std::map<int, Lane> lanes_;
  bool surprised_ = false;
  bool complete_ = false;
};

}  // namespace ucudnn::interposer
