// One problem: compares what ucudnn makes of a call with what the real library makes of it
// undivided.
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

// How often each kind of trial occurred.
struct Coverage {
  long problems = 0;
  long divided = 0;     // ran in several pieces
  long mixed = 0;       // ... of different engines
  long below_need = 0;  // ran right in less workspace than the caller's algorithm needs
  long misaligned = 0;  // pointers off 16 bytes
  long refused = 0;     // failed as the real library does
  long recovered = 0;   // a piece failed, the result was right
  long rounded = 0;     // compared within a tolerance
  long measured = 0;    // in settings that measure for themselves
  long compared = 0;    // divided, in settings whose rows were not all verified
  long checked = 0;     // every piece compared with the undivided engine
  long over_limit = 0;  // refused under a strict limit

  void Add(const Coverage& other);
};

// What callers of one setting were told earlier.
struct Told {
  std::set<int> random_algorithms;  // told to be non-deterministic
};

// cuDNN's documentation says so: implicit GEMM sums gradients in any order.
inline bool IsDeterministic(Operation operation, int algorithm) {
  return operation == Operation::kForward || algorithm != 0;
}

inline int Offset(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16; }

inline std::string Text(cudnnStatus_t status) { return std::to_string(static_cast<int>(status)); }

class Trial {
 public:
  Trial(const Setting& setting, const Call& call, Subject& subject, Told& told, Coverage& coverage)
      : setting_(setting),
        call_(call),
        ours_(subject.functions()),
        on_(setting.options.mode == Mode::kOn),
        strict_(on_ && setting.options.strict_limit),
        limit_(setting.options.workspace_limit.value_or(SIZE_MAX)),
        told_(told),
        coverage_(coverage),
        operation_(call.what.problem.operation),
        convolution_(call.what.problem, call.what.extra, call.what.z_is_y, call.placements) {
    convolution_.UseHandle(subject.handle());
  }

  // Returns what is wrong, or nothing. Called once.
  std::string Run();

 private:
  void Wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;  // what follows may be its consequence
  }

  // asking.cpp: before the call.
  void Prepare();
  void BreakDescriptors();
  void Ask();
  void AskForSize(int algorithm);
  void AskForAlgorithms(test::Question question);
  void CheckAnswer(test::Question question, const test::Answer& answer, bool aligned);
  void Pick(const cudnn::AlgorithmPerformance& picked);

  // running.cpp: the call.
  void Execute();
  bool RunReal(const test::GuardedMemory& workspace);
  void RunOurs(const test::GuardedMemory& workspace, int failing_piece);
  void CheckStatus(cudnnStatus_t status, size_t bytes, int failing_piece,
                   const std::vector<RealCall>& calls);
  // Checks a refusal of ucudnn's own.
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
  // Returns whether the call must be served within limit and workspace, since a known engine can.
  bool MustFit(const test::GuardedMemory& workspace) const;
  // Returns whether a known undivided engine may serve within `limit`, so that ucudnn has no
  // excuse. If `math` is set, it must be of calls with that math, by which measurements are filed.
  bool MayBeServed(NumericClass numeric, bool deterministic, size_t limit,
                   std::optional<MathType> math) const;

  const Setting& setting_;
  const Call& call_;
  const cudnn::Functions& ours_;
  const bool on_;
  const bool strict_;  // refuses what cannot be brought under the limit
  const size_t limit_;
  Told& told_;
  Coverage& coverage_;
  const Operation operation_;
  test::Convolution convolution_;
  bool aligned_ = true;  // whether all operands are

  int algorithm_ = 0;
  MathType math_;
  std::optional<size_t> told_bytes_;  // the bytes in which the algorithm was said to run
  bool deterministic_ = false;        // whether what runs must be
  test::Bytes expected_;              // empty if nothing serves this call
  cudnnStatus_t real_ = CUDNN_STATUS_SUCCESS;
  std::string wrong_;
};

}  // namespace ucudnn::fuzz
