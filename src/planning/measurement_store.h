// Where measurements live between processes: an interface, implemented by db/ and by tests.
// Implementations are thread-safe and never throw; a store that fails costs a warning, not a
// result.
#pragma once

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

class MeasurementStore {
 public:
  virtual ~MeasurementStore() = default;

  // All measurements of a kernel family (problem.n is ignored) on `platform`, unfiltered.
  virtual Result<std::vector<Measurement>> Read(const ConvolutionProblem& problem,
                                                const Platform& platform) = 0;

  // Adds measurements in one transaction. First writer wins: a row whose engine and micro-batch are
  // there already is left as it is.
  virtual Status Write(const ConvolutionProblem& problem, const Platform& platform,
                       const std::vector<Measurement>& measurements) = 0;
};

}  // namespace ucudnn::planning
