// Learns a program's network from the kernels that the program asks about, and from the order in
// which it runs kernels. Learning ends when enough is known to divide one workspace among the
// kernels. Plain values, no CUDA. Thread-compatible. Source: mu-cuDNN, section III-E, which learns
// from queries only; recording calls is new here.
//
// A lane runs one call after the other. Each lane's calls are recorded separately, because the
// calls of different lanes interleave differently in each iteration. Programs also time candidate
// kernels in bursts, before their loop or within its first iteration; such calls do not belong to
// the sequence that repeats afterwards.
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
  int way = 0;      // how the kernel runs: its algorithm
};

struct KernelUse {
  int kernel = 0;
  double calls = 0;        // calls in one iteration
  std::vector<int> lanes;  // ascending
  bool operator==(const KernelUse&) const = default;
};

class KernelSequence {
 public:
  // The most calls of a lane that are recorded.
  static constexpr size_t kMostCalls = 20000;
  // After this many calls, a lane whose calls all have the same problem counts as a network. Fewer
  // calls prove nothing, because programs time one kernel after the other, each several times.
  static constexpr size_t kOfOneProblem = 128;
  // Each layer of a network may have a lane of its own. So if there are several lanes, the repeat
  // of a lane that runs a single kernel counts as known after this many calls.
  static constexpr size_t kOfOneKernel = 4;
  // The calls before a repeat may include problems that the repeat lacks. Such a repeat counts as
  // the network only if it has at least kLongRepeat calls, and kDwarfs times as many calls as came
  // before it. A shorter repeat may be a block of layers that repeats inside the network.
  static constexpr size_t kDwarfs = 8, kLongRepeat = 1024;
  // Once a lane's repeat is known, the lane waits until the repeats of the other lanes are known,
  // too. The wait ends at the latest when the lane has run kPatience times as many calls as it had
  // run when the wait began.
  static constexpr size_t kPatience = 3;

  enum class Progress {
    kNotYet,
    // Probably all kernels are known, because the program asked about several kernels before its
    // first call.
    kAsked,
    // All kernels are known, because each lane has run the same calls again.
    kRepeated,
  };

  // To be called when the program asks about `kernel`.
  void Ask(int kernel);

  // To be called when the program runs a kernel on `lane`. `asked_counts` says that queries for
  // several kernels before the first call reveal the whole network. Returns kAsked at most for the
  // first call, and kRepeated once, when learning is complete.
  Progress Run(const KernelRun& run, int lane, bool asked_counts);

  // To be called when `lane` will run nothing more. The lane is then not part of the network,
  // unless it runs again.
  void Leave(int lane);

  // Returns whether one of two things has happened since Run returned kAsked: the program asked
  // about or ran a kernel that it had not asked about before its first call, or the program ran a
  // kernel on a second lane.
  bool surprised() const { return surprised_; }
  bool complete() const { return complete_; }

  // Stops recording.
  void End() { complete_ = true; }

  // Returns the network's kernels in ascending order of number. Before learning is complete, these
  // are the kernels that were asked about; afterwards, the kernels of each lane's repeat.
  std::vector<KernelUse> Uses() const;

 private:
  struct Lane {
    std::vector<int> calls;  // values of ways_
    // Element d - 1 is the number of latest calls, in a row, each of which equals the call that
    // came d calls before it.
    std::vector<uint32_t> repeated;
    std::map<int, size_t> latest;  // index of the latest call of each problem
    std::set<int> met;             // all distinct calls
    size_t newest = 0;             // index of the latest call that no earlier call equals
    size_t period = 0;             // length of the first complete repeat; 0: none yet
    size_t known_after = 0;        // calls of the lane until the repeat became known
    size_t ran = 0;                // calls of the lane, recorded or not
    // The number of calls of all lanes when the repeat became known, and when the lane last ran.
    size_t known_at = 0, ran_at = 0;
    bool gone = false;
  };
  void Record(Lane& lane, const KernelRun& run);
  size_t PeriodOf(const Lane& lane) const;

  std::map<int, int> asked_;                 // number of queries for each kernel
  std::set<int> expected_;                   // the kernels that were asked about when Run returned
                                             // kAsked
  std::map<std::pair<int, int>, int> ways_;  // a number for each pair of kernel and way
  std::vector<int> kernels_;                 // the kernel of each pair, by the pair's number
  int first_lane_ = 0;
  size_t runs_ = 0;  // calls of all lanes
  std::map<int, Lane> lanes_;
  bool surprised_ = false;
  bool complete_ = false;
};

}  // namespace ucudnn::interposer
