/* The C function that a plug-in solving Workspace Division exports, by the name below. In C: what
 * is opened at run time shares no C++ library with whoever opens it. */
#pragma once

#include <stddef.h>

#define UCUDNN_SOLVE_DIVISION "ucudnnSolveDivision"

/* Exactly one choice of each of `kernels`, at most `budget_bytes` in total, in the least total
 * time. The choices of kernel i are first[i] to first[i + 1] - 1 (there are kernels + 1 entries) of
 * `workspace_bytes` and `time_ms`; `chosen[i]` becomes its own, counted from first[i]. Times are
 * finite and not negative. `gap_ms` becomes 0, or how far the optimum may be where it is not
 * proven after `most_milliseconds`. Returns 0; anything else is a failure, `message` (of
 * `message_bytes`) then says which. Calls come from any thread, never two at once in a process. */
typedef int (*ucudnnSolveDivision_t)(size_t kernels, const size_t* first,
                                     const size_t* workspace_bytes, const double* time_ms,
                                     size_t budget_bytes, int most_milliseconds, size_t* chosen,
                                     double* gap_ms, char* message, size_t message_bytes);
