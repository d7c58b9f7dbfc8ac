/* Solves Workspace Division by GLPK, as the 0-1 program of the mu-cuDNN paper (equations 1 to 4).
 * GLPK is under the GPLv3, so this is a separate library, and no other part of ucudnn is linked to
 * it. It is in C because the code leaves GLPK by longjmp where GLPK would end the process. All
 * calls share the static variables below. */
#include <glpk.h>
#include <limits.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planning/solver_plugin.h"

/* Sizes are given to GLPK in MiB, because with sizes in bytes GLPK's tolerances make it accept
 * selections that are not optimal. The tolerances also let a selection exceed the budget by some
 * bytes if sizes are not whole KiB. In that case Solve solves the problem again with all sizes
 * rounded up to whole KiB, because such sizes differ by more than the tolerances. */
static const size_t kExact = 1, kKib = 1024;
static const double kMib = 1024 * 1024;

struct Problem {
  size_t kernels;
  const size_t* first;
  const size_t* workspace_bytes;
  const double* time_ms;
  size_t budget_bytes;
  int most_milliseconds;
};

struct Memory {
  glp_prob* program;
  int* column_choice; /* from 1: position in the kernel's choices */
  int* rows;
  int* columns;
  double* values;
};

static jmp_buf failed;
static char last_line[128];
static int is_broken; /* GLPK's state after a failure is unknown */

static int KeepLine(void* info, const char* line) {
  (void)info;
  if (line[0] != '\n' && line[0] != '\0') {
    snprintf(last_line, sizeof last_line, "%s", line);
    last_line[strcspn(last_line, "\n")] = '\0';
  }
  return 1; /* not printed */
}

static void Fail(void* info) {
  (void)info;
  longjmp(failed, 1);
}

/* Returns the smallest whole number of units that is at least `bytes`. */
static size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes / unit + (bytes % unit != 0)) * unit;
}

/* Builds the 0-1 program. Returns null, or the reason why it cannot be built. */
static const char* Build(const struct Problem* problem, size_t unit, struct Memory* memory) {
  const size_t choices = problem->first[problem->kernels];
  if (problem->kernels >= INT_MAX || choices >= INT_MAX / 2) return "too many choices";
  memory->column_choice = calloc(choices + 1, sizeof(int));
  memory->rows = calloc(2 * choices + 1, sizeof(int));
  memory->columns = calloc(2 * choices + 1, sizeof(int));
  memory->values = calloc(2 * choices + 1, sizeof(double));
  if (memory->column_choice == NULL || memory->rows == NULL || memory->columns == NULL ||
      memory->values == NULL) {
    return "out of memory";
  }
  glp_prob* const program = memory->program = glp_create_prob();
  glp_set_obj_dir(program, GLP_MIN);
  const int budget_row = (int)problem->kernels + 1;
  const size_t budget = problem->budget_bytes / unit * unit;
  glp_add_rows(program, budget_row);
  glp_set_row_bnds(program, budget_row, GLP_UP, 0, (double)budget / kMib);
  int entries = 0;
  int column = 0;
  for (size_t kernel = 0; kernel < problem->kernels; ++kernel) {
    const int row = (int)kernel + 1;
    glp_set_row_bnds(program, row, GLP_FX, 1, 1);
    for (size_t i = problem->first[kernel]; i < problem->first[kernel + 1]; ++i) {
      const size_t bytes = RoundUp(problem->workspace_bytes[i], unit);
      if (bytes > budget) continue;
      ++column;
      glp_add_cols(program, 1);
      glp_set_col_kind(program, column, GLP_BV);
      glp_set_obj_coef(program, column, problem->time_ms[i]);
      memory->column_choice[column] = (int)(i - problem->first[kernel]);
      memory->rows[++entries] = row;
      memory->columns[entries] = column;
      memory->values[entries] = 1;
      if (bytes == 0) continue;
      memory->rows[++entries] = budget_row;
      memory->columns[entries] = column;
      memory->values[entries] = (double)bytes / kMib;
    }
  }
  glp_load_matrix(program, entries, memory->rows, memory->columns, memory->values);
  return NULL;
}

static const char* Optimize(glp_prob* program, int most_milliseconds, double* gap_ms) {
  const double start = glp_time();
  glp_smcp relaxed;
  glp_init_smcp(&relaxed);
  relaxed.msg_lev = GLP_MSG_OFF;
  relaxed.tm_lim = most_milliseconds;
  const int relaxation = glp_simplex(program, &relaxed);
  if (relaxation == GLP_ETMLIM) return "GLPK finds no division in time";
  if (relaxation != 0 || glp_get_status(program) != GLP_OPT) {
    return "GLPK finds no division";
  }
  const double bound_ms = glp_get_obj_val(program);
  glp_iocp whole;
  glp_init_iocp(&whole);
  whole.msg_lev = GLP_MSG_OFF;
  const double taken = glp_difftime(glp_time(), start) * 1e3;
  whole.tm_lim = taken < most_milliseconds ? most_milliseconds - (int)taken : 0;
  const int outcome = glp_intopt(program, &whole);
  if (outcome == 0 && glp_mip_status(program) == GLP_OPT) {
    *gap_ms = 0;
    return NULL;
  }
  if (outcome == GLP_ETMLIM && glp_mip_status(program) != GLP_FEAS) {
    return "GLPK finds no division in time";
  }
  if (outcome != GLP_ETMLIM) {
    return "GLPK finds no division";
  }
  *gap_ms = glp_mip_obj_val(program) - bound_ms;
  return NULL;
}

static void ReadChosen(const struct Memory* memory, size_t* chosen) {
  const int columns = glp_get_num_cols(memory->program);
  int row[3];
  double value[3];
  for (int column = 1; column <= columns; ++column) {
    if (glp_mip_col_val(memory->program, column) < 0.5) continue;
    const int entries = glp_get_mat_col(memory->program, column, row, value);
    for (int i = 1; i <= entries; ++i) {
      if (row[i] < glp_get_num_rows(memory->program)) {
        chosen[row[i] - 1] = (size_t)memory->column_choice[column];
      }
    }
  }
}

static int Fits(const struct Problem* problem, const size_t* chosen) {
  size_t left = problem->budget_bytes;
  for (size_t kernel = 0; kernel < problem->kernels; ++kernel) {
    const size_t bytes = problem->workspace_bytes[problem->first[kernel] + chosen[kernel]];
    if (bytes > left) return 0;
    left -= bytes;
  }
  return 1;
}

static void Release(struct Memory* memory) {
  if (memory->program != NULL) glp_delete_prob(memory->program);
  free(memory->column_choice);
  free(memory->rows);
  free(memory->columns);
  free(memory->values);
  memset(memory, 0, sizeof *memory);
}

static const char* SolveIn(size_t unit, const struct Problem* problem, int most_milliseconds,
                           struct Memory* memory, size_t* chosen, double* gap_ms) {
  const char* error = Build(problem, unit, memory);
  if (error == NULL) error = Optimize(memory->program, most_milliseconds, gap_ms);
  if (error == NULL) ReadChosen(memory, chosen);
  return error;
}

static const char* Solve(const struct Problem* problem, struct Memory* memory, size_t* chosen,
                         double* gap_ms) {
  if (is_broken) return "GLPK failed before";
  if (setjmp(failed) != 0) {
    is_broken = 1;
    memory->program = NULL; /* its memory is lost with GLPK's state */
    return last_line[0] != '\0' ? last_line : "GLPK failed";
  }
  glp_error_hook(Fail, NULL);
  glp_term_hook(KeepLine, NULL);
  const double start = glp_time();
  const char* error = SolveIn(kExact, problem, problem->most_milliseconds, memory, chosen, gap_ms);
  if (error != NULL || Fits(problem, chosen)) return error;
  /* The solved program admits every selection that fits the budget. So no selection that fits the
   * budget is faster than this selection by more than the gap. */
  const double bound_ms = glp_mip_obj_val(memory->program) - *gap_ms;
  const double taken = glp_difftime(glp_time(), start) * 1e3;
  const int left = taken < problem->most_milliseconds ? problem->most_milliseconds - (int)taken : 0;
  Release(memory);
  error = SolveIn(kKib, problem, left, memory, chosen, gap_ms);
  if (error == NULL) *gap_ms = glp_mip_obj_val(memory->program) - bound_ms;
  return error;
}

__attribute__((visibility("default"))) int ucudnnSolveDivision(
    size_t kernels, const size_t* first, const size_t* workspace_bytes, const double* time_ms,
    size_t budget_bytes, int most_milliseconds, size_t* chosen, double* gap_ms, char* message,
    size_t message_bytes) {
  const struct Problem problem = {kernels, first,        workspace_bytes,
                                  time_ms, budget_bytes, most_milliseconds};
  struct Memory memory = {NULL, NULL, NULL, NULL, NULL};
  for (size_t kernel = 0; kernel < kernels; ++kernel) chosen[kernel] = SIZE_MAX;
  const char* const error = kernels == 0 ? NULL : Solve(&problem, &memory, chosen, gap_ms);
  if (kernels == 0) *gap_ms = 0;
  if (error != NULL) snprintf(message, message_bytes, "%s", error);
  Release(&memory);
  if (!is_broken) {
    glp_error_hook(NULL, NULL);
    glp_term_hook(NULL, NULL);
  }
  return error != NULL;
}
