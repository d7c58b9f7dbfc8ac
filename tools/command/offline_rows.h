// The rows of measurement stores, read into memory and sorted by platform and kernel, for planning
// without a device. Only reads store files. Thread-compatible.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "convolution/api.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "options/options.h"
#include "planning/measurement_store.h"

namespace ucudnn::command {

using Versions = std::pair<int, int>;  // versions of cuDNN and of the driver

struct HashOfProblem {
  size_t operator()(const ConvolutionProblem& problem) const { return problem.Hash(); }
};
// The rows of one platform, by kernel family.
using Measurements =
    std::unordered_map<ConvolutionProblem, std::vector<MicroConfiguration>, HashOfProblem>;
using Platforms = std::map<Versions, Measurements, std::greater<>>;  // the newest first

struct OfflineRows {
  std::string device;
  size_t differing = 0;  // number of rows for which an earlier store has another result
  Platforms platforms;
};

// Returns the rows of the device named `device` in the stores of `options`. If `device` is empty,
// the stores must have rows of one device only. If they have no rows of the device, the error names
// the devices that have rows, and `device_from`, which says where the device's name comes from.
Result<OfflineRows> ReadOfflineRows(const Options& options, const std::string& device,
                                    const std::string& device_from = "--device");

// Returns whether a call through `api` may use the row. Engines that belong to neither API count as
// legacy engines; only imported rows have them. If true, removes the math type of a legacy engine
// from row.engine, because plans name engines without it.
bool ServesApi(const ConvolutionProblem& problem, Api api, MicroConfiguration& row);

// The rows of one API's engines as a read-only store. For each kernel, the store has the rows of
// the newest platform that has any for this kernel.
class ApiRows : public planning::MeasurementStore {
 public:
  // `rows` must outlive the object.
  ApiRows(const OfflineRows& rows, Api api) : rows_(rows), api_(api) {}

  Result<planning::KernelMeasurements> Read(const ConvolutionProblem& problem,
                                            const planning::Platform& platform) override;
  Status Write(const ConvolutionProblem& problem, const planning::Platform& platform,
               const std::vector<planning::Measurement>& measurements,
               const std::vector<int>& complete_sizes) override;
  Status MarkVerified(const ConvolutionProblem& problem, const planning::Platform& platform,
                      const std::vector<MicroConfiguration>& rows) override;
  Result<std::optional<planning::EnginePromise>> FindPromise(
      const planning::EnginePromise& asked) override;
  Result<planning::EnginePromise> KeepPromise(const planning::EnginePromise& promise) override;

 private:
  const OfflineRows& rows_;
  const Api api_;
};

}  // namespace ucudnn::command
