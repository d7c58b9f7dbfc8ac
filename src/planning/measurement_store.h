// Keeps measurements for other processes. db/ and tests implement this interface. Implementations
// are thread-safe and never throw. If a store fails, its callers warn and go on without it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn::planning {

// The platform on which measurements depend, besides the kernel.
struct Platform {
  std::string device;  // as the driver names it
  int cudnn = 0;       // cudnnGetVersion(); 0: unknown
  int driver = 0;      // cuDriverGetVersion(); 0: unknown

  bool operator==(const Platform&) const = default;
};

struct Measurement {
  MicroConfiguration micro;
  int samples = 0;  // number of samples, of which time_ms is the median
  // The engine's output matched the undivided engine's output once on this platform.
  bool verified = false;

  bool operator==(const Measurement&) const = default;
};

// Measurements and complete sizes of one kernel family on one platform.
struct KernelMeasurements {
  std::vector<Measurement> rows;  // in ascending order of micro-batch, then by engine
  // Micro-batch sizes, ascending, at which every engine was measured. At other sizes time or memory
  // was short, so the fastest engine may be missing.
  std::vector<int> complete_sizes;

  bool operator==(const KernelMeasurements&) const = default;
};

// A promise of less or of more workspace than an execution plan of the graph API needs. Frameworks
// keep an engine and its workspace between processes, so such a promise is given once and never
// grows. Its key is problem, platform, engine and limit.
struct EnginePromise {
  ConvolutionProblem problem;  // includes the mini-batch
  Platform platform;
  EngineId engine;
  size_t limit_bytes = 0;      // the ceiling under which the promise was given
  size_t workspace_bytes = 0;  // at most the ceiling
  // The engine that keeps the promise in one piece; empty: only pieces keep it.
  EngineId undivided;
  // True if `undivided` may run even where pieces could: the plan is the first of a heuristics
  // list, its promise exceeds its need, or the promised configuration has another engine than the
  // plan.
  bool any_engine = false;

  bool operator==(const EnginePromise&) const = default;
};

// Return Ok, or why no store can hold `promise`. CheckPromiseKey does not check the workspace,
// which FindPromise does not use.
Status CheckPromise(const EnginePromise& promise);
Status CheckPromiseKey(const EnginePromise& promise);

class MeasurementStore {
 public:
  virtual ~MeasurementStore() = default;

  // Returns the place where measurements are written, for messages; empty if other processes cannot
  // find that place.
  virtual std::string Place() { return {}; }

  // Returns all measurements of a kernel family (problem.n is ignored) on `platform`, unfiltered.
  virtual Result<KernelMeasurements> Read(const ConvolutionProblem& problem,
                                          const Platform& platform) = 0;
  // Returns the results of Read for all problems, in their order.
  virtual Result<std::vector<KernelMeasurements>> ReadAll(
      const std::vector<ConvolutionProblem>& problems, const Platform& platform);

  // Adds measurements in one transaction, and records in it that every engine was measured at
  // `complete_sizes`. The first writer wins: a stored row for the same engine and micro-batch does
  // not change.
  virtual Status Write(const ConvolutionProblem& problem, const Platform& platform,
                       const std::vector<Measurement>& measurements,
                       const std::vector<int>& complete_sizes) = 0;

  // Records that the output of each row's engine, at the row's micro-batch size, matched the
  // undivided engine's output on `platform`. From now on, Read returns these rows as verified,
  // whichever process measured them.
  virtual Status MarkVerified(const ConvolutionProblem& problem, const Platform& platform,
                              const std::vector<MicroConfiguration>& rows) = 0;

  // FindNote returns the note that KeepNote stored last under the same arguments; none if there is
  // none. A store need not keep notes; the base class keeps none.
  virtual Result<std::optional<std::string>> FindNote(const ConvolutionProblem& problem,
                                                      const Platform& platform,
                                                      const std::string& about);
  virtual Status KeepNote(const ConvolutionProblem& problem, const Platform& platform,
                          const std::string& about, const std::string& note);

  // Returns the promise under the key of `asked`; none if no promise was kept.
  virtual Result<std::optional<EnginePromise>> FindPromise(const EnginePromise& asked) = 0;

  // Keeps `promise` and returns it. If a promise is already kept under its key, returns the kept
  // promise instead. Fails if CheckPromise fails.
  virtual Result<EnginePromise> KeepPromise(const EnginePromise& promise) = 0;
};

}  // namespace ucudnn::planning
