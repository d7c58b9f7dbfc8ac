// Whether and when a kernel is measured, and the user's workspace limit for it.
#pragma once

#include "convolution/api.h"
#include "convolution/problem.h"
#include "interposer/process.h"
#include "planning/decision/decide.h"

namespace ucudnn::interposer {

// Returns whether this process may measure the kernel on the session's device: the user allows
// measuring, and no workspace plan names the kernel.
bool Tunes(Process& process, const Session& session, const ConvolutionProblem& problem, Api api);
// Returns whether a query about the kernel waits until the kernel is measured.
bool MeasuresBeforePromising(Process& process, const Session& session,
                             const ConvolutionProblem& problem, Api api);
// Returns the user's limit for the caller's workspace of each kernel, in bytes; kNoLimit if there
// is none.
size_t UserLimit(Process& process, const Session& session);
// Returns the facts about a kernel that do not depend on what the program names.
planning::Facts FactsOfKernel(Process& process, const Session& session,
                              const ConvolutionProblem& problem, Api api);
// Returns the purpose for which the kernel may be cut into tiles, if the program would run an
// engine that needs `need_bytes` undivided. Under one budget kToFit only means that nothing forbids
// tiles: planning::MayMeasureTiles decides whether the kernel's share demands them.
planning::TileUse UseOfTiles(Process& process, const Session& session,
                             const ConvolutionProblem& problem, size_t need_bytes);
// Returns false if UseOfTiles will certainly return kNone. Instead of the problem it needs only
// `span`, how many elements an image of x or y spans.
bool MayUseTiles(Process& process, const Session& session, double span, size_t need_bytes);
planning::PromiseRequest RequestFor(const Process& process, const ConvolutionProblem& problem,
                                    size_t limit_bytes);
// Reports, once for each kernel, that the followed workspace plan does not have it.
void NoteMissing(Process& process, const Session& session, const ConvolutionProblem& problem,
                 Api api);
// Returns after how many calls the kernel is decided about anew, if it has had `calls` and the
// decision says `when`. `tunes` says that this process measures the kernel.
long CallsUntil(const Process& process, planning::When when, long calls, bool tunes = true);

}  // namespace ucudnn::interposer
