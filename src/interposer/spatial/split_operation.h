// What all adapters of the legacy API have in common: how they run an operation of the program as a
// split call, after they have checked its arguments.
#pragma once

#include <string>

#include "interposer/session/sessions.h"
#include "interposer/spatial/splitter.h"

namespace ucudnn::interposer {

// The parts of a process through which it makes split calls.
struct SplitContext {
  const cudnn::Functions& functions;
  Sessions& sessions;
  Splitter& splitter;
};

// Makes a split call of the program's `call`, on the stream of its handle, and passes it to `run`.
// read(problem) sets the problem and returns null, or returns why the operation cannot be read. If
// it cannot be read, all ranks refuse it, with a message that begins with `name`. REQUIRES: calls
// are split, and not all calls are refused.
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
                           session->Capturing()};
  return run(split);
}

}  // namespace ucudnn::interposer
