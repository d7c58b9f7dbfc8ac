// Prepares a trial, and makes the queries that the caller makes before its call.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "convolution/partial_sums.h"
#include "random.h"
#include "trial.h"

namespace ucudnn::fuzz {

using cudnn::AlgorithmPerformance;
using test::Extra;
using test::GuardedMemory;
using test::Question;
using test::Undivided;

void Trial::Prepare() {
  Random random(call_.data_seed, {});
  // Partial sums may be rounded to bfloat16, which has 8 significant bits. If the data are -1, 0
  // and 1 and mostly 0, the sums stay so small that bfloat16 holds them exactly.
  const bool partials = SumsPartials(call_.what.problem);
  convolution_.Fill([&]() -> double {
    if (partials) return random.Chance(75) ? 0 : static_cast<double>(random.Between(-1, 1));
    return static_cast<double>(random.Between(-2, 2));
  });
  if (call_.spoiled) convolution_.SpoilOutput();
  for (const test::Operand* operand :
       {&convolution_.x, &convolution_.w, &convolution_.y, &convolution_.z}) {
    aligned_ &= Offset(operand->memory.data()) == 0;
  }
  const bool identity = call_.what.extra == Extra::kIdentity;
  if (call_.fault == Fault::kNone && (!identity || (aligned_ && RealNeed(convolution_, 1)))) {
    expected_ = convolution_.Expected(call_.what.scales);
  }
  BreakDescriptors();
}

void Trial::BreakDescriptors() {
  if (call_.fault == Fault::kNone) return;
  const cudnn::Descriptors& d = convolution_.descriptors();
  std::array<int, 5> extents = {}, strides = {};
  cudnnDataType_t type;
  cudnnTensorFormat_t format;
  int rank = 0;
  if (call_.fault == Fault::kOutputBatch) {
    Undivided().cudnnGetTensorNdDescriptor(d.y, 5, &type, &rank, extents.data(), strides.data());
    ++extents[0];
    EXPECT_EQ(
        Undivided().cudnnSetTensorNdDescriptor(d.y, type, rank, extents.data(), strides.data()),
        CUDNN_STATUS_SUCCESS);
    return;
  }
  Undivided().cudnnGetFilterNdDescriptor(d.w, 5, &type, &format, &rank, extents.data());
  if (call_.fault == Fault::kFilterChannels) {
    ++extents[1];
  } else {
    type = type == CUDNN_DATA_FLOAT ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
  }
  EXPECT_EQ(Undivided().cudnnSetFilterNdDescriptor(d.w, type, format, rank, extents.data()),
            CUDNN_STATUS_SUCCESS);
}

bool Trial::MayBeServed(NumericClass numeric, bool deterministic, size_t limit,
                        std::optional<MathType> math) const {
  if (!on_ || !setting_.has_store) return false;
  // An automatic limit depends on the free memory, so it may be 0.
  if (setting_.options.workspace_limit_auto) limit = 0;
  return std::any_of(setting_.rows.begin(), setting_.rows.end(), [&](const auto& row) {
    const MicroConfiguration& micro = row.micro;
    const EngineId::Legacy* const engine = micro.engine.legacy();
    if (engine == nullptr) return false;
    const NumericClass offered = Class(engine->algorithm);
    const bool right_math = !math || (*math == setting_.problem.math && !engine->math);
    return right_math && micro.micro_batch == call_.what.problem.n &&
           std::isfinite(micro.time_ms) && micro.workspace_bytes <= limit &&
           (micro.deterministic || !deterministic) &&
           (offered == NumericClass::kDirect || offered == numeric);
  });
}

void Trial::Ask() {
  algorithm_ = call_.algorithm;
  math_ = call_.what.problem.math;
  deterministic_ =
      IsDeterministic(operation_, algorithm_) && !earlier_.random_algorithms.contains(algorithm_);
  switch (call_.protocol) {
    case Protocol::kNone:
      break;
    case Protocol::kWorkspaceSize:
      AskForSize(algorithm_);
      break;
    case Protocol::kGet:
      AskForAlgorithms(Question::kGet);
      break;
    case Protocol::kFind:
      AskForAlgorithms(Question::kFind);
      break;
    case Protocol::kFindEx:
      AskForAlgorithms(Question::kFindEx);
      break;
  }
}

void Trial::AskForSize(int algorithm) {
  size_t ours = 0, real = 0;
  const cudnn::Descriptors& d = convolution_.descriptors();
  const cudnnStatus_t status =
      cudnn::WorkspaceBytes(ours_, operation_, convolution_.handle(), d, algorithm, &ours);
  const cudnnStatus_t ought =
      cudnn::WorkspaceBytes(Undivided(), operation_, convolution_.handle(), d, algorithm, &real);
  // Only forward's algorithm 1 supports an identity activation, so ucudnn may not replace algorithm
  // 1 by another algorithm that needs less workspace.
  const bool bound = operation_ == Operation::kForward && algorithm == 1;
  const bool must_be_deterministic =
      setting_.options.deterministic || IsDeterministic(operation_, algorithm);
  const bool must_fit =
      !bound && MayBeServed(Class(algorithm), must_be_deterministic, limit_, math_);
  if (strict_ && status == CUDNN_STATUS_NOT_SUPPORTED && ought == CUDNN_STATUS_SUCCESS &&
      real > limit_) {
    ++coverage_.over_limit;
    if (must_fit) Wrong("a workspace size is refused though an engine fits");
    return;
  }
  if (status != ought) {
    return Wrong("the workspace size is status " + Text(status) + ", real " + Text(ought));
  }
  if (status != CUDNN_STATUS_SUCCESS) return;
  told_bytes_ = ours;
  if (!on_ && ours != real) Wrong("a workspace size differs with ucudnn off");
  if (ours > limit_ && (must_fit || strict_)) {
    Wrong("the workspace size " + std::to_string(ours) + " is above the limit");
  }
}

void Trial::AskForAlgorithms(Question question) {
  const GuardedMemory workspace(question == Question::kFindEx ? call_.lent : 0,
                                call_.workspace_placement);
  const auto ask = [&](const cudnn::Functions& library) {
    test::Answer answer = test::Ask(library, question, convolution_, call_.requested,
                                    workspace.data(), workspace.bytes());
    convolution_.TakeOutput();  // restores the output, which a search may overwrite
    CheckNothingElse(workspace, "by a search");
    return answer;
  };
  const test::Answer answer = ask(ours_);
  // A search by the real library takes long. So it runs only if ucudnn's query failed or the
  // descriptors have a fault. Otherwise it suffices that the answer of ucudnn's search is valid.
  if (question == Question::kGet || answer.status != CUDNN_STATUS_SUCCESS ||
      call_.fault != Fault::kNone) {
    const test::Answer real = ask(Undivided());
    if (strict_ && answer.status == CUDNN_STATUS_NOT_SUPPORTED &&
        real.status == CUDNN_STATUS_SUCCESS && call_.fault == Fault::kNone) {
      ++coverage_.over_limit;
      const size_t lent = question == Question::kFindEx ? call_.lent : SIZE_MAX;
      if (MayBeServed(NumericClass::kDirect, setting_.options.deterministic, std::min(limit_, lent),
                      std::nullopt)) {
        Wrong("a query is refused though an engine fits");
      }
      return;
    }
    if (answer.status != real.status) {
      return Wrong("a query is status " + Text(answer.status) + ", real " + Text(real.status));
    }
    if (!on_ && question == Question::kGet && answer.algorithms.size() != real.algorithms.size()) {
      return Wrong("an answer differs with ucudnn off");
    }
  }
  if (answer.status != CUDNN_STATUS_SUCCESS) return;
  CheckAnswer(question, answer, Aligned(workspace));
  std::vector<AlgorithmPerformance> usable;
  for (const AlgorithmPerformance& told : answer.algorithms) {
    if (told.status != CUDNN_STATUS_SUCCESS) continue;
    usable.push_back(told);
    if (told.determinism != CUDNN_DETERMINISTIC) earlier_.random_algorithms.insert(told.algorithm);
  }
  if (!usable.empty()) Pick(usable[call_.pick % usable.size()]);
}

void Trial::CheckAnswer(Question question, const test::Answer& answer, bool aligned) {
  if (answer.algorithms.empty()) return Wrong("an answer is empty");
  if (answer.algorithms.size() > static_cast<size_t>(call_.requested)) {
    return Wrong("an answer has more entries than asked for");
  }
  const Options& options = setting_.options;
  const size_t lent = question == Question::kFindEx ? call_.lent : SIZE_MAX;
  // Queries with pointers that are not aligned to 16 bytes are left to the real library.
  const bool ours = (question != Question::kFindEx || aligned) &&
                    (options.workspace_limit || options.deterministic) &&
                    call_.fault == Fault::kNone;
  const bool must_fit = ours && MayBeServed(NumericClass::kDirect, options.deterministic,
                                            std::min(limit_, lent), std::nullopt);
  for (const AlgorithmPerformance& told : answer.algorithms) {
    if (told.status != CUDNN_STATUS_SUCCESS) continue;
    if (told.workspace_bytes > lent) Wrong("a search reports more than the caller lent");
    if (!must_fit && !(strict_ && ours)) continue;
    if (told.workspace_bytes > limit_) {
      Wrong("algorithm " + std::to_string(told.algorithm) + " is reported with " +
            std::to_string(told.workspace_bytes) + " bytes, above the limit");
    }
    if (must_fit && options.deterministic && told.determinism != CUDNN_DETERMINISTIC) {
      Wrong("algorithm " + std::to_string(told.algorithm) + " is not deterministic");
    }
  }
}

void Trial::Pick(const AlgorithmPerformance& picked) {
  algorithm_ = picked.algorithm;
  math_ = static_cast<MathType>(picked.math);
  told_bytes_ = picked.workspace_bytes;
  deterministic_ = picked.determinism == CUDNN_DETERMINISTIC;
  EXPECT_EQ(
      Undivided().cudnnSetConvolutionMathType(convolution_.descriptors().convolution, picked.math),
      CUDNN_STATUS_SUCCESS);
  if (call_.asks_again) AskForSize(algorithm_);
}

}  // namespace ucudnn::fuzz
