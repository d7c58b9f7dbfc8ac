// What every adapter of the legacy API does with an operation of the program, after it has checked
// the arguments.
#pragma once

#include <string>

#include "interposer/session/sessions.h"
#include "interposer/spatial/splitter.h"

namespace ucudnn::interposer {

// The parts of a process that its split operations use.
struct SplitContext {
  const cudnn::Functions& functions;
  const cuda::Driver* driver;  // null without CUDA
  Sessions& sessions;
  Splitter& splitter;
};

// Makes a split call of the program's `call`, on the stream of its handle, and passes it to `run`.
// read(problem) sets the problem and returns null, or returns why the operation cannot be read:
// then all ranks refuse it, in a line that begins with `name`. REQUIRES: calls are split, and not
// all of them refused.
template <typename Read, typename Run>
cudnnStatus_t SplitOperation(const SplitContext& context, const char* name,
                             const cudnn::ConvolutionCall& call, const Read& read, const Run& run) {
  Session* const session = context.sessions.Of(call.handle);
  if (session == nullptr) return context.splitter.Fail("a cuDNN handle is of no known device");
  ConvolutionProblem problem;
  if (const char* const unreadable = read(problem)) {
    return context.splitter.RefuseCall(call.operation, call.handle, session->context(),
                                       std::string(name) + " is not split: " + unreadable);
  }
  spatial::SplitCall split{problem, call, session->context(), session->stream(),
                           context.sessions.Capturing(*session)};
  return run(split);
}

}  // namespace ucudnn::interposer
