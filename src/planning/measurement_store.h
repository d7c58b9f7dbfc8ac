// Stores measurements between processes. db/ and tests implement this interface. Implementations
// are thread-safe and never throw. A store that fails costs a warning, not a result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn::planning {

// The facts, beside the kernel itself, that measurements depend on.
struct Platform {
  std::string device;  // as the driver names it
  int cudnn = 0;       // cudnnGetVersion(); 0: unknown
  int driver = 0;      // cuDriverGetVersion(); 0: unknown

  bool operator==(const Platform&) const = default;
};

struct Measurement {
  MicroConfiguration micro;
  int samples = 0;        // timed runs behind time_ms (their median)
  bool verified = false;  // the output was compared once with the undivided one on this platform

  bool operator==(const Measurement&) const = default;
};

// Measurements and complete sizes of one kernel family on one platform in a store.
struct KernelMeasurements {
  std::vector<Measurement> rows;  // in ascending order of micro-batch, then by engine
  // Ascending micro-batch sizes at which every engine was measured. At other sizes time or memory
  // was short, and the fastest engine may be missing.
  std::vector<int> complete_sizes;

  bool operator==(const KernelMeasurements&) const = default;
};

// A promise of less workspace than an execution plan of the graph API needs. Frameworks keep an
// engine and its workspace between processes, so such a promise is given once and never grows. The
// key is problem, platform, engine and limit.
struct EnginePromise {
  ConvolutionProblem problem;  // with its mini-batch
  Platform platform;
  EngineId engine;
  size_t limit_bytes = 0;      // the ceiling that it was given under
  size_t workspace_bytes = 0;  // at most the ceiling
  EngineId undivided;          // the engine that keeps it in one piece; none: only pieces keep it
  // `undivided` may also run if pieces could, because the plan was the first of a heuristics list.
  bool any_engine = false;

  bool operator==(const EnginePromise&) const = default;
};

// Says why no store can hold `promise`; Ok if one can. Only the key of a promise is needed to find
// it.
Status CheckPromise(const EnginePromise& promise);
Status CheckPromiseKey(const EnginePromise& promise);

class MeasurementStore {
 public:
  virtual ~MeasurementStore() = default;

  // Returns where measurements are written, for messages; empty if no other process will find them.
  virtual std::string Place() { return {}; }

  // Returns all measurements of a kernel family (problem.n is ignored) on `platform`, unfiltered.
  virtual Result<KernelMeasurements> Read(const ConvolutionProblem& problem,
                                          const Platform& platform) = 0;
  // Returns what Read returns of each problem.
  virtual Result<std::vector<KernelMeasurements>> ReadAll(
      const std::vector<ConvolutionProblem>& problems, const Platform& platform);

  // Adds measurements, and the statement that every engine was measured at `complete_sizes`, in one
  // transaction. The first writer wins: a row whose engine and micro-batch are there already does
  // not change.
  virtual Status Write(const ConvolutionProblem& problem, const Platform& platform,
                       const std::vector<Measurement>& measurements,
                       const std::vector<int>& complete_sizes) = 0;

  // Notes that the output of these engines at these micro-batch sizes was compared with the
  // undivided one on `platform`. From now on their measurements read as verified, whoever made
  // them.
  virtual Status MarkVerified(const ConvolutionProblem& problem, const Platform& platform,
                              const std::vector<MicroConfiguration>& rows) = 0;

  // Returns the note under `about` on the whole mini-batch of `problem` on `platform`, in the words
  // of its writer; none if there is none. The last note under a key counts. A store may keep no
  // notes.
  virtual Result<std::optional<std::string>> FindNote(const ConvolutionProblem& problem,
                                                      const Platform& platform,
                                                      const std::string& about);
  virtual Status KeepNote(const ConvolutionProblem& problem, const Platform& platform,
                          const std::string& about, const std::string& note);

  // Returns the promise under the key of `asked`; none if none was kept.
  virtual Result<std::optional<EnginePromise>> FindPromise(const EnginePromise& asked) = 0;

  // Keeps `promise` and returns it. If a promise is already kept under its key, returns that one.
  // Fails if CheckPromise does.
  virtual Result<EnginePromise> KeepPromise(const EnginePromise& promise) = 0;
};

}  // namespace ucudnn::planning
