// All measurements that this process knows, as a cache in front of the store. Each measurement is
// read or made once and shared by all handles. Thread-safe. Only one thread of this host measures
// on a device at a time; others wait within their budgets, or go on without new measurements.
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

// A question for the measurements of a kernel.
struct Question {
  ConvolutionProblem problem;
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  // The request for which the measurements are used. Policy auto searches for sizes that suit the
  // request.
  planning::PromiseRequest request;
  bool may_measure = false;  // missing measurements may be made
  EngineScope scope;         // the engines to measure; a MixedScope only for GetTilings
  bool read_again = false;   // measurements that the store lacked are looked for again
  // If set, the engine of `scope` may serve calls of a legacy kernel, and measuring the engine may
  // take at most this fraction of the time that the legacy kernel has left.
  std::optional<double> legacy_share;
  // If set, returns the bytes of workspace that cuDNN now requires for a legacy engine and `images`
  // images (cudnn::LegacyNeeds::Of). A row of a store may come from other settings, or be wrong. So
  // if cuDNN requires more than the row states, the row is raised to cuDNN's number. If cuDNN does
  // not run the row's engine for these images, the row is dropped.
  std::function<std::optional<size_t>(int images, const EngineId& engine)> need;
  // If set, the user's limit of the kernel's workspace. Engines and pieces with which the kernel
  // fits this limit are measured first. Engines and pieces that only make the kernel faster are
  // measured afterwards.
  std::optional<size_t> must_fit;
  // Measuring ends at this time. What was not measured by then stays unmeasured.
  Clock::time_point until = Clock::time_point::max();
};

struct MeasuredRows {
  // The rows of every engine of the scope at the sizes that the policy considers, as far as they
  // are known. They include rows for n itself, or a configuration that fits Question::must_fit. If
  // neither is known, there are no rows; then nothing can be promised, and `status` says why. If
  // pieces are partials, rows at sizes below n include the cost of summing (AsPartial). These rows
  // are missing while the cost of summing is unknown.
  std::vector<MicroConfiguration> rows;
  Status status;
  // True if every engine was tried on all n images. Then the fastest engine is among the rows,
  // unless there was not enough memory for it.
  bool whole_tried = false;
  // False if a later call may know more, because time was short or measuring was not allowed.
  bool settled = false;
  // True if measurements are missing and will not be made, because the time for measuring is used
  // up.
  bool late = false;
};

// Says how grids of tiles are found and measured, in addition to a Question.
struct TilingTask {
  // Engines whose workspaces determine the grids, the most promising one first.
  std::vector<EngineId> engines;
  // Returns the candidates that plans may use among `rows`, which were measured on `tile`.
  std::function<std::vector<planning::Candidate>(const ConvolutionProblem& tile,
                                                 const std::vector<MicroConfiguration>& rows)>
      candidates;
};

using planning::Trust;

class MeasuredKernels {
 public:
  // If `store` is null, measurements are lost when the process ends. If `bounds` is none, measuring
  // has no bounds. Processes of one host lock files in `lock_folder` while they measure. `helpers`
  // are devices that measure some of the sizes for another device. Each helper has limits for its
  // own memory. The caller owns `progress` and keeps it alive.
  MeasuredKernels(planning::MeasurementStore* store, const std::optional<Tuning>& bounds,
                  std::string lock_folder, BenchmarkDevices helpers = {},
                  MeasuringProgress& progress = MeasuringProgress::None())
      : store_(store),
        progress_(progress),
        turns_(bounds, std::move(lock_folder), std::move(helpers), progress) {}

  // Returns measurements from memory, the store and, if the question allows it, the device. A
  // measurement that failed is not tried again.
  MeasuredRows Get(const Device& device, const Question& question);

  // Does the first step of Get, for callers that measure other things before they call Get. The
  // step measures the engines and pieces with which the kernel fits question.must_fit: first
  // undivided engines, then pieces, both in ascending order of workspace. Does nothing if there is
  // no must_fit, if the question forbids measuring, or if everything was tried before. Fails if
  // measuring failed or was not possible.
  Status MeasureFitting(const Device& device, const Question& question);

  // Returns grids of tiles within question.request's limit. Each grid has, for every kind of its
  // tiles, the engines of the question's scope, which may be a MixedScope. The measurements are
  // from memory or, if the question allows it, from the store and the device. Kinds of tiles are
  // measured on slack twins (SlackTwin), which need little memory, within the kernel's budget.
  // Engines that were found wrong are left out. Implemented in measured_tilings.cpp.
  planning::Tilings GetTilings(const Device& device, const Question& question,
                               const TilingTask& task);

  // Returns whether the configuration of `question` may replace the undivided engine with which it
  // is compared. If that is not known yet and the proof allows it, compares outputs, and times
  // tiles on the whole tensors, within the budgets of the kernel and of the process. `scope` must
  // contain all engines that `question` names.
  Trust Verify(const Device& device, const ConvolutionProblem& problem,
               const planning::Compare& question, const EngineScope& scope = LegacyScope());

  // Returns the graph engines that were measured for `problem`'s kernel at any size, as far as this
  // process knows, in ascending order of time per image. Leaves out engines with fused operations.
  std::vector<EngineId> GraphEnginesOf(const Device& device, const ConvolutionProblem& problem);

  // HasTime returns whether more than `needed` is left of the time for measuring the legacy kernel
  // of `problem`. Spend subtracts time that its caller has used for this kernel.
  bool HasTime(const Device& device, const ConvolutionProblem& problem,
               Clock::duration needed = {});
  void Spend(const Device& device, const ConvolutionProblem& problem, Clock::duration taken);
  // Returns the Question::until for all questions about `problem` during a query or call that
  // begins now.
  Clock::time_point EndOfTurn(const ConvolutionProblem& problem) {
    return turns_.EndOfTurn(problem);
  }

  // Releases helper devices. Callers call it when they know of nothing that is left to measure.
  void ReleaseHelpers() { turns_.ReleaseHelpers(); }

  // Returns whether every engine was measured on all of `problem`'s images. If memory or time was
  // too short for that, the fastest engine may be missing.
  bool HasAllEngines(const Device& device, const ConvolutionProblem& problem);

  // Returns whether this process has measurements that are in no store, so that they are lost when
  // the process ends.
  bool keeps_own() const { return (store_ == nullptr && measured_ > 0) || unstored_; }

  // Returns null if measurements are lost when the process ends.
  planning::MeasurementStore* store() const { return store_; }

  // Returns how many measurements (of an engine at a micro-batch size) this process has made.
  long measured() const { return measured_; }
  // Returns the number of kernels to which the measurements of measured() belong. A kernel is a
  // problem with its mini-batch on one model of device.
  long measured_kernels() const { return measured_kernels_; }

  // Returns the object that is told of every step for which a caller waits.
  MeasuringProgress& progress() { return progress_; }

 private:
  // A family of measurements of a kernel on one platform: those of one graph engine, or those of
  // all legacy algorithms.
  struct Family {
    ConvolutionProblem problem;  // has n = 0
    planning::Platform platform;
    std::optional<EngineId> graph_engine;  // none: the family of the legacy algorithms

    // Returns whether a stored measurement of `engine` belongs to this family.
    bool Holds(const EngineId& engine) const;
    bool operator==(const Family&) const = default;
  };
  struct FamilyHash {
    size_t operator()(const Family& family) const;
  };
  // kScarce: there was no memory for an engine. kLate: the deadline had passed before all engines
  // were measured.
  enum class SizeState { kMeasured, kScarce, kLate, kFailed };
  struct KnownRows {
    std::map<std::pair<int, EngineId>, planning::Measurement> rows;  // by size and engine
    std::map<int, SizeState> sizes;                   // sizes that were measured or tried
    std::map<int, Clock::duration> spent, verifying;  // time spent, by mini-batch
    // By size and engine. The outputs of engines in `trusted` matched the undivided engine's
    // output, and the outputs of engines in `wrong` did not.
    std::set<std::pair<int, EngineId>> trusted, wrong;
    std::set<std::pair<int, EngineId>> confirmed;  // rows for which Question::need was called
    bool sum_tried = false;                        // measuring the summing of partials was tried
    // For the legacy algorithms: mini-batches for which this process has measured an engine.
    std::set<int> measured_here;
    // The mini-batches, with their limits, for which MeasureFitting has tried everything.
    std::set<std::pair<int, size_t>> fitting_tried;
    // For the legacy algorithms: graph engines that this or another process has measured, with
    // their least time per image.
    std::map<EngineId, double> graph_engines;
  };

  struct TilesOfFamily {
    std::vector<planning::Tiling> measured;
    // By limit: the Tilings::least_bytes and Tilings::why that were found when all grids were tried
    // under this limit.
    std::map<size_t, std::pair<size_t, std::string>> tried;
    std::set<size_t> asked_of_store;  // limits for which the store was read
  };
  // The result of comparing the output of tiles. The times in `configuration` are 0.
  struct ComparedTiles {
    ConvolutionProblem problem;
    planning::Platform platform;
    Configuration configuration;
    bool in_place = false;  // the outputs of all tiles together were compared, too
    Trust trust;
  };
  // The result of timing tiles and an undivided engine in turn, on the whole tensors.
  struct RacedTiles {
    ConvolutionProblem problem;
    planning::Platform platform;
    std::string about;  // names the tiles and the engine
    Trust trust;
  };
  // An engine whose result on one kind of tile matched the result of a reference.
  struct TrustedTile {
    ComparedTile tile;
    planning::Platform platform;
    bool operator==(const TrustedTile&) const = default;
  };

  static Family LegacyFamily(const ConvolutionProblem& problem, const planning::Platform& platform);
  // Returns the family to which measurements of `engine` belong.
  static Family FamilyOf(const ConvolutionProblem& problem, const planning::Platform& platform,
                         const EngineId& engine);
  // Returns the family of the measurements that `question` asks for.
  static Family FamilyAsked(const Device& device, const Question& question);
  // Returns the entry of `family`. A new entry is read from the store first. The address of an
  // entry never changes.
  KnownRows& RowsOf(const Family& family);
  // Reads the rows that the store has for `family` now, and puts them into `known`.
  void Refresh(const Family& family, KnownRows& known);
  // Returns false if legacy algorithms were measured at `size`, but none with the math type of the
  // problem's descriptor. Earlier releases measured only algorithms that the library lists, so a
  // store may have such rows. Requires the lock.
  static bool HasOwnMath(const KnownRows& known, int size);
  // If `row` is of a graph engine without fused operations, notes that this engine was measured for
  // the kernel, with its time per image. Requires the lock.
  static void NoteGraphEngine(const MicroConfiguration& row, KnownRows& legacy);
  enum class Extent { kAll, kFitting };
  // Reads the store again, then measures the sizes of `sizes` that are still missing, within the
  // budget. Fails if measuring failed or was not possible.
  Status MeasureMissing(const Device& device, const Question& question, const Family& family,
                        const std::vector<int>& sizes, Extent extent, KnownRows& known);
  // Returns the entry to which the time of measuring `question` is charged: the entry of the legacy
  // kernel if question.legacy_share is set, otherwise `known`.
  KnownRows& AccountOf(const Device& device, const Question& question, KnownRows& known);
  // Returns whether `account` has more time than `needed` left for mini-batch `n`.
  bool HasTimeFor(int n, KnownRows& account, Clock::duration needed = {});
  // Measures `sizes`, and adds the rows that the store then has for these sizes to `known`.
  Status Measure(const Device& device, const Question& question, const Family& family,
                 const std::vector<int>& sizes, const MeasureLimits& limits, KnownRows& known);
  // Returns the sizes among `sizes` at which `problem` still has to be measured.
  std::vector<int> Missing(const ConvolutionProblem& problem, const KnownRows& known,
                           const std::vector<int>& sizes);
  // Calls Question::need for the rows at `sizes` for which it was not called yet. Raises the
  // workspace of each row to the result if that is larger.
  void Confirm(const Question& question, KnownRows& known, const std::vector<int>& sizes);
  // Returns the rows of all engines at `sizes` of `problem`, except engines that were found wrong.
  std::vector<MicroConfiguration> RowsAt(const ConvolutionProblem& problem, const KnownRows& known,
                                         const std::vector<int>& sizes);
  // Sets `untried` to the pieces of `configuration` that were not yet compared as `proof` demands.
  // Returns false if a piece was found wrong. With `reread`, reads the store again first.
  bool FindUntried(const Device& device, const ConvolutionProblem& problem,
                   const Configuration& configuration, planning::Proof proof, bool reread,
                   std::vector<MicroConfiguration>& untried);
  // Takes a turn for comparing (MeasuringTurns::Take). Its length depends on the time that the
  // family of the largest piece's engine has left.
  Result<MeasuringTurns::Turn> TurnToCompare(const Device& device,
                                             const ConvolutionProblem& problem,
                                             const Configuration& configuration);
  // Calls `compare` within the limits of `turn`. Charges the time to the family of the largest
  // piece's engine.
  Verification CompareNow(const Device& device, const ConvolutionProblem& problem,
                          const Configuration& configuration, const MeasuringTurns::Turn& turn,
                          const std::function<Verification(const MeasureLimits&)>& compare);
  // Compares the output of tiles with the undivided engine's output, and notes the result in the
  // store. Compares each kind of tile alone. If the memory for measuring holds the whole
  // convolution, also compares the output of all tiles together. If the memory is too small for
  // that, comparing the kinds is enough, unless Compare::need_whole is set. This function and those
  // up to DropTiles are in measured_tilings.cpp.
  Trust VerifyTiles(const Device& device, const ConvolutionProblem& problem,
                    const planning::Compare& question, const EngineScope& scope);
  // Times trusted tiles and the engine `question.faster_than` in turn, on the whole tensors, and
  // notes the result in the store. The result is kSlower unless the tiles are faster by
  // kHysteresis. If the memory for measuring cannot hold the whole convolution, nothing is timed,
  // and the tiles stay trusted unless Compare::need_whole is set.
  Trust RaceTiles(const Device& device, const ConvolutionProblem& problem,
                  const planning::Compare& question, const EngineScope& scope);
  // Returns the known result of RaceTiles for the tiles and the engine that `about` names; none if
  // no result is known.
  std::optional<Trust> FindRace(const Device& device, const ConvolutionProblem& problem,
                                const std::string& about);
  // Compares the kinds of tiles that are not trusted yet.
  Verification CompareKinds(const Device& device, const ConvolutionProblem& problem,
                            const Division& division, const MeasureLimits& limits,
                            const EngineScope& scope);
  // Returns the known tilings of `family` within `limit_bytes`. For tilings, family.problem.n is
  // the mini-batch, not 0.
  planning::Tilings KnownTilings(const Family& family, size_t limit_bytes);
  // Adds all grids that an earlier search has found, according to its note in the store. Returns
  // false if there is no note, or if a measurement of a grid is missing. If the question forbids
  // measuring, reads the store only at the first call for each limit.
  bool RecallTilings(const Device& device, const Question& question, const TilingTask& task,
                     const Family& family);
  void KeepTilings(const Family& family, std::vector<planning::Tiling> tilings);
  // Writes a note to the store, if there is one. Warns if the store fails.
  void KeepNote(const ConvolutionProblem& problem, const Device& device, const std::string& about,
                const std::string& note);
  // Measures grids of tiles until the deadline of `limits`, and notes the result.
  void MeasureTilings(const Device& device, const Question& question, const TilingTask& task,
                      const Family& family, const MeasureLimits& limits);
  // Removes the engines of `configuration` from the measurements that are known for its grid.
  void DropTiles(const ConvolutionProblem& problem, const Configuration& configuration);
  // Returns the next sizes that policy auto asks for, ascending; empty if it needs no more.
  std::vector<int> NextSizes(const Question& question, size_t l2_bytes, KnownRows& known,
                             const std::vector<int>& asked);

  planning::MeasurementStore* const store_;
  MeasuringProgress& progress_;
  MeasuringTurns turns_;
  std::atomic<long> measured_ = 0;
  std::atomic<long> measured_kernels_ = 0;
  std::atomic<bool> unstored_ = false;  // writing to the store failed
  Mutex mutex_;  // guards the members below; never held while measuring or reading the store
  std::unordered_map<Family, KnownRows, FamilyHash> known_ UCUDNN_GUARDED_BY(mutex_);
  std::unordered_map<Family, TilesOfFamily, FamilyHash> tilings_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<ComparedTiles> compared_tiles_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<RacedTiles> raced_tiles_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<TrustedTile> trusted_tiles_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::tuning
