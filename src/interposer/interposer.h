// The application's calls of cuDNN: the legacy API, the graph API, and the parts that both share.
// Each process has one object, which shim/ makes and never destroys. The object owns and connects
// the parts, and decides nothing. Every function of an API answers as the real one does. If
// something fails inside ucudnn, calls behave as without ucudnn, within the promises that were
// given. Thread-safe. Functions throw only when host memory is out; the C entry points in shim/
// catch that.
#pragma once

#include "interposer/graph/graph_plans.h"
#include "interposer/legacy/legacy_calls.h"
#include "interposer/report/measuring_line.h"
#include "interposer/spatial/splitter.h"

namespace ucudnn::interposer {

class Interposer {
 public:
  // `driver` may be null (no CUDA); then every call is forwarded. `store` may be null; then
  // measurements are lost when the process ends. `hosts_share_store` says whether processes of
  // other hosts write to the store, too. The caller owns all arguments and keeps them alive.
  Interposer(const Options& options, const cudnn::Functions& functions, const cuda::Driver* driver,
             planning::MeasurementStore* store, bool hosts_share_store = true);

  const cudnn::Functions& functions() const { return functions_; }
  tuning::MeasuredKernels& kernels() { return kernels_; }
  LegacyTuner& legacy_tuner() { return legacy_tuner_; }
  WorkspaceLimit& limit() { return limit_; }
  Reporter& reporter() { return reporter_; }
  Report& report() { return reporter_.report(); }
  Budgets& budgets() { return budgets_; }
  Sessions& sessions() { return sessions_; }
  Splitter& splitter() { return splitter_; }
  KernelRules& rules() { return rules_; }
  LegacyCalls& legacy() { return legacy_; }
  GraphPlans& graph() { return graph_; }
  SplitContext split_context() { return {functions_, sessions_, splitter_}; }
  // To be called at the end of the process. Tells the user how much was measured.
  void TellMeasured();

 private:
  // A part may refer to a part that is declared below it, but does not use that part before the
  // constructor of Interposer has ended.
  const cudnn::Functions& functions_;
  MeasuringLine measuring_;
  tuning::MeasuredKernels kernels_;
  FollowedPlan followed_plan_;
  LegacyTuner legacy_tuner_;
  WorkspaceLimit limit_;
  PromiseBook promises_;  // promises to callers of the legacy API
  Reporter reporter_;
  Budgets budgets_;
  Sessions sessions_;
  Splitter splitter_;
  KernelRules rules_;
  LegacyCalls legacy_;
  GraphPlans graph_;
};

}  // namespace ucudnn::interposer
