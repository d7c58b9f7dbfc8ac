// How a program's network is learned: which kernels it asked about, and which it ran, in which
// order, until enough is known to divide one workspace among them. Plain values, no CUDA. Source:
// mu-cuDNN, section III-E, which learns from queries only; recording is ours. Thread-compatible.
//
// A lane is what runs one call after the other. Each lane's calls are recorded on their own: how
// lanes mix differs from one iteration to the next. Programs also time what they could run, in
// bursts before their loop or amid its first iteration: what counts is what they repeat after.
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
  int problem = 0;  // kernels of one problem may take each other's place
  int way = 0;      // of a kernel that can be run in several: the algorithm
};

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
  // So many calls of one problem, and of nothing else, are a network of one problem: programs time
  // one kernel after the other, each more than once.
  static constexpr size_t kOfOneProblem = 128;
  // And so many of one kernel where other lanes run others: each layer may have a lane of its own.
  static constexpr size_t kOfOneKernel = 4;
  // A repeat that lacks problems which ran before is taken for the network when it is so much
  // longer than all that came before it, and so long: blocks of layers repeat inside a network.
  static constexpr size_t kDwarfs = 8, kLongRepeat = 1024;
  // So many times the calls that made one lane known end the waiting for others.
  static constexpr size_t kPatience = 3;

  enum class Known {
    kNotYet,
    kAsked,     // everything, as it seems: the first call follows queries for several kernels
    kRepeated,  // everything: all lanes have run the same again
  };

  // The program asks what `kernel` needs.
  void Ask(int kernel);

  // The program runs a kernel on `lane`. `asked_counts`: a network that was asked about beforehand
  // is known without running it. What becomes known is told once: kAsked at the first call only,
  // kRepeated at the end.
  Known Run(const KernelRun& run, int lane, bool asked_counts);

  // `lane` runs nothing any more: it has no part in the network unless it runs again.
  void Leave(int lane);

  // A kernel was asked about, or ran, that was not among those of kAsked.
  bool surprised() const { return surprised_; }
  bool complete() const { return complete_; }

  // Nothing more is recorded.
  void End() { complete_ = true; }

  // The kernels by number: those asked about and, once they ran, those of each lane's repeat.
  std::vector<KernelUse> Uses() const;

 private:
  struct Lane {
    std::vector<int> calls;  // as numbers of ways_
    // By distance d, from 1: how many of the latest calls are those of d calls before.
    std::vector<uint32_t> repeated;
    std::map<int, size_t> latest;     // of every problem: where it ran last
    std::set<int> met;                // of the calls
    size_t newest = 0;                // where the last of them came in
    size_t period = 0;                // of the first whole repeat; 0: none yet
    size_t known_after = 0;           // calls, with that repeat
    size_t ran = 0;                   // calls, recorded or not
    size_t known_at = 0, ran_at = 0;  // in calls of all lanes
    bool gone = false;
  };
  void Record(Lane& lane, const KernelRun& run);
  size_t PeriodOf(const Lane& lane) const;

  std::map<int, int> asked_;                 // how often
  std::set<int> expected_;                   // at kAsked
  std::map<std::pair<int, int>, int> ways_;  // kernel and way, numbered
  std::vector<int> kernels_;                 // of those numbers
  int first_lane_ = 0;
  size_t runs_ = 0;  // of all lanes
  std::map<int, Lane> lanes_;
  bool surprised_ = false;
  bool complete_ = false;
};

}  // namespace ucudnn::interposer
