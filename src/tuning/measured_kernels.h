// All measurements that this process knows, in front of the store. Each is read or made once and
// shared by all handles. Thread-safe. Only one thread of this host measures on a device at a time;
// the others wait within their budget.
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
#include "base/status.h"
#include "options/options.h"
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

// A question about the measurements of a kernel.
struct Question {
  ConvolutionProblem problem;
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  // The request that the measurements serve: policy auto searches for sizes that fit it.
  planning::PromiseRequest request;
  bool may_measure = false;  // missing measurements are made
  EngineScope scope;         // the engines; no MixedScope
  bool read_again = false;   // the store is asked again for what it lacked before
  // If set, the engine may serve calls of a legacy kernel, and measuring it takes at most this
  // share of the time that the kernel has left.
  std::optional<double> legacy_share;
  // If set, returns the bytes of workspace that cuDNN now demands of a legacy engine for `images`
  // images (cudnn::LegacyNeeds::Of). A store may come from other settings, or be wrong: if cuDNN's
  // number is larger, it replaces the number of a row, and a row of an engine that does not serve
  // is dropped.
  std::function<std::optional<size_t>(int images, const EngineId& engine)> need;
  // If set, the user's limit of the kernel's workspace. Engines and pieces that bring it under the
  // limit are measured before any that only make it faster.
  std::optional<size_t> must_fit;
  // Measuring ends at this time; what is unmeasured then stays open.
  Clock::time_point until = Clock::time_point::max();
};

struct MeasuredRows {
  // Every engine of the scope at the sizes that the policy considers, as far as they are known,
  // including n itself or a configuration that fits Question::must_fit. If pieces are partials,
  // smaller sizes have their cost as partials (AsPartial), and are missing if that is unknown.
  // Empty if neither n nor a fitting configuration is known: nothing can be promised then, and the
  // status says why.
  std::vector<MicroConfiguration> rows;
  Status status;
  // Every engine was tried on all n images, so the fastest is among the rows unless it found no
  // memory.
  bool whole_tried = false;
  // False if a later call may know more, because time was short or measuring was not allowed.
  bool settled = false;
  // True if the rest stays open because the time for measuring is used up.
  bool late = false;
};

// Says how grids of tiles are found and measured, in addition to a Question.
struct TilingTask {
  // Engines whose workspaces determine the grids, the most promising first.
  std::vector<EngineId> engines;
  // Returns the measurements of an engine on `tile` that may be planned with.
  std::function<std::vector<planning::Candidate>(const ConvolutionProblem& tile,
                                                 const std::vector<MicroConfiguration>& rows)>
      candidates;
};

using planning::Trust;

class MeasuredKernels {
 public:
  // `store` is null if measurements live as long as the process. `bounds` is none for measuring
  // without bounds. Measuring processes of one host lock files in `lock_folder`. `helpers` measure
  // some of the sizes for a device, each within its own share of memory. The caller owns `progress`
  // and keeps it alive.
  MeasuredKernels(planning::MeasurementStore* store, const std::optional<Tuning>& bounds,
                  std::string lock_folder, BenchmarkDevices helpers = {},
                  MeasuringProgress& progress = MeasuringProgress::None())
      : store_(store),
        progress_(progress),
        turns_(bounds, std::move(lock_folder), std::move(helpers), progress) {}

  // Answers from memory, the store and, if the question allows it, the device. Does not repeat a
  // measurement that failed.
  MeasuredRows Get(const Device& device, const Question& question);

  // Runs the first step of Get, for callers that measure something else before the rest. Measures
  // what brings the kernel under question.must_fit, undivided engines and then pieces, each in
  // ascending order of workspace. Does nothing without must_fit, and nothing twice. Fails if
  // measuring failed or was not possible.
  Status MeasureFitting(const Device& device, const Question& question);

  // Implemented in measured_tilings.cpp. Returns grids of tiles within question.request's limit,
  // each with the engines of the question's scope, also a MixedScope, on every kind of its tiles.
  // They come from memory or, if the question allows it, from the store and the device: kinds of
  // tiles are measured on twins of little memory, within the kernel's budget. Engines that were
  // found wrong are left out.
  planning::Tilings GetTilings(const Device& device, const Question& question,
                               const TilingTask& task);

  // Returns whether the configuration of `question` may replace the engine that it is compared
  // with. Compares their outputs, and times tiles in place, if the proof demands it, within the
  // budget of one kernel and of the process. `scope` contains the engines of all.
  Trust Verify(const Device& device, const ConvolutionProblem& problem,
               const planning::Compare& question, const EngineScope& scope = LegacyScope());

  // Returns the unfused graph engines that are known to have been measured for `problem`'s kernel
  // at any size, in ascending order of time for an image.
  std::vector<EngineId> GraphEnginesOf(const Device& device, const ConvolutionProblem& problem);

  // Returns whether the legacy kernel of `problem` has more than `needed` left of its time for
  // measuring. Spend charges it with time that was spent elsewhere.
  bool HasTime(const Device& device, const ConvolutionProblem& problem,
               Clock::duration needed = {});
  void Spend(const Device& device, const ConvolutionProblem& problem, Clock::duration taken);
  // Returns Question::until for questions about `problem` from now on, during one query or call.
  Clock::time_point EndOfTurn(const ConvolutionProblem& problem) {
    return turns_.EndOfTurn(problem);
  }

  // Releases helper devices when, as far as is known, nothing is left to measure.
  void ReleaseHelpers() { turns_.ReleaseHelpers(); }

  // False if memory or time was too scarce to measure every engine on all of `problem`'s images;
  // the fastest may be missing then.
  bool HasAllEngines(const Device& device, const ConvolutionProblem& problem);

  // Returns whether this process has measurements that no other can read.
  bool keeps_own() const { return (store_ == nullptr && measured_ > 0) || unstored_; }

  // Returns null if measurements live as long as the process.
  planning::MeasurementStore* store() const { return store_; }

  // Returns the number of measurements (engines times micro-batch sizes) that this process made
  // itself.
  long measured() const { return measured_; }
  // Returns the number of kernels that they belong to: problems with their mini-batch, each on one
  // model of device.
  long measured_kernels() const { return measured_kernels_; }

  // Returns the object that hears of everything for which a caller waits.
  MeasuringProgress& progress() { return progress_; }

 private:
  struct Family {
    ConvolutionProblem problem;  // with n = 0
    planning::Platform platform;
    std::optional<EngineId> graph_engine;  // none: the family of the legacy algorithms

    // Returns whether a stored measurement of `engine` belongs to this family.
    bool Holds(const EngineId& engine) const;
    bool operator==(const Family&) const = default;
  };
  struct FamilyHash {
    size_t operator()(const Family& family) const;
  };
  // kScarce: an engine found no memory. kLate: an engine found no time.
  enum class SizeState { kMeasured, kScarce, kLate, kFailed };
  struct Known {
    std::map<std::pair<int, EngineId>, planning::Measurement> rows;  // by size and engine
    std::map<int, SizeState> sizes;                     // sizes that were measured or tried
    std::map<int, Clock::duration> spent, verifying;    // by mini-batch
    std::set<std::pair<int, EngineId>> trusted, wrong;  // by comparing outputs
    std::set<std::pair<int, EngineId>> confirmed;       // Question::need was asked for these
    bool sum_tried = false;  // measuring the summing of partials was tried
    // For the legacy algorithms: mini-batches for which this process measured an engine.
    std::set<int> measured_here;
    // Mini-batches and limits for which MeasureFitting has tried everything.
    std::set<std::pair<int, size_t>> fitting_tried;
    // For the legacy algorithms: graph engines that this or another process measured, with their
    // best time for an image.
    std::map<EngineId, double> graph_engines;
  };

  struct TilesOfFamily {
    std::vector<planning::Tiling> measured;
    // For limits with which all grids were tried: Tilings::least_bytes and Tilings::why.
    std::map<size_t, std::pair<size_t, std::string>> tried;
    std::set<size_t> asked_of_store;  // limits that the store was asked about
  };
  // Tiles that were compared, without their times.
  struct ComparedTiles {
    ConvolutionProblem problem;
    planning::Platform platform;
    Configuration configuration;
    bool in_place = false;  // also in place, with the whole
    Trust trust;
  };
  // Tiles that were timed in place, in turn with an undivided engine.
  struct RacedTiles {
    ConvolutionProblem problem;
    planning::Platform platform;
    std::string about;  // the tiles and the engine
    Trust trust;
  };
  // An engine whose results on one kind of tile were compared.
  struct TrustedTile {
    ComparedTile tile;
    planning::Platform platform;
    bool operator==(const TrustedTile&) const = default;
  };

  static Family LegacyFamily(const ConvolutionProblem& problem, const planning::Platform& platform);
  // Returns the family to which the measurements of `engine` belong.
  static Family FamilyOf(const ConvolutionProblem& problem, const planning::Platform& platform,
                         const EngineId& engine);
  // Returns the family with the measurements that `question` is about.
  static Family FamilyAsked(const Device& device, const Question& question);
  // Returns the entry of `family`, which is read from the store if it is new. Its address does not
  // change.
  Known& Meet(const Family& family);
  // Adds the rows of `family` that the store has by now.
  void Refresh(const Family& family, Known& known);
  // Returns false if legacy algorithms were measured at `size`, but none with the math type of the
  // problem's descriptor: earlier releases left out those that the library does not list. Requires
  // the lock.
  static bool HasOwnMath(const Known& known, int size);
  // Notes that `row` belongs to a graph engine. Requires the lock.
  static void NoteGraphEngine(const MicroConfiguration& row, Known& legacy);
  enum class Extent { kAll, kFitting };
  // Makes sure that `missing` sizes are known, within the budget: asks the store again, then
  // measures. Fails if measuring failed or was not possible.
  Status MeasureMissing(const Device& device, const Question& question, const Family& family,
                        const std::vector<int>& sizes, Extent extent, Known& known);
  // Returns the entry from whose time budget `question` is measured: `known`, or the legacy
  // kernel's.
  Known& AccountOf(const Device& device, const Question& question, Known& known);
  // Returns whether `account` has more than `needed` left for mini-batch `n`.
  bool HasTimeFor(int n, Known& account, Clock::duration needed = {});
  // Measures `sizes` and adds the rows that the store then has for these sizes to `known`.
  Status Measure(const Device& device, const Question& question, const Family& family,
                 const std::vector<int>& sizes, const MeasureLimits& limits, Known& known);
  // Returns the elements of `sizes` at which `problem` is still to be measured.
  std::vector<int> Missing(const ConvolutionProblem& problem, const Known& known,
                           const std::vector<int>& sizes);
  // Asks Question::need about rows at `sizes` for which it was not asked yet.
  void Confirm(const Question& question, Known& known, const std::vector<int>& sizes);
  // Returns every engine that is known at `sizes` of `problem`, without those found wrong.
  std::vector<MicroConfiguration> RowsAt(const ConvolutionProblem& problem, const Known& known,
                                         const std::vector<int>& sizes);
  // Adds to `untried` the pieces of `configuration` that were not compared yet, by the standard of
  // `proof`. Returns false if one was found wrong. `reread`: asks the store again first.
  bool FindUntried(const Device& device, const ConvolutionProblem& problem,
                   const Configuration& configuration, planning::Proof proof, bool reread,
                   std::vector<MicroConfiguration>& untried);
  // Runs `compare` within the bounds of `turn`, whose time is charged to the kernel of the largest
  // piece's engine.
  Verification CompareNow(const Device& device, const ConvolutionProblem& problem,
                          const Configuration& configuration, const MeasuringTurns::Turn& turn,
                          const std::function<Verification(const MeasureLimits&)>& compare);
  // Verifies tiles, and notes the result in the store. It compares each kind of tile and, if the
  // memory for measuring holds the whole, also compares all of them in place with it. If it does
  // not, comparing the kinds suffices unless the question needs the whole. Functions from here to
  // DropTiles are in measured_tilings.cpp.
  Trust VerifyTiles(const Device& device, const ConvolutionProblem& problem,
                    const planning::Compare& question, const EngineScope& scope);
  // Returns whether tiles that are trusted are also faster in place than `question.faster_than`,
  // and notes the result in the store. Times both, if the memory for measuring holds the whole; if
  // it does not, tiles are trusted that the question allows not to be compared with the whole.
  Trust RaceTiles(const Device& device, const ConvolutionProblem& problem,
                  const planning::Compare& question, const EngineScope& scope);
  // Returns what is known of a race that `about` describes; none if nothing is.
  std::optional<Trust> FindRace(const Device& device, const ConvolutionProblem& problem,
                                const std::string& about);
  // Compares the kinds of tiles that are not trusted yet.
  Verification CompareKinds(const Device& device, const ConvolutionProblem& problem,
                            const Division& division, const MeasureLimits& limits,
                            const EngineScope& scope);
  // Returns the known tilings of `family`, whose problem has all its images, within `limit_bytes`.
  planning::Tilings KnownTilings(const Family& family, size_t limit_bytes);
  // Adds all grids that an earlier search found, by the store's notes; returns false if there is no
  // note, or a measurement is missing. If nothing may be measured, the store is asked only once.
  bool RecallTilings(const Device& device, const Question& question, const TilingTask& task,
                     const Family& family);
  void KeepTilings(const Family& family, std::vector<planning::Tiling> tilings);
  // Writes a note to the store, if there is one; a store that fails costs a warning.
  void KeepNote(const ConvolutionProblem& problem, const Device& device, const std::string& about,
                const std::string& note);
  // Measures grids of tiles until the deadline of `limits`, and notes the result.
  void MeasureTilings(const Device& device, const Question& question, const TilingTask& task,
                      const Family& family, const MeasureLimits& limits);
  // Removes the engines of `configuration` from the known measurements of its grid.
  void DropTiles(const ConvolutionProblem& problem, const Configuration& configuration);
  // Returns the sizes that policy auto asks for next, ascending; empty when it is done.
  std::vector<int> NextSizes(const Question& question, size_t l2_bytes, Known& known,
                             const std::vector<int>& asked);

  planning::MeasurementStore* const store_;
  MeasuringProgress& progress_;
  MeasuringTurns turns_;
  std::atomic<long> measured_ = 0;
  std::atomic<long> measured_kernels_ = 0;
  std::atomic<bool> unstored_ = false;  // a write to the store failed
  Mutex mutex_;                         // guards known_; held only briefly
  std::unordered_map<Family, Known, FamilyHash> known_ UCUDNN_GUARDED_BY(mutex_);
  std::unordered_map<Family, TilesOfFamily, FamilyHash> tilings_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<ComparedTiles> compared_tiles_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<RacedTiles> raced_tiles_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<TrustedTile> trusted_tiles_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::tuning
