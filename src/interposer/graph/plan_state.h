// The decision about an execution plan and all plans that are equal to it: they have the same JSON
// and context, and are under the same limit.
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

// When more is known later, `better` replaces the state, while other threads may still run this
// one. It is never destroyed: native CUDA graphs may use its plans' kernels at any time.
struct PlanState : KernelState {
  EngineTemplate own;
  CUcontext context = nullptr;
  size_t need_bytes = 0;             // need of the plan as the application built it
  bool is_heuristics_first = false;  // the first of a list of the heuristics
  bool comes_late = false;           // see GraphKernel::comes_late
  size_t limit_bytes = 0;            // the user's limit when the plan was finalized
  // The state whose pieces become native CUDA graphs. States replace each other; this is the first
  // of them that became a graph, so that the update of a graph finds the graph's division.
  std::shared_ptr<std::atomic<PlanState*>> native =
      std::make_shared<std::atomic<PlanState*>>(nullptr);
  // Set if less was promised than the plan needs: an undivided plan inside the promise, which runs
  // wherever pieces cannot; null if only pieces keep the promise. The application's own plan never
  // runs again.
  std::shared_ptr<const cudnn::BackendDescriptor> substitute;
  EngineTemplate other;  // the substitute's engine
  // Held while `substitute` and the pieces' plans are used. Two threads with a handle and a plan
  // each may share this state, or states that replace each other, which share plans, and cuDNN does
  // not promise that one plan runs on two threads at once.
  std::shared_ptr<Mutex> executing = std::make_shared<Mutex>();
  // Set if one budget holds for all kernels, and less was promised than the plan needs.
  WorkspaceBudget* budget = nullptr;
  std::atomic<bool> looking = false;  // a thread decides anew
  // The plan's scales in the form that ConvolutionCall takes: `wide` ones for fp64.
  float alpha = 1, beta = 0;
  double wide_alpha = 1, wide_beta = 0;
  std::atomic<PlanState*> better = nullptr;  // null: none yet; it keeps the same promise
  // The number that the plan got when it was finalized. Equal plans, and states that replace their
  // state, have the same number; no other plan has it.
  uint64_t number = 0;

  BudgetKernel budget_kernel() const { return {Api::kGraph, own->convolution.problem, number}; }
  bool promises_less() const { return decision.promises_less; }
  // Returns whether the program gets Decision::promised_bytes, instead of the plan's need.
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
  // Returns the plan that runs undivided by Decision::otherwise: never the application's own if
  // less was promised than it needs. Null if only pieces keep the promise.
  cudnnBackendDescriptor_t Undivided(cudnnBackendDescriptor_t plan) const {
    switch (decision.otherwise) {
      case planning::Otherwise::kReal:
        return plan;
      case planning::Otherwise::kUndivided:
        return substitute == nullptr ? nullptr : substitute->get();
      case planning::Otherwise::kPieces:
        break;
    }
    return nullptr;
  }
};

}  // namespace ucudnn::interposer
