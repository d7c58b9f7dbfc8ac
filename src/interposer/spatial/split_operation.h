// What every adapter of the legacy API does with an operation of the program, after its own checks
// of arguments.
#pragma once

#include <string>

#include "interposer/process.h"

namespace ucudnn::interposer {

// Makes the call of an operation a split call, on the stream of its handle, that `run` gets.
// `read` fills in its problem, and returns why the operation cannot be read, or null: all ranks
// then refuse it, in a line that begins with `name`. REQUIRES: calls are split, and not refused.
template <typename Read, typename Run>
cudnnStatus_t SplitOperation(Process& process, const char* name, const cudnn::ConvolutionCall& call,
                             const Read& read, const Run& run) {
  Session* const session = process.sessions.Of(call.handle);
  if (session == nullptr) return process.splitter.Fail("a cuDNN handle is of no known device");
  ConvolutionProblem problem;
  if (const char* const unreadable = read(problem)) {
    return process.splitter.RefuseCall(call.operation, call.handle, session->context(),
                                       std::string(name) + " is not split: " + unreadable);
  }
  spatial::SplitCall split{problem, call, session->context(), session->stream(),
                           process.sessions.Capturing(*session)};
  return run(split);
}

}  // namespace ucudnn::interposer
