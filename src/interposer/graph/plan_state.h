// The decision about an execution plan and all that are equal to it: the same JSON in the same
// context, under the same limit.
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

// Where more is known later, `better` replaces the state, while other threads may still run this
// one. Never destroyed: native CUDA graphs may use its plans' kernels at any time.
struct PlanState : KernelState {
  EngineTemplate own;
  CUcontext context = nullptr;
  size_t need_bytes = 0;             // of the plan as the application built it
  bool is_heuristics_first = false;  // the first of a list of the heuristics
  bool comes_late = false;           // as GraphKernel::comes_late
  size_t limit_bytes = 0;            // the user's, when the plan was finalized
  // The state whose pieces become native CUDA graphs: the first that did, among all that replace
  // each other. So the update of a graph finds the division that the graph has.
  std::shared_ptr<std::atomic<PlanState*>> native =
      std::make_shared<std::atomic<PlanState*>>(nullptr);
  // Set where less was promised than the plan needs: an undivided plan inside the promise, which
  // runs wherever pieces cannot; null where only pieces keep the promise. The application's own
  // plan never runs again.
  std::shared_ptr<const cudnn::BackendDescriptor> substitute;
  EngineTemplate other;  // the substitute's engine
  // Held while `substitute` and the pieces' plans are used. Two threads with a handle and a plan
  // each may share this state, or states that replace each other, which share plans, and cuDNN does
  // not promise that one plan runs on two threads at once.
  std::shared_ptr<Mutex> executing = std::make_shared<Mutex>();
  // Set where one budget holds for all kernels, and less was promised than the plan needs.
  WorkspaceBudget* budget = nullptr;
  std::atomic<bool> looking = false;  // a thread decides anew
  // The plan's scales in the form that ConvolutionCall takes: `wide` ones for fp64.
  float alpha = 1, beta = 0;
  double wide_alpha = 1, wide_beta = 0;
  std::atomic<PlanState*> better = nullptr;  // null: none yet; keeps the same promise
  // Given when the plan is finalized: the same for equal plans and for what replaces their state,
  // and no other plan's.
  uint64_t number = 0;

  BudgetKernel budget_kernel() const { return {Api::kGraph, own->convolution.problem, number}; }
  bool promises_less() const { return decision.promises_less; }
  // The program is told of Decision::promised_bytes, not of what the plan needs.
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
  // The plan of Decision::otherwise, which runs undivided: never the application's own where less
  // was promised than it needs. Null where only pieces keep the promise.
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
