// Runs a trial's call, and checks its status, its output, and which convolutions the real library
// ran.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shim/host/hostgpu.h"
#include "trial.h"

namespace ucudnn::fuzz {

using test::Bytes;
using test::Extra;
using test::GuardedMemory;
using test::Undivided;

void Coverage::Add(const Coverage& other) {
  problems += other.problems;
  divided += other.divided;
  mixed += other.mixed;
  below_need += other.below_need;
  misaligned += other.misaligned;
  refused += other.refused;
  recovered += other.recovered;
  rounded += other.rounded;
  measured += other.measured;
  compared += other.compared;
  checked += other.checked;
  over_limit += other.over_limit;
}

std::string Trial::Run() {
  ++coverage_.problems;
  coverage_.measured += setting_.options.tuning.on;
  Prepare();
  Ask();
  if (wrong_.empty()) Execute();
  if (wrong_.empty() && testing::Test::HasFailure()) Wrong("the test itself failed, see above");
  return wrong_;
}

void Trial::Execute() {
  const size_t need = RealNeed(convolution_, algorithm_).value_or(0);
  const size_t bytes = call_.workspace.Bytes(told_bytes_.value_or(need), need);
  const GuardedMemory workspace(call_.null_workspace ? 0 : bytes, call_.workspace_placement);
  // Only algorithm 0 must accept pointers that are not aligned to 16 bytes. So the other algorithms
  // are not called with such pointers.
  if (!Aligned(workspace)) {
    if (algorithm_ != 0) return;
    ++coverage_.misaligned;
  }
  if (!RunReal(workspace)) return;
  for (int run = 0; run < call_.runs && wrong_.empty(); ++run) {
    // With UCUDNN_CHECK a plan runs in ucudnn's own memory first. Another test covers pieces that
    // fail in that run.
    const bool may_fail = run == 0 && !setting_.options.check;
    RunOurs(workspace, may_fail ? call_.failing_piece : 0);
  }
}

// Makes the same call to the stand-in, which is the real library here. Returns false if that call
// did something wrong.
bool Trial::RunReal(const GuardedMemory& workspace) {
  real_ = convolution_.Run(Undivided(), algorithm_, workspace.data(), workspace.bytes(),
                           call_.what.scales);
  const Bytes actual = convolution_.TakeOutput();
  if (real_ == CUDNN_STATUS_SUCCESS) CheckOutput("the stand-in's", actual);
  CheckNothingElse(workspace, "by the stand-in");
  return wrong_.empty();
}

void Trial::RunOurs(const GuardedMemory& workspace, int failing_piece) {
  TakeRecorded(convolution_.handle());
  if (failing_piece > 0) hostgpuInjectFault("convolution", failing_piece);
  const cudnnStatus_t status =
      convolution_.Run(ours_, algorithm_, workspace.data(), workspace.bytes(), call_.what.scales);
  hostgpuInjectFault("convolution", 0);
  const Bytes actual = convolution_.TakeOutput();
  CheckNothingElse(workspace, "by ucudnn");
  const std::vector<RealCall> calls = TakeRecorded(convolution_.handle());
  if (CheckRefusal(status, workspace, actual)) return;
  CheckStatus(status, workspace.bytes(), failing_piece, calls);
  if (status != CUDNN_STATUS_SUCCESS) {
    if (failing_piece == 0) ++coverage_.refused;
    return;
  }
  CheckOutput("ucudnn's", actual);
  const bool recovered = std::any_of(calls.begin(), calls.end(), [](const RealCall& call) {
    return call.status != CUDNN_STATUS_SUCCESS;
  });
  if (recovered) {
    ++coverage_.recovered;
    return;
  }
  if (setting_.options.check && calls.size() > 1 && calls.back().images == call_.what.problem.n) {
    ++coverage_.checked;
    return CheckCalls({calls.back()}, workspace);
  }
  CheckCalls(calls, workspace);
  coverage_.divided += calls.size() > 1;
  coverage_.compared +=
      calls.size() > 1 && std::any_of(setting_.rows.begin(), setting_.rows.end(),
                                      [](const auto& row) { return !row.verified; });
  coverage_.mixed += std::any_of(calls.begin(), calls.end(), [&](const RealCall& call) {
    return call.algorithm != calls[0].algorithm;
  });
  const size_t need = RealNeed(convolution_, algorithm_).value_or(0);
  coverage_.below_need += workspace.bytes() < need;
}

bool Trial::MustFit(const GuardedMemory& workspace) const {
  const bool demanded = setting_.options.workspace_limit || setting_.options.deterministic;
  return demanded && Aligned(workspace) && call_.what.extra != Extra::kIdentity &&
         MayBeServed(Class(algorithm_),
                     setting_.options.deterministic || IsDeterministic(operation_, algorithm_),
                     std::min(limit_, workspace.bytes()), math_);
}

bool Trial::CheckRefusal(cudnnStatus_t status, const GuardedMemory& workspace,
                         const Bytes& output) {
  const size_t need = RealNeed(convolution_, algorithm_).value_or(0);
  if (!strict_ || status != CUDNN_STATUS_NOT_SUPPORTED || status == real_ || need <= limit_) {
    return false;
  }
  ++coverage_.over_limit;
  if (call_.fault != Fault::kNone) Wrong("a call is refused that the real library has to judge");
  if (MustFit(workspace)) Wrong("a call is refused though an engine fits the limit");
  if (told_bytes_ && *told_bytes_ <= std::min(limit_, workspace.bytes()) && Aligned(workspace)) {
    Wrong("a call is refused in the workspace it was told");
  }
  if (output != convolution_.output().content) Wrong("a refused call writes its output");
  return true;
}

void Trial::CheckStatus(cudnnStatus_t status, size_t bytes, int failing_piece,
                        const std::vector<RealCall>& calls) {
  if (status == CUDNN_STATUS_SUCCESS) {
    // ucudnn may turn a failing call into a success only if the workspace is less than the
    // algorithm needs.
    if (real_ != CUDNN_STATUS_SUCCESS && real_ != CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT) {
      Wrong("a call succeeds that is status " + Text(real_) + " in the real library");
    }
    return;
  }
  const bool failed = std::any_of(calls.begin(), calls.end(), [](const RealCall& call) {
    return call.status == CUDNN_STATUS_EXECUTION_FAILED;
  });
  if (failing_piece > 0 && failed) return CheckFailure(status, bytes, failing_piece, calls);
  if (status != real_) {
    return Wrong("a call is status " + Text(status) + ", real " + Text(real_));
  }
  if (told_bytes_ && bytes >= *told_bytes_ && call_.fault == Fault::kNone && aligned_ &&
      real_ == CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT) {
    Wrong("status " + Text(status) + " in " + std::to_string(bytes) + " bytes, told " +
          std::to_string(*told_bytes_));
  }
}

// Checks a failed call whose `failing_piece`-th piece failed.
void Trial::CheckFailure(cudnnStatus_t status, size_t bytes, int failing_piece,
                         const std::vector<RealCall>& calls) {
  if (status != CUDNN_STATUS_EXECUTION_FAILED && status != real_) {
    return Wrong("a failing piece becomes status " + Text(status));
  }
  // Only one algorithm supports a misaligned call or an identity activation, so there may be no
  // undivided engine to fall back on.
  if (!aligned_ || call_.what.extra == Extra::kIdentity) return;
  // If a piece may have changed the output that a rerun would read, nothing may run again.
  if (failing_piece > 1 && call_.what.scales.beta != 0) return;
  // If the last call was the undivided call of the caller's algorithm, nothing is left to run.
  if (calls.back().images == call_.what.problem.n && calls.back().algorithm == algorithm_) return;
  // If no undivided engine can run this call within the workspace, only pieces can, and nothing can
  // replace a piece that failed.
  const size_t room = std::min(limit_, bytes);
  const bool own_is_deterministic = IsDeterministic(operation_, algorithm_);
  const bool own_call_keeps = RealNeed(convolution_, algorithm_).value_or(SIZE_MAX) <= room &&
                              (own_is_deterministic || !setting_.options.deterministic);
  if (!own_call_keeps &&
      !MayBeServed(Class(algorithm_), setting_.options.deterministic || own_is_deterministic, room,
                   math_)) {
    return;
  }
  Wrong("a failing piece is not made good");
}

void Trial::CheckCalls(const std::vector<RealCall>& calls, const GuardedMemory& workspace) {
  const size_t bytes = workspace.bytes();
  const bool must_fit = MustFit(workspace);
  const size_t element = ElementBytes(call_.what.problem.type);
  const auto* x = static_cast<const char*>(convolution_.x.memory.data());
  const auto* y = static_cast<const char*>(convolution_.y.memory.data());
  int images = 0;
  for (const RealCall& call : calls) {
    const std::string piece = "a piece of algorithm " + std::to_string(call.algorithm);
    if (call.x != x + images * call_.what.problem.x_strides[0] * element ||
        call.y != y + images * call_.what.problem.y_strides[0] * element) {
      Wrong(piece + " starts elsewhere");
    }
    if (Offset(call.x) != Offset(x) || Offset(call.y) != Offset(y)) {
      Wrong(piece + " is less aligned than the caller's pointers");
    }
    images += call.images;
    const NumericClass numeric = Class(call.algorithm);
    if (numeric != NumericClass::kDirect && numeric != Class(algorithm_)) {
      Wrong(piece + " is less exact than algorithm " + std::to_string(algorithm_));
    }
    const bool random = !IsDeterministic(operation_, call.algorithm);
    if (random && deterministic_ && (!told_bytes_ || bytes >= *told_bytes_))
      Wrong(piece + " is not deterministic");
    if (strict_ && call.need > limit_) Wrong(piece + " is over the strict limit");
    if (!must_fit) continue;
    if (random && setting_.options.deterministic)
      Wrong(piece + " is not deterministic as demanded");
    if (call.need > limit_)
      Wrong(piece + " uses " + std::to_string(call.need) + ": over the limit");
  }
  if (images != call_.what.problem.n)
    Wrong("the pieces have " + std::to_string(images) + " images");
  if (!on_ && calls.size() != 1) Wrong("pieces run with ucudnn off");
}

// Winograd transforms are allowed 100 times the rounding of a sum of magnitude 4 L, which is the
// bound of the engines' own test. L is the number of products, and each product is of two values up
// to 2. Then the expected and the actual output are each rounded to the problem's type.
double Trial::Tolerance(size_t element) const {
  const ConvolutionProblem& problem = call_.what.problem;
  const Spatial out = OutputExtents(problem);
  const double taps = 1.0 * problem.w[0] * problem.w[1] * problem.w[2];
  const double length = operation_ == Operation::kForward ? taps * problem.c / problem.groups
                        : operation_ == Operation::kBackwardData
                            ? taps * problem.k / problem.groups
                            : 1.0 * problem.n * out[0] * out[1] * out[2];
  const double type_unit = problem.type == DataType::kHalf       ? 0x1p-11
                           : problem.type == DataType::kBfloat16 ? 0x1p-8
                                                                 : 0x1p-24;
  const double rounding = 100 * 0x1p-24 * 4 * length * std::abs(call_.what.scales.alpha);
  const test::Operand& output = const_cast<test::Convolution&>(convolution_).output();
  const double value = std::abs(output.Get(expected_, element)) + rounding;
  // A value is rounded before the bias or z is added. So the value may be larger than the result by
  // the magnitude of the bias or z.
  const double extra = call_.what.extra == Extra::kNone ? 0 : 6;
  return rounding + 4 * type_unit * (value + extra);
}

void Trial::CheckOutput(const char* whose, const Bytes& actual) {
  if (expected_.empty()) return Wrong(std::string(whose) + " call runs where none should");
  bool equal = true;
  if (Class(algorithm_) == NumericClass::kDirect) {
    equal = convolution_.OutputEquals(expected_, actual);
  } else {
    ++coverage_.rounded;
    Bytes near = actual;
    const size_t bytes = ElementBytes(call_.what.problem.type);
    const test::Operand& output = convolution_.output();
    output.ForEach([&](size_t element) {
      const double difference =
          std::abs(output.Get(expected_, element) - output.Get(actual, element));
      equal &= difference <= Tolerance(element);
      std::copy_n(&expected_[element * bytes], bytes, &near[element * bytes]);
    });
    equal &= near == expected_;
  }
  if (!equal) Wrong(std::string(whose) + " output differs");
}

void Trial::CheckNothingElse(const GuardedMemory& workspace, const char* when) {
  if (!convolution_.NothingElseWasWritten()) {
    Wrong(std::string("something beside the output was written ") + when);
  }
  if (!workspace.GuardsAreIntact()) {
    Wrong(std::string("something beside the workspace was written ") + when);
  }
}

}  // namespace ucudnn::fuzz
