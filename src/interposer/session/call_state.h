// The decision about equal calls of the legacy API. Equal calls have the same problem, algorithm,
// kind and workspace size.
#pragma once

#include <cstdint>

#include "convolution/problem.h"
#include "interposer/core/kernel_state.h"
#include "interposer/session/promise_page.h"

namespace ucudnn::interposer {

using planning::CallKind;

struct CallKey {
  ConvolutionProblem problem;
  int32_t algorithm = 0;
  CallKind kind = CallKind::kPlain;
  uint64_t workspace_bytes = 0;
  bool operator==(const CallKey&) const = default;
};

struct CallKeyHash {
  size_t operator()(const CallKey& key) const {
    return key.problem.Hash() ^ (key.workspace_bytes * 0x9e3779b97f4a7c15u) ^
           (static_cast<uint64_t>(key.algorithm) << 8) ^ static_cast<uint64_t>(key.kind);
  }
};

struct CallState : KernelState {
  PromisePage* page = nullptr;  // the promises on which the decision is based
  uint64_t version = 0;         // version of the page at the decision

  void Count(uint64_t lane) {
    if (due_at.load(std::memory_order_relaxed) != kFinal) {
      page->calls.fetch_add(1, std::memory_order_relaxed);
    }
    record->Count(lane);
  }
};

}  // namespace ucudnn::interposer
