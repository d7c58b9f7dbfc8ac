// Determines whether and when a kernel is measured, and the user's workspace ceiling for it.
#pragma once

#include "convolution/api.h"
#include "convolution/problem.h"
#include "interposer/process.h"
#include "planning/decision/decide.h"

namespace ucudnn::interposer {

// Returns whether this process may measure the kernel on the session's device: the user allows it,
// and no workspace plan names the kernel.
bool Tunes(Process& process, const Session& session, const ConvolutionProblem& problem, Api api);
// Returns whether a caller that asks about the kernel waits until it is measured.
bool MeasuresBeforePromising(Process& process, const Session& session,
                             const ConvolutionProblem& problem, Api api);
// Returns the user's ceiling for each kernel's part of the caller's workspace, in bytes; kNoLimit:
// none.
size_t UserLimit(Process& process, const Session& session);
// Returns the facts about a kernel that do not depend on what the program named.
planning::Facts FactsOfKernel(Process& process, const Session& session,
                              const ConvolutionProblem& problem, Api api);
// Returns why the kernel may be cut into tiles, if the program would run an engine that needs
// `need_bytes` undivided. Under one budget kToFit means that nothing forbids tiles:
// planning::MayMeasureTiles decides whether the kernel's share demands any.
planning::TileUse UseOfTiles(Process& process, const Session& session,
                             const ConvolutionProblem& problem, size_t need_bytes);
// False if UseOfTiles will certainly return kNone. Needs no problem, only `span`, the elements that
// an image of x or of y spans.
bool MayUseTiles(Process& process, const Session& session, double span, size_t need_bytes);
planning::PromiseRequest RequestFor(const Process& process, const ConvolutionProblem& problem,
                                    size_t limit_bytes);
// Reports once for each kernel that the followed workspace plan does not have it.
void NoteMissing(Process& process, const Session& session, const ConvolutionProblem& problem,
                 Api api);
// Returns the number of calls after which the kernel is decided about anew, if it has had `calls`
// and the decision says `when`. `tunes`: this process measures the kernel.
long CallsUntil(const Process& process, planning::When when, long calls, bool tunes = true);

}  // namespace ucudnn::interposer
