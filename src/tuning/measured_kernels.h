// All measurements this process knows, in front of the store: read once, measured once, shared by
// all handles. Thread-safe. One thread on this host measures a device at a time; the others wait
// for it within their budget.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "planning/measurement_store.h"
#include "planning/promise.h"
#include "tuning/budget.h"
#include "tuning/measure.h"
#include "tuning/measuring_turns.h"

namespace ucudnn::tuning {

// What is asked about a kernel.
struct Question {
  ConvolutionProblem problem;
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  planning::PromiseRequest request;  // what it is planned for: policy auto looks for sizes that fit
  bool may_measure = false;          // what nobody knows
  // The engine that is asked about; null: every legacy algorithm.
  const EngineScope* scope = nullptr;
  bool read_again = false;  // what the store lacked before
  // Set: the engine may serve calls of a legacy kernel, and takes at most this share of the time
  // that the kernel has left.
  std::optional<double> legacy_share;
  // Set: the bytes that cuDNN says now that a legacy engine needs for so many images, as
  // cudnn::LegacyNeeds::Of. A store may be of other settings, or not true: rows count as what it
  // says where that is more, and not at all where the engine does not serve.
  std::function<std::optional<size_t>(int images, const std::string& engine)> need;
};

struct Answer {
  // Every engine of the scope at the sizes the policy considers, as far as they are known; n itself
  // is there. Where pieces are partials, smaller sizes cost what they do as such (AsPartial), and
  // are not there when that is unknown. Empty, with a status that says why, when n itself is not
  // known: nothing can be promised then.
  std::vector<MicroConfiguration> rows;
  Status status;
  // Every engine was tried on all n images: the fastest of them is among the rows, but for what
  // found no memory.
  bool whole_tried = false;
  // False: a later call may know more (the budget did not suffice, or measuring was not allowed).
  bool settled = false;
};

// Whether a plan may run (DESIGN's invariant 9).
struct Trust {
  enum class Kind {
    kTrusted,  // each of its pieces was compared once with the undivided output
    kUnknown,  // not compared, and not now: a later call may try again
    kWrong,    // compared and found wrong: its pieces are never planned with again
  };
  Kind kind = Kind::kTrusted;
  std::string message;  // why not
};

class MeasuredKernels {
 public:
  // `store` may be null: then measurements live as long as the process. `bounds` of measuring, none
  // for no bounds. `lock_folder`: where processes meet that measure on one host. `helpers`: devices
  // that take sizes off the one that is asked for; each within its own share of memory.
  MeasuredKernels(planning::MeasurementStore* store, const std::optional<Tuning>& bounds,
                  std::string lock_folder, BenchmarkDevices helpers = {})
      : store_(store), turns_(bounds, std::move(lock_folder), std::move(helpers)) {}

  // What failed once is not tried again.
  Answer Get(const Device& device, const Question& question);

  // Whether `plan` may take the place of `undivided`; compares their outputs when it was never done
  // and `may_compare`, within the budget of one kernel and of the process. `scope` makes the
  // engines of both; null: legacy ones.
  Trust Verify(const Device& device, const ConvolutionProblem& problem, const Configuration& plan,
               const MicroConfiguration& undivided, bool may_compare,
               const EngineScope* scope = nullptr);

  // The unfused graph engines that were measured on `problem`'s kernel at any size, as far as it is
  // known, by rising time for each image.
  std::vector<std::string> GraphEnginesOf(const Device& device, const ConvolutionProblem& problem);

  // Whether the legacy kernel of `problem` has more than `needed` left for measuring; and what was
  // spent on it elsewhere.
  bool HasTime(const Device& device, const ConvolutionProblem& problem,
               Clock::duration needed = {});
  void Spend(const Device& device, const ConvolutionProblem& problem, Clock::duration taken);

  // Nobody is to measure any more, for all that is known: devices that helped are let go.
  void ReleaseHelpers() { turns_.ReleaseHelpers(); }

  // False when memory or time was too scarce to measure every engine of the undivided `problem`:
  // then the fastest may be among those left out.
  bool HasAllEngines(const Device& device, const ConvolutionProblem& problem);

  // Whether this process measured what no other can read.
  bool keeps_own() const { return (store_ == nullptr && measured_ > 0) || unstored_; }

  // Null where measurements live as long as the process.
  planning::MeasurementStore* store() const { return store_; }

  // Measurements made by this process (engines times micro-batches), not read from a store.
  long measured() const { return measured_; }

 private:
  struct Family {
    ConvolutionProblem problem;  // n = 0
    planning::Platform platform;
    std::string engine;  // EngineScope::engine
    bool operator==(const Family&) const = default;
  };
  struct FamilyHash {
    size_t operator()(const Family& family) const;
  };
  // Scarce: some engines found no memory. Late: no time.
  enum class SizeState { kMeasured, kScarce, kLate, kFailed };
  struct Known {
    std::map<std::pair<int, std::string>, planning::Measurement> rows;  // by size and engine
    std::map<int, SizeState> sizes;                                     // those measured or tried
    std::map<int, Clock::duration> spent, verifying;                    // by mini-batch
    std::set<std::pair<int, std::string>> trusted, wrong;               // by comparing outputs
    std::set<std::pair<int, std::string>> confirmed;                    // Question::need was asked
    bool sum_tried = false;  // to measure what sums partials
    // With the legacy algorithms: graph engines that others measured, and their best time for an
    // image.
    std::map<std::string, double> graph_engines;
  };

  // What holds the measurements of `engine`.
  static Family FamilyOf(const ConvolutionProblem& problem, const planning::Platform& platform,
                         const std::string& engine);
  // The entry of `family`, read from the store when it is new. Keeps its address.
  Known& Meet(const Family& family);
  // Adds what the store holds of `family` by now.
  void Refresh(const Family& family, Known& known);
  // That `row` belongs to a graph engine. Under the lock.
  static void NoteGraphEngine(const MicroConfiguration& row, Known& legacy);
  // Sees to it that `missing` sizes are known, within the budget: asks the store again, measures.
  // An error when measuring failed or did not come about.
  Status Learn(const Device& device, const Question& question, const Family& family,
               const std::vector<int>& sizes, Known& known);
  // Measures `sizes` and adds what the store then holds of them to `known`.
  Status Measure(const Device& device, const ConvolutionProblem& problem,
                 const std::vector<int>& sizes, const MeasureLimits& limits, const Family& family,
                 Known& known, const EngineScope& scope);
  // Those of `sizes` that `problem` is to be measured at.
  std::vector<int> Missing(const ConvolutionProblem& problem, const Known& known,
                           const std::vector<int>& sizes);
  // Asks Question::need about the rows at `sizes` that it was not asked about.
  void Confirm(const Question& question, Known& known, const std::vector<int>& sizes);
  // Every engine that is known at `sizes` of `problem`, but those found wrong.
  std::vector<MicroConfiguration> RowsAt(const ConvolutionProblem& problem, const Known& known,
                                         const std::vector<int>& sizes);
  // The pieces of `plan` that nobody compared yet; false when one was found wrong. `reread`: what
  // the store says by now.
  bool FindUntried(const Device& device, const ConvolutionProblem& problem,
                   const Configuration& plan, bool reread,
                   std::vector<MicroConfiguration>& untried);
  // What policy auto asks for next; rising, empty when it is done.
  std::vector<int> NextSizes(const Question& question, size_t l2_bytes, Known& known,
                             const std::vector<int>& asked);

  planning::MeasurementStore* const store_;
  MeasuringTurns turns_;
  std::atomic<long> measured_ = 0;
  std::atomic<bool> unstored_ = false;  // a write to the store failed
  std::mutex mutex_;                    // of known_; held for moments
  std::unordered_map<Family, Known, FamilyHash> known_;
};

}  // namespace ucudnn::tuning
