/* The type and name of the function that a plug-in for Workspace Division exports. It is a C
 * function because a library that is opened at run time may use another C++ library than the
 * process. */
#pragma once

#include <stddef.h>

#define UCUDNN_SOLVE_DIVISION "ucudnnSolveDivision"

/* Selects one choice for each of `kernels` kernels, so that the total time is least among all
 * selections of at most `budget_bytes` in total. The choices of kernel i are first[i] to first[i +
 * 1] - 1 (`first` has kernels + 1 entries), with sizes `workspace_bytes` and times `time_ms`. Times
 * are finite and not negative. Sets chosen[i] to the choice of kernel i, counted from first[i].
 * Sets `gap_ms` to 0 if the selection is proven optimal. If `most_milliseconds` pass before that,
 * sets `gap_ms` to the most by which the optimum may be faster than the selection. Returns 0 on
 * success. On failure returns another value, and writes the reason to `message`, which has
 * `message_bytes`. Any thread may call this function, but a process makes only one call at a time.
 */
typedef int (*ucudnnSolveDivision_t)(size_t kernels, const size_t* first,
                                     const size_t* workspace_bytes, const double* time_ms,
                                     size_t budget_bytes, int most_milliseconds, size_t* chosen,
                                     double* gap_ms, char* message, size_t message_bytes);
