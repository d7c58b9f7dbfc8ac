// Makes one call through ucudnn and, undivided, to the real library, and compares the results.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convolution/engine_name.h"
#include "draw.h"
#include "recorder.h"
#include "subject.h"
#include "tests/integration/interposer/queries.h"

namespace ucudnn::fuzz {

// The number of trials of each kind.
struct Coverage {
  long problems = 0;
  long divided = 0;     // ran in several pieces
  long mixed = 0;       // ran in pieces of different engines
  long below_need = 0;  // ran correctly in less workspace than the caller's algorithm needs
  long misaligned = 0;  // had pointers that are not aligned to 16 bytes
  long refused = 0;     // failed like the real library's call
  long recovered = 0;   // was right although a piece failed
  long rounded = 0;     // was compared within a tolerance
  long measured = 0;    // was in a setting in which ucudnn measures during the run
  long compared = 0;    // was divided, in a setting whose rows were not all verified
  long checked = 0;     // was divided and compared with the undivided engine by UCUDNN_CHECK
  long over_limit = 0;  // was refused under a strict limit

  void Add(const Coverage& other);
};

// The answers that the caller got in earlier calls of one setting.
struct EarlierAnswers {
  std::set<int> random_algorithms;  // algorithms said to be non-deterministic
};

// cuDNN documents that implicit GEMM, algorithm 0, sums gradients in any order.
inline bool IsDeterministic(Operation operation, int algorithm) {
  return operation == Operation::kForward || algorithm != 0;
}

inline int Offset(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16; }

inline std::string Text(cudnnStatus_t status) { return std::to_string(static_cast<int>(status)); }

class Trial {
 public:
  Trial(const Setting& setting, const Call& call, Subject& subject, EarlierAnswers& earlier,
        Coverage& coverage)
      : setting_(setting),
        call_(call),
        ours_(subject.functions()),
        on_(setting.options.mode == Mode::kOn),
        strict_(on_ && setting.options.strict_limit),
        limit_(setting.options.workspace_limit.value_or(SIZE_MAX)),
        earlier_(earlier),
        coverage_(coverage),
        operation_(call.what.problem.operation),
        convolution_(call.what.problem, call.what.extra, call.what.z_is_y, call.placements) {
    convolution_.UseHandle(subject.handle());
  }

  // Runs the trial and returns what is wrong, or an empty text. REQUIRES: Run was not called
  // before.
  std::string Run();

 private:
  void Wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;  // later faults may follow from the first
  }

  // The following functions run before the call. asking.cpp defines them.
  void Prepare();
  void BreakDescriptors();
  void Ask();
  void AskForSize(int algorithm);
  void AskForAlgorithms(test::Question question);
  void CheckAnswer(test::Question question, const test::Answer& answer, bool aligned);
  void Pick(const cudnn::AlgorithmPerformance& picked);

  // The following functions make the call and check it. running.cpp defines them.
  void Execute();
  bool RunReal(const test::GuardedMemory& workspace);
  void RunOurs(const test::GuardedMemory& workspace, int failing_piece);
  void CheckStatus(cudnnStatus_t status, size_t bytes, int failing_piece,
                   const std::vector<RealCall>& calls);
  // Checks a refusal that ucudnn makes itself, under a strict limit. Returns false if the status is
  // not such a refusal.
  bool CheckRefusal(cudnnStatus_t status, const test::GuardedMemory& workspace,
                    const test::Bytes& output);
  void CheckFailure(cudnnStatus_t status, size_t bytes, int failing_piece,
                    const std::vector<RealCall>& calls);
  void CheckCalls(const std::vector<RealCall>& calls, const test::GuardedMemory& workspace);
  void CheckOutput(const char* whose, const test::Bytes& actual);
  double Tolerance(size_t element) const;
  void CheckNothingElse(const test::GuardedMemory& workspace, const char* when);

  NumericClass Class(int algorithm) const { return LegacyNumericClass(operation_, algorithm); }
  bool Aligned(const test::GuardedMemory& workspace) const {
    return aligned_ && Offset(workspace.data()) == 0;
  }
  // Returns whether the call must fit the limit and the workspace, because a measured engine fits
  // them.
  bool MustFit(const test::GuardedMemory& workspace) const;
  // Returns whether the measurements have an undivided engine that can run the call within `limit`.
  // If `math` is set, only measurements of calls with that math count.
  bool MayBeServed(NumericClass numeric, bool deterministic, size_t limit,
                   std::optional<MathType> math) const;

  const Setting& setting_;
  const Call& call_;
  const cudnn::Functions& ours_;
  const bool on_;
  const bool strict_;  // calls that cannot be brought under the limit are refused
  const size_t limit_;
  EarlierAnswers& earlier_;
  Coverage& coverage_;
  const Operation operation_;
  test::Convolution convolution_;
  bool aligned_ = true;  // whether all operands are aligned to 16 bytes

  int algorithm_ = 0;
  MathType math_;
  std::optional<size_t> told_bytes_;  // workspace in which the algorithm was said to run
  bool deterministic_ = false;        // whether the call must run deterministic engines
  test::Bytes expected_;              // the right output; empty if no engine supports this call
  cudnnStatus_t real_ = CUDNN_STATUS_SUCCESS;
  std::string wrong_;
};

}  // namespace ucudnn::fuzz
