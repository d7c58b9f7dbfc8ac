// Decides whether and when a kernel is measured, and which workspace limit of the user holds for
// it.
#pragma once

#include "convolution/api.h"
#include "convolution/problem.h"
#include "interposer/process.h"
#include "planning/decision/decide.h"

namespace ucudnn::interposer {

// Returns whether this process may measure the kernel on the session's device: the user must allow
// measuring, and no followed workspace plan may name the kernel.
bool Tunes(Process& process, const Session& session, const ConvolutionProblem& problem, Api api);
// Returns whether a query about the kernel waits until the kernel is measured.
bool MeasuresBeforePromising(Process& process, const Session& session,
                             const ConvolutionProblem& problem, Api api);
// Returns the user's limit for the part of the caller's workspace that each kernel may use, in
// bytes; kNoLimit if there is none.
size_t UserLimit(Process& process, const Session& session);
// Returns the facts about a kernel that do not depend on the engine that the program names.
planning::Facts FactsOfKernel(Process& process, const Session& session,
                              const ConvolutionProblem& problem, Api api);
// Returns the purpose for which the kernel may be cut into tiles. `need_bytes` is the workspace of
// the undivided engine that the program would run. Under one budget, kToFit only means that nothing
// forbids tiles: planning::MayMeasureTiles decides whether the kernel's share demands them.
planning::TileUse UseOfTiles(Process& process, const Session& session,
                             const ConvolutionProblem& problem, size_t need_bytes);
// Returns false if UseOfTiles would certainly return kNone. Needs no problem, only `span`: the
// number of elements that an image of x or of y spans, whichever is larger.
bool MayUseTiles(Process& process, const Session& session, double span, size_t need_bytes);
planning::PromiseRequest RequestFor(const Process& process, const ConvolutionProblem& problem,
                                    size_t limit_bytes);
// Reports, once for each kernel, that the followed workspace plan does not name it.
void NoteMissing(Process& process, const Session& session, const ConvolutionProblem& problem,
                 Api api);
// Returns the number of calls after which the kernel is decided about anew. The kernel has had
// `calls` calls, and `when` is from its latest decision. `tunes` says that this process measures
// the kernel.
long CallsUntil(const Process& process, planning::When when, long calls, bool tunes);

}  // namespace ucudnn::interposer
