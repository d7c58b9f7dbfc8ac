// The application's calls of cuDNN: the parts that the whole process shares, and the two APIs that
// use them. Every function answers as the real one does. If something fails inside ucudnn, calls
// behave as without ucudnn, within the promises that were given. Thread-safe. Functions throw only
// when host memory is out; the C entry points in shim/ catch that.
#pragma once

#include <string>

#include "interposer/graph/graph_plans.h"
#include "interposer/legacy/legacy_calls.h"
#include "interposer/process.h"

namespace ucudnn::interposer {

class Interposer {
 public:
  // `driver` may be null (no CUDA); then every call is forwarded. `store` may be null; then
  // measurements are lost when the process ends. `hosts_share_store` says whether processes of
  // other hosts write to the store, too. The caller owns all arguments and keeps them alive.
  Interposer(const Options& options, const cudnn::Functions& functions, const cuda::Driver* driver,
             planning::MeasurementStore* store, bool hosts_share_store = true)
      : process_(options, functions, driver, store, hosts_share_store),
        legacy_(options, functions, process_.sessions, process_.budgets, process_.splitter,
                process_.limit, process_.promises, process_.rules, process_.reporter,
                process_.legacy_tuner),
        graph_(options, functions, process_.sessions, process_.budgets, process_.splitter,
               process_.kernels, process_.rules, process_.reporter) {
    process_.budgets.SetChoices(legacy_, graph_);
  }

  Process& process() { return process_; }
  LegacyCalls& legacy() { return legacy_; }
  GraphPlans& graph() { return graph_; }
  Sessions& sessions() { return process_.sessions; }
  Report& report() { return process_.reporter.report(); }

 private:
  Process process_;
  LegacyCalls legacy_;
  GraphPlans graph_;
};

}  // namespace ucudnn::interposer
