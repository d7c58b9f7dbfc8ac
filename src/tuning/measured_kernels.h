// All measurements that this process knows, in front of the store: each is read or made once and
// shared by all handles. Thread-safe. One thread of this host measures a device at a time; the
// others wait for it within their budget.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/options.h"
#include "base/status.h"
#include "planning/decision/facts.h"
#include "planning/measurement_store.h"
#include "planning/promise.h"
#include "planning/trust.h"
#include "tuning/budget.h"
#include "tuning/measure.h"
#include "tuning/measuring_progress.h"
#include "tuning/measuring_turns.h"
#include "tuning/verify.h"
#include "tuning/verify_tile.h"

namespace ucudnn::tuning {

// What is asked about a kernel.
struct Question {
  ConvolutionProblem problem;
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  // What the measurements are for: policy auto looks for sizes that fit.
  planning::PromiseRequest request;
  bool may_measure = false;  // measure what nobody knows
  EngineScope scope;         // the engines; no MixedScope
  bool read_again = false;   // look again for what the store lacked before
  // Set: the engine may serve calls of a legacy kernel, and measuring it takes at most this share
  // of the time that the kernel has left.
  std::optional<double> legacy_share;
  // Set: the bytes of workspace that cuDNN demands now of a legacy engine for so many images
  // (cudnn::LegacyNeeds::Of). A store may come from other settings, or be wrong: a row counts with
  // cuDNN's number where that is larger, and not at all where the engine does not serve.
  std::function<std::optional<size_t>(int images, const EngineId& engine)> need;
  // Set: the workspace that the user limits the kernel to. What brings it under that is measured
  // before anything that only makes it faster.
  std::optional<size_t> must_fit;
  // Measuring ends then; what it leaves is not settled.
  Clock::time_point until = Clock::time_point::max();
};

struct MeasuredRows {
  // Every engine of the scope at the sizes the policy considers, as far as they are known; n itself
  // is there, or what fits Question::must_fit. Where pieces are partials, smaller sizes cost what
  // they do as such (AsPartial), and are not there when that is unknown. Empty, with a status that
  // says why, when neither is known: nothing can be promised then.
  std::vector<MicroConfiguration> rows;
  Status status;
  // Every engine was tried on all n images, so the fastest is among the rows unless it found no
  // memory.
  bool whole_tried = false;
  // False while a later call may know more, because time was short or measuring was not allowed.
  bool settled = false;
  // It is not settled, and the time for measuring is used up.
  bool late = false;
};

// How grids of tiles are found and measured, beside what a Question says.
struct TilingTask {
  // By whose workspaces grids are chosen, the most promising first.
  std::vector<EngineId> engines;
  // Returns the measurements of an engine on `tile` that may be planned with.
  std::function<std::vector<planning::Candidate>(const ConvolutionProblem& tile,
                                                 const std::vector<MicroConfiguration>& rows)>
      candidates;
};

using planning::Trust;

class MeasuredKernels {
 public:
  // `store` is null where measurements live as long as the process. `bounds` is none for measuring
  // without bounds. In `lock_folder` processes of one host meet that measure. `helpers` take sizes
  // off the device that is asked for, each within its own share of memory. The caller owns
  // `progress` and keeps it alive.
  MeasuredKernels(planning::MeasurementStore* store, const std::optional<Tuning>& bounds,
                  std::string lock_folder, BenchmarkDevices helpers = {},
                  MeasuringProgress& progress = MeasuringProgress::None())
      : store_(store),
        progress_(progress),
        turns_(bounds, std::move(lock_folder), std::move(helpers), progress) {}

  // Answers from memory, the store and, where the question allows it, the device. Measures nothing
  // again that failed once.
  MeasuredRows Get(const Device& device, const Question& question);

  // The first step of Get, for callers that measure something else before the rest: measures what
  // brings the kernel under question.must_fit, undivided engines and then pieces, each by rising
  // workspace. Does nothing without must_fit, and nothing twice. An error when measuring failed or
  // did not come about.
  Status MeasureFitting(const Device& device, const Question& question);

  // In measured_tilings.cpp. Grids of tiles within question.request's limit, each with the engines
  // of the question's scope, a MixedScope too, on every kind of its tiles. From memory or, where
  // the question allows it, the store and the device: kinds of tiles are measured on twins of
  // little memory, within the budget of the kernel. What was found wrong is left out.
  planning::Tilings GetTilings(const Device& device, const Question& question,
                               const TilingTask& task);

  // Whether the configuration asked about may take the place of the engine that it is compared
  // with; compares their outputs where the proof demands it, within the budget of one kernel and of
  // the process. `scope` holds the engines of both.
  Trust Verify(const Device& device, const ConvolutionProblem& problem,
               const planning::Compare& question, const EngineScope& scope = LegacyScope());

  // The unfused graph engines that are known to have been measured for `problem`'s kernel at any
  // size, by rising time for an image.
  std::vector<EngineId> GraphEnginesOf(const Device& device, const ConvolutionProblem& problem);

  // Whether the legacy kernel of `problem` has more than `needed` left of its time for measuring.
  // Spend charges it with time that was spent elsewhere.
  bool HasTime(const Device& device, const ConvolutionProblem& problem,
               Clock::duration needed = {});
  void Spend(const Device& device, const ConvolutionProblem& problem, Clock::duration taken);
  // Question::until of what is asked about `problem` from now on, at one query or call.
  Clock::time_point EndOfTurn(const ConvolutionProblem& problem) {
    return turns_.EndOfTurn(problem);
  }

  // Lets helper devices go, because nothing is left to be measured as far as anybody knows.
  void ReleaseHelpers() { turns_.ReleaseHelpers(); }

  // False when memory or time was too scarce to measure every engine on all of `problem`'s images;
  // the fastest may be missing then.
  bool HasAllEngines(const Device& device, const ConvolutionProblem& problem);

  // Whether this process has measurements that no other can read.
  bool keeps_own() const { return (store_ == nullptr && measured_ > 0) || unstored_; }

  // Null where measurements live as long as the process.
  planning::MeasurementStore* store() const { return store_; }

  // How many measurements (engines times micro-batch sizes) this process made itself.
  long measured() const { return measured_; }
  // How many kernels they are of: problems with their mini-batch, each on one model of device.
  long measured_kernels() const { return measured_kernels_; }

  // Hears of everything that a caller waits for.
  MeasuringProgress& progress() { return progress_; }

 private:
  struct Family {
    ConvolutionProblem problem;  // with n = 0
    planning::Platform platform;
    std::optional<EngineId> graph_engine;  // none: the family of the legacy algorithms

    // Whether a stored measurement of `engine` belongs to this family.
    bool Holds(const EngineId& engine) const;
    bool operator==(const Family&) const = default;
  };
  struct FamilyHash {
    size_t operator()(const Family& family) const;
  };
  // Scarce: some engine found no memory. Late: some engine found no time.
  enum class SizeState { kMeasured, kScarce, kLate, kFailed };
  struct Known {
    std::map<std::pair<int, EngineId>, planning::Measurement> rows;  // by size and engine
    std::map<int, SizeState> sizes;                                  // those measured or tried
    std::map<int, Clock::duration> spent, verifying;                 // by mini-batch
    std::set<std::pair<int, EngineId>> trusted, wrong;               // by comparing outputs
    std::set<std::pair<int, EngineId>> confirmed;                    // Question::need was asked
    bool sum_tried = false;  // to measure what sums partials
    // With the legacy algorithms: mini-batches of which this process measured some engine.
    std::set<int> measured_here;
    // Mini-batches and limits of which MeasureFitting has tried all.
    std::set<std::pair<int, size_t>> fitting_tried;
    // With the legacy algorithms: graph engines that others measured, and their best time for an
    // image.
    std::map<EngineId, double> graph_engines;
  };

  struct TilesOfFamily {
    std::vector<planning::Tiling> measured;
    // By the limits for which all grids were tried: why none was found there, as Tilings has it.
    std::map<size_t, std::pair<size_t, std::string>> tried;
    std::set<size_t> asked_of_store;  // limits
  };
  // Tiles that were compared, without their times.
  struct ComparedTiles {
    ConvolutionProblem problem;
    planning::Platform platform;
    Configuration configuration;
    bool in_place = false;  // with the whole, too
    Trust trust;
  };
  // An engine that one kind of tile is trusted to.
  struct TrustedTile {
    ComparedTile tile;
    planning::Platform platform;
    bool operator==(const TrustedTile&) const = default;
  };

  static Family LegacyFamily(const ConvolutionProblem& problem, const planning::Platform& platform);
  // The family whose measurements `engine` belongs to.
  static Family FamilyOf(const ConvolutionProblem& problem, const planning::Platform& platform,
                         const EngineId& engine);
  // What holds the measurements that `question` is about.
  static Family FamilyAsked(const Device& device, const Question& question);
  // The entry of `family`, read from the store when it is new. Keeps its address.
  Known& Meet(const Family& family);
  // Adds what the store holds of `family` by now.
  void Refresh(const Family& family, Known& known);
  // False where legacy algorithms were measured at `size`, and none with the math type that the
  // problem's descriptor has: earlier releases left out what the library does not list. Under the
  // lock.
  static bool HasOwnMath(const Known& known, int size);
  // That `row` belongs to a graph engine. Under the lock.
  static void NoteGraphEngine(const MicroConfiguration& row, Known& legacy);
  enum class Extent { kAll, kFitting };
  // Sees to it that `missing` sizes are known, within the budget: asks the store again, measures.
  // An error when measuring failed or did not come about.
  Status MeasureMissing(const Device& device, const Question& question, const Family& family,
                        const std::vector<int>& sizes, Extent extent, Known& known);
  // Whose time measuring for `question` takes: `known`'s, or the legacy kernel's.
  Known& AccountOf(const Device& device, const Question& question, Known& known);
  // Whether more than `needed` is left of it for mini-batch `n`.
  bool HasTimeFor(int n, Known& account, Clock::duration needed = {});
  // Measures `sizes` and adds what the store then holds of them to `known`.
  Status Measure(const Device& device, const Question& question, const Family& family,
                 const std::vector<int>& sizes, const MeasureLimits& limits, Known& known);
  // Those of `sizes` at which `problem` has yet to be measured.
  std::vector<int> Missing(const ConvolutionProblem& problem, const Known& known,
                           const std::vector<int>& sizes);
  // Asks Question::need about those rows at `sizes` that it was not asked about.
  void Confirm(const Question& question, Known& known, const std::vector<int>& sizes);
  // Every engine that is known at `sizes` of `problem`, without those found wrong.
  std::vector<MicroConfiguration> RowsAt(const ConvolutionProblem& problem, const Known& known,
                                         const std::vector<int>& sizes);
  // Adds to `untried` the pieces of `configuration` that were not compared yet, as `proof` counts.
  // Returns false when one was found wrong. `reread`: asks the store again first.
  bool FindUntried(const Device& device, const ConvolutionProblem& problem,
                   const Configuration& configuration, planning::Proof proof, bool reread,
                   std::vector<MicroConfiguration>& untried);
  // Runs `compare` within the bounds of `turn`, whose time is charged to the kernel of the largest
  // piece's engine.
  Verification CompareNow(const Device& device, const ConvolutionProblem& problem,
                          const Configuration& configuration, const MeasuringTurns::Turn& turn,
                          const std::function<Verification(const MeasureLimits&)>& compare);
  // This and all up to DropTiles are in measured_tilings.cpp. Verify of tiles, whose trust a store
  // notes: compares each kind of tile and, where the memory for measuring holds the whole, all of
  // them in place with it. Where it does not, the kinds suffice unless the question needs the
  // whole.
  Trust VerifyTiles(const Device& device, const ConvolutionProblem& problem,
                    const planning::Compare& question, const EngineScope& scope);
  // Compares the kinds of tiles that are not trusted yet.
  Verification CompareKinds(const Device& device, const ConvolutionProblem& problem,
                            const Division& division, const MeasureLimits& limits,
                            const EngineScope& scope);
  // What is known of `family`, whose problem has all its images, within `limit_bytes`.
  planning::Tilings KnownTilings(const Family& family, size_t limit_bytes);
  // Adds all grids that the store says an earlier search found; false where it does not say, or
  // lacks a measurement. Where nothing may be measured, the store is asked once.
  bool RecallTilings(const Device& device, const Question& question, const TilingTask& task,
                     const Family& family);
  void KeepTilings(const Family& family, std::vector<planning::Tiling> tilings);
  // Writes a note to the store, where there is one; a store that fails costs a warning.
  void KeepNote(const ConvolutionProblem& problem, const Device& device, const std::string& about,
                const std::string& note);
  // Measures grids of tiles until `limits`' deadline, and notes what came of it.
  void MeasureTilings(const Device& device, const Question& question, const TilingTask& task,
                      const Family& family, const MeasureLimits& limits);
  // Leaves the engines of `configuration` out of what is known of its grid.
  void DropTiles(const ConvolutionProblem& problem, const Configuration& configuration);
  // The sizes that policy auto asks for next; rising, empty when it is done.
  std::vector<int> NextSizes(const Question& question, size_t l2_bytes, Known& known,
                             const std::vector<int>& asked);

  planning::MeasurementStore* const store_;
  MeasuringProgress& progress_;
  MeasuringTurns turns_;
  std::atomic<long> measured_ = 0;
  std::atomic<long> measured_kernels_ = 0;
  std::atomic<bool> unstored_ = false;  // a write to the store failed
  Mutex mutex_;                         // of known_; held for moments
  std::unordered_map<Family, Known, FamilyHash> known_ UCUDNN_GUARDED_BY(mutex_);
  std::unordered_map<Family, TilesOfFamily, FamilyHash> tilings_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<ComparedTiles> compared_tiles_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<TrustedTile> trusted_tiles_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::tuning
