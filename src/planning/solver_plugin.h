/* The C function that a plug-in for Workspace Division exports, by the name below. It is in C
 * because a library that is opened at run time may use another C++ library than the process. */
#pragma once

#include <stddef.h>

#define UCUDNN_SOLVE_DIVISION "ucudnnSolveDivision"

/* Chooses exactly one choice of each of `kernels`, at most `budget_bytes` in total, in the least
 * total time. The choices of kernel i are first[i] to first[i + 1] - 1 (`first` has kernels + 1
 * entries) of `workspace_bytes` and `time_ms`; chosen[i] receives the kernel's choice, counted from
 * first[i]. Times are finite and not negative. `gap_ms` becomes 0 or, if the optimum is not proven
 * after `most_milliseconds`, the most by which it may be faster. Returns 0; any other value is a
 * failure, which `message` (of `message_bytes`) then describes. Calls come from any thread, never
 * two at once in a process. */
typedef int (*ucudnnSolveDivision_t)(size_t kernels, const size_t* first,
                                     const size_t* workspace_bytes, const double* time_ms,
                                     size_t budget_bytes, int most_milliseconds, size_t* chosen,
                                     double* gap_ms, char* message, size_t message_bytes);
