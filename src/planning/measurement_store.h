// Where measurements live between processes: an interface, implemented by db/ and by tests.
// Implementations are thread-safe and never throw; a store that fails costs a warning, not a
// result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn::planning {

// What measurements depend on beside the kernel itself.
struct Platform {
  std::string device;  // as the driver names it
  int cudnn = 0;       // cudnnGetVersion(); 0: unknown
  int driver = 0;      // cuDriverGetVersion(); 0: unknown

  bool operator==(const Platform&) const = default;
};

struct Measurement {
  MicroConfiguration micro;
  int samples = 0;        // timed runs behind time_ms (their median)
  bool verified = false;  // output compared once with the undivided one on this platform

  bool operator==(const Measurement&) const = default;
};

// What is known of one kernel family on one platform.
struct KernelMeasurements {
  std::vector<Measurement> rows;  // by rising micro-batch, then by engine
  // Rising micro-batches at which every engine was measured. The rows of others are what a budget
  // or scarce memory left time and room for: the fastest engine may be missing.
  std::vector<int> complete_sizes;

  bool operator==(const KernelMeasurements&) const = default;
};

// A workspace that was promised for an engine of the graph API, less than it needs. Frameworks keep
// an engine and its workspace between processes: such a promise is given once and never grows.
struct EnginePromise {
  ConvolutionProblem problem;  // its n counts
  Platform platform;
  std::string engine;
  size_t limit_bytes = 0;      // the ceiling it was given under: the key ends here
  size_t workspace_bytes = 0;  // at most the ceiling
  std::string undivided;       // the engine that keeps it in one piece
  // Given to the first plan of a heuristics list: `undivided` may serve in place of pieces.
  bool any_engine = false;

  bool operator==(const EnginePromise&) const = default;
};

class MeasurementStore {
 public:
  virtual ~MeasurementStore() = default;

  // All measurements of a kernel family (problem.n is ignored) on `platform`, unfiltered.
  virtual Result<KernelMeasurements> Read(const ConvolutionProblem& problem,
                                          const Platform& platform) = 0;

  // Adds measurements in one transaction, and that the sizes among `complete_sizes` lack no engine
  // any more. First writer wins: a row whose engine and micro-batch are there already is left as it
  // is.
  virtual Status Write(const ConvolutionProblem& problem, const Platform& platform,
                       const std::vector<Measurement>& measurements,
                       const std::vector<int>& complete_sizes) = 0;

  // Notes that the output of these engines at these micro-batches was compared with the undivided
  // one on `platform`: from now on their measurements read as verified, whoever measured them.
  virtual Status MarkVerified(const ConvolutionProblem& problem, const Platform& platform,
                              const std::vector<MicroConfiguration>& rows) = 0;

  // The promise that `asked` names by its key; none when none was kept.
  virtual Result<std::optional<EnginePromise>> FindPromise(const EnginePromise& asked) = 0;

  // Keeps a promise, unless one is kept under its key: gives the one that is there now.
  virtual Result<EnginePromise> KeepPromise(const EnginePromise& promise) = 0;
};

}  // namespace ucudnn::planning
