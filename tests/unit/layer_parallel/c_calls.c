/* Uses the header in C11: a chain of scalars, u + h u cos(n), is solved. Calls every function. */
#include <math.h>
#include <stdlib.h>
#include <ucudnn/layer_parallel.h>

#define LAYERS 48
#define STEP (1.0 / LAYERS)

static double slope(int layer) { return cos(layer); }

static int create(void* user, void** state) {
  ++*(int*)user;
  *state = malloc(sizeof(double));
  return *state == NULL;
}

static void destroy(void* user, void* state) {
  --*(int*)user;
  free(state);
}

static int combine(void* user, double a, const void* x, double b, void* y, int lane) {
  double* to = y;
  (void)user, (void)lane;
  *to = a * *(const double*)x + (b == 0 ? 0 : b * *to);
  return 0;
}

static int squared_distance(void* user, const void* x, const void* y, int lane, double* square) {
  const double difference = *(const double*)x - (y == NULL ? 0 : *(const double*)y);
  (void)user, (void)lane;
  *square = difference * difference;
  return 0;
}

static int step(void* user, const ucudnnLayerParallelRange_t* range, const void* from, void* to,
                int lane) {
  const double u = *(const double*)from;
  double sum = u;
  (void)user, (void)lane;
  for (int i = 0; i < range->layers; ++i) {
    sum += range->factor * STEP * u * slope(range->first_layer + i);
  }
  *(double*)to = sum;
  return 0;
}

/* F is linear: its Jacobian does not depend on the state. */
static int adjoint_step(void* user, const ucudnnLayerParallelRange_t* range, const void* state,
                        const void* from, void* to, int lane) {
  (void)state;
  return step(user, range, from, to, lane);
}

static int visit(void* user, int layer, const void* state, const void* adjoint, int lane) {
  double* sum = user;
  (void)lane;
  *sum += STEP * slope(layer) * *(const double*)state * *(const double*)adjoint;
  return 0;
}

#define CHECK(condition) \
  if (!(condition)) return __LINE__

/* Returns the line of the first check that fails, or 0. */
int CheckLayerParallelInC(void) {
  int states = 0;
  const ucudnnLayerParallelCallbacks_t callbacks = {
      sizeof callbacks, &states, create,       destroy, combine,
      squared_distance, step,    adjoint_step, NULL,    NULL};
  const ucudnnLayerParallelOptions_t options = {.struct_size = sizeof options, .levels = 2};
  ucudnnLayerParallelSolver_t solver = NULL;
  int64_t count = 0;
  CHECK(ucudnnLayerParallelGetVersionString()[0] != '\0');
  CHECK(ucudnnLayerParallelGetStateCount(LAYERS, &options, 1, &count) == 0);
  CHECK(ucudnnLayerParallelCreate(&solver, LAYERS, &callbacks, &options) == 0);
  CHECK(states == count);

  const ucudnnLayerParallelSolveOptions_t solve = {.struct_size = sizeof solve, .tolerance = 1e-10};
  ucudnnLayerParallelResult_t result = {.struct_size = sizeof result};
  double u = 2, product = 1;
  for (int layer = 0; layer < LAYERS; ++layer) product *= 1 + STEP * slope(layer);
  CHECK(ucudnnLayerParallelSolveForward(solver, &u, &solve, &result) == 0);
  CHECK(result.outcome != UCUDNN_LAYER_PARALLEL_SERIAL && result.fallback[0] == '\0');
  CHECK(result.residuals[result.residual_count - 1] <= solve.tolerance);
  const void* reached = NULL;
  CHECK(ucudnnLayerParallelGetState(solver, LAYERS, &reached) == 0);
  CHECK(fabs(*(const double*)reached - 2 * product) < 1e-9);

  double gradient = 1, sum = 0;
  CHECK(ucudnnLayerParallelSolveAdjoint(solver, &gradient, &solve, &result) == 0);
  CHECK(ucudnnLayerParallelGetAdjoint(solver, 0, &reached) == 0);
  CHECK(fabs(*(const double*)reached - product) < 1e-9);
  /* `sum` must be the derivative of the last state by a common factor of all slopes. */
  CHECK(ucudnnLayerParallelVisitLayers(solver, visit, &sum) == 0);
  double expected = 0;
  for (int layer = 0; layer < LAYERS; ++layer) {
    expected += 2 * product * STEP * slope(layer) / (1 + STEP * slope(layer));
  }
  CHECK(fabs(sum - expected) < 1e-9);

  CHECK(ucudnnLayerParallelDestroy(solver) == 0);
  CHECK(states == 0);
  CHECK(ucudnnLayerParallelSolveForward(NULL, &u, NULL, NULL) == UCUDNN_LAYER_PARALLEL_BAD_PARAM);
  CHECK(ucudnnLayerParallelGetLastError()[0] != '\0');
  CHECK(ucudnnLayerParallelGetCallbackCode() == 0);
  return 0;
}
