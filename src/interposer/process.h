// The parts that both APIs share. Each process has one object, in the Interposer that shim/ makes
// and never destroys. The object owns and connects the parts, and decides nothing. Thread-safe.
#pragma once

#include "cuda/driver.h"
#include "cudnn/functions.h"
#include "interposer/budget/budgets.h"
#include "interposer/core/kernel_rules.h"
#include "interposer/legacy/legacy_kernel.h"
#include "interposer/legacy/promise_book.h"
#include "interposer/pinned/followed_plan.h"
#include "interposer/report/measuring_line.h"
#include "interposer/report/reporter.h"
#include "interposer/spatial/split_operation.h"
#include "options/options.h"
#include "planning/measurement_store.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::interposer {

struct Process {
  // Interposer's constructor describes the arguments.
  Process(const Options& options, const cudnn::Functions& functions, const cuda::Driver* driver,
          planning::MeasurementStore* store, bool hosts_share_store);

  SplitContext split_context() { return {functions, sessions, splitter}; }
  // To be called at the end of the process. Tells the user how much was measured.
  void TellMeasured();

  const Options& options;
  const cudnn::Functions& functions;
  const cuda::Driver* const driver;  // null without CUDA: then every call is forwarded
  MeasuringLine measuring;
  tuning::MeasuredKernels kernels;
  FollowedPlan followed_plan;
  LegacyTuner legacy_tuner;
  WorkspaceLimit limit;
  PromiseBook promises;  // promises to callers of the legacy API
  Reporter reporter;
  Budgets budgets;
  Sessions sessions;
  Splitter splitter;
  KernelRules rules;
};

}  // namespace ucudnn::interposer
