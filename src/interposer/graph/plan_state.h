// The decision about an execution plan and all plans that are equal to it: plans with the same
// JSON, context and limit.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cudnn/graph_engines.h"
#include "interposer/budget/workspace_budget.h"
#include "interposer/core/kernel_state.h"

namespace ucudnn::interposer {

using EngineTemplate = std::shared_ptr<const cudnn::GraphTemplate>;
using EngineTemplates = std::vector<EngineTemplate>;

// When more is known later, `better` replaces this state, but other threads may still run this
// state. States are never destroyed, because a native CUDA graph that was made from a state may be
// launched at any time.
struct PlanState : KernelState {
  EngineTemplate own;
  CUcontext context = nullptr;
  size_t need_bytes = 0;             // workspace that the application's plan needs
  bool is_heuristics_first = false;  // the plan is the first of a heuristics list
  bool comes_late = false;           // see GraphKernel::comes_late
  size_t limit_bytes = 0;            // the user's limit when the plan was finalized
  // The state whose pieces become native CUDA graphs; null: no state became a graph yet. States
  // that replace each other share this pointer. It keeps the first of these states that became a
  // graph, so that an update of a graph finds the graph's division.
  std::shared_ptr<std::atomic<PlanState*>> native =
      std::make_shared<std::atomic<PlanState*>>(nullptr);
  // An undivided plan that keeps the promise. It runs if the pieces cannot run. Set if less was
  // promised than the plan needs, unless only pieces keep that promise. After such a promise the
  // application's own plan never runs again.
  std::shared_ptr<const cudnn::BackendDescriptor> substitute;
  EngineTemplate other;  // the substitute's engine
  // Held while `substitute` and the pieces' plans are used. cuDNN does not promise that one plan
  // can run on two threads at the same time. But two threads, each with its own handle and plan,
  // may share this state. They may also have two states that share plans because one replaced the
  // other.
  std::shared_ptr<Mutex> executing = std::make_shared<Mutex>();
  // The budget for all kernels of the device. Set if there is one and less was promised than the
  // plan needs.
  WorkspaceBudget* budget = nullptr;
  std::atomic<bool> looking = false;  // a thread is deciding anew
  // The plan's scales in the form that ConvolutionCall needs: wide_alpha and wide_beta for fp64,
  // otherwise alpha and beta.
  float alpha = 1, beta = 0;
  double wide_alpha = 1, wide_beta = 0;
  // The state that replaces this one and keeps its promise; null: none yet.
  std::atomic<PlanState*> better = nullptr;
  // Identifies equal plans. Equal plans, and states that replace each other, have the same number;
  // no other plan has it.
  uint64_t number = 0;

  BudgetKernel budget_kernel() const { return {Api::kGraph, own->convolution.problem, number}; }
  bool promises_less() const { return decision.promises_less; }
  // Returns whether the program is told Decision::promised_bytes instead of the plan's need.
  bool promises_other() const { return decision.promises_less || decision.promises_more; }
  PlanState& Native() {
    PlanState* const chosen = native->load(std::memory_order_acquire);
    return chosen != nullptr ? *chosen : *this;
  }
  PlanState* Latest() {
    PlanState* latest = this;
    while (PlanState* next = latest->better.load(std::memory_order_acquire)) latest = next;
    return latest;
  }
  // Returns the plan that runs undivided according to Decision::fallback; null if only pieces keep
  // the promise. Never returns the application's own plan if less was promised than it needs.
  cudnnBackendDescriptor_t Undivided(cudnnBackendDescriptor_t plan) const {
    switch (decision.fallback) {
      case planning::FallbackKind::kReal:
        return plan;
      case planning::FallbackKind::kUndivided:
        return substitute == nullptr ? nullptr : substitute->get();
      case planning::FallbackKind::kPieces:
        break;
    }
    return nullptr;
  }
};

}  // namespace ucudnn::interposer
