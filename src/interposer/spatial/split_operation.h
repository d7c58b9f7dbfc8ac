// What every adapter of the legacy API does with an operation of the program, after its own checks
// of arguments.
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

// Makes the call of an operation a split call, on the stream of its handle, that `run` gets.
// `read` fills in its problem, and returns why the operation cannot be read, or null: all ranks
// then refuse it, in a line that begins with `name`. REQUIRES: calls are split, and not refused.
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
