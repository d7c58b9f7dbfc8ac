/* Solves a chain of transformer blocks, all blocks at the same time, through
 * <ucudnn/layer_parallel.h>. Written in C11, as an example for chains of other kinds. A state u is
 * a sequence of tokens. Block n turns u into u + h F_n(u), with h = 1 / blocks and F_n(u) =
 * softmax(u Q_n (u K_n)^T / sqrt(width)) u V_n + tanh(u A_n) B_n. The loss is half the squared norm
 * of the last state. The program prints residuals, and how far states, their gradients and the
 * gradients of all B_n are from the results of running the blocks in sequence. It also compares the
 * loss's slope along one direction with its difference quotient. It exits with 1 if a difference is
 * too large, or if the solver's number of states is not the number that the solver reports.
 * attention_chain [BLOCKS [LANES]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucudnn/layer_parallel.h>

enum { kTokens = 8, kWidth = 16, kState = kTokens * kWidth, kMatrix = kWidth * kWidth };

/* The matrices of one block; each has the layout [input, output]. */
struct block {
  double q[kMatrix], k[kMatrix], v[kMatrix], a[kMatrix], b[kMatrix];
};

/* The intermediate results of transform(). Arrays of kState elements have the layout [token,
 * feature]; attention has [token, token]. */
struct values {
  double q[kState], k[kState], v[kState], neurons[kState];
  double attention[kTokens * kTokens];
  double out[kState];
};

struct chain {
  int blocks;
  double h;
  struct block* weights;
  struct values* of_lane; /* scratch memory, one for each lane */
  double* gradients;      /* gradients of b, one block after the other */
  int64_t states;         /* the number of states that the solver has now */
};

/* --- Blocks ---------------------------------------------------------------------------------- */

/* A matrix with two strides, so that the same memory can also be read as its transpose. */
struct matrix {
  const double* at;
  int row, column; /* strides */
};

static struct matrix plain(const double* at, int columns) {
  return (struct matrix){at, columns, 1};
}

static struct matrix transposed(const double* at, int columns) {
  return (struct matrix){at, 1, columns};
}

static void add_product(struct matrix x, struct matrix y, int rows, int inner, int columns,
                        double* out) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < inner; ++j) {
      const double factor = x.at[i * x.row + j * x.column];
      for (int l = 0; l < columns; ++l) {
        out[i * columns + l] += factor * y.at[j * y.row + l * y.column];
      }
    }
  }
}

/* Adds the product state * matrix to `out`. */
static void add_projection(const double* state, const double* matrix, double* out) {
  add_product(plain(state, kWidth), plain(matrix, kWidth), kTokens, kWidth, kWidth, out);
}

/* Adds the product state * matrix^T to `out`. */
static void add_back_projection(const double* state, const double* matrix, double* out) {
  add_product(plain(state, kWidth), transposed(matrix, kWidth), kTokens, kWidth, kWidth, out);
}

static void softmax(double* row) {
  double largest = row[0], sum = 0;
  for (int i = 1; i < kTokens; ++i) largest = fmax(largest, row[i]);
  for (int i = 0; i < kTokens; ++i) sum += row[i] = exp(row[i] - largest);
  for (int i = 0; i < kTokens; ++i) row[i] /= sum;
}

/* Computes F(u) in values->out. */
static void transform(const struct block* block, const double* u, struct values* values) {
  memset(values, 0, sizeof *values);
  add_projection(u, block->q, values->q);
  add_projection(u, block->k, values->k);
  add_projection(u, block->v, values->v);
  add_projection(u, block->a, values->neurons);
  for (int i = 0; i < kState; ++i) values->neurons[i] = tanh(values->neurons[i]);
  add_product(plain(values->q, kWidth), transposed(values->k, kWidth), kTokens, kWidth, kTokens,
              values->attention);
  for (int i = 0; i < kTokens * kTokens; ++i) values->attention[i] /= sqrt(kWidth);
  for (int token = 0; token < kTokens; ++token) softmax(&values->attention[token * kTokens]);
  add_product(plain(values->attention, kTokens), plain(values->v, kWidth), kTokens, kTokens, kWidth,
              values->out);
  add_projection(values->neurons, block->b, values->out);
}

/* Adds factor * J^T gradient to `out`, where J is the Jacobian of F at u. */
static void add_transposed(const struct block* block, const double* u, const double* gradient,
                           double factor, struct values* values, double* out) {
  double scores[kTokens * kTokens] = {0}, of_q[kState] = {0}, of_k[kState] = {0};
  double of_v[kState] = {0}, of_neurons[kState] = {0}, sum[kState] = {0};
  transform(block, u, values);
  const double* const attention = values->attention;
  add_product(transposed(attention, kTokens), plain(gradient, kWidth), kTokens, kTokens, kWidth,
              of_v);
  add_product(plain(gradient, kWidth), transposed(values->v, kWidth), kTokens, kWidth, kTokens,
              scores);
  for (int row = 0; row < kTokens * kTokens; row += kTokens) {
    double mean = 0;
    for (int i = row; i < row + kTokens; ++i) mean += attention[i] * scores[i];
    for (int i = row; i < row + kTokens; ++i) {
      scores[i] = attention[i] * (scores[i] - mean) / sqrt(kWidth);
    }
  }
  add_product(plain(scores, kTokens), plain(values->k, kWidth), kTokens, kTokens, kWidth, of_q);
  add_product(transposed(scores, kTokens), plain(values->q, kWidth), kTokens, kTokens, kWidth,
              of_k);
  add_back_projection(gradient, block->b, of_neurons);
  for (int i = 0; i < kState; ++i) {
    of_neurons[i] *= 1 - values->neurons[i] * values->neurons[i];
  }
  add_back_projection(of_q, block->q, sum);
  add_back_projection(of_k, block->k, sum);
  add_back_projection(of_v, block->v, sum);
  add_back_projection(of_neurons, block->a, sum);
  for (int i = 0; i < kState; ++i) out[i] += factor * sum[i];
}

/* Computes the gradient of b: h neurons^T lambda, where lambda is the gradient of the block's
 * result. */
static void gradient_of_b(const struct chain* chain, int block, const double* u,
                          const double* lambda, struct values* values, double* gradient) {
  transform(&chain->weights[block], u, values);
  memset(gradient, 0, kMatrix * sizeof *gradient);
  add_product(transposed(values->neurons, kWidth), plain(lambda, kWidth), kWidth, kTokens, kWidth,
              gradient);
  for (int i = 0; i < kMatrix; ++i) gradient[i] *= chain->h;
}

/* --- The solver's callbacks ------------------------------------------------------------------- */

static int create(void* user, void** state) {
  struct chain* const chain = user;
  *state = malloc(kState * sizeof(double));
  if (*state != NULL) ++chain->states;
  return *state == NULL;
}

static void destroy(void* user, void* state) {
  struct chain* const chain = user;
  --chain->states;
  free(state);
}

static int combine(void* user, double a, const void* x, double b, void* y, int lane) {
  const double* const from = x;
  double* const to = y;
  (void)user;
  (void)lane;
  for (int i = 0; i < kState; ++i) to[i] = a * from[i] + (b == 0 ? 0 : b * to[i]);
  return 0;
}

static int squared_distance(void* user, const void* x, const void* y, int lane, double* square) {
  const double *const first = x, *const second = y;
  (void)user;
  (void)lane;
  *square = 0;
  for (int i = 0; i < kState; ++i) {
    const double difference = first[i] - (second == NULL ? 0 : second[i]);
    *square += difference * difference;
  }
  return 0;
}

static int step(void* user, const ucudnnLayerParallelRange_t* range, const void* from, void* to,
                int lane) {
  const struct chain* const chain = user;
  struct values* const values = &chain->of_lane[lane];
  double* const out = to;
  memcpy(to, from, kState * sizeof(double));
  for (int n = range->first_layer; n < range->first_layer + range->layers; ++n) {
    transform(&chain->weights[n], from, values);
    for (int i = 0; i < kState; ++i) out[i] += range->factor * chain->h * values->out[i];
  }
  return 0;
}

static int adjoint_step(void* user, const ucudnnLayerParallelRange_t* range, const void* state,
                        const void* from, void* to, int lane) {
  const struct chain* const chain = user;
  memcpy(to, from, kState * sizeof(double));
  for (int n = range->first_layer; n < range->first_layer + range->layers; ++n) {
    add_transposed(&chain->weights[n], state, from, range->factor * chain->h, &chain->of_lane[lane],
                   to);
  }
  return 0;
}

static int keep_gradient(void* user, int layer, const void* state, const void* adjoint, int lane) {
  const struct chain* const chain = user;
  gradient_of_b(chain, layer, state, adjoint, &chain->of_lane[lane],
                &chain->gradients[layer * kMatrix]);
  return 0;
}

/* --- The program ------------------------------------------------------------------------------ */

static void* allocate(size_t count, size_t size) {
  void* const memory = calloc(count, size);
  if (memory == NULL) {
    fputs("out of memory\n", stderr);
    exit(1);
  }
  return memory;
}

static void check(ucudnnLayerParallelStatus_t status) {
  if (status == UCUDNN_LAYER_PARALLEL_SUCCESS) return;
  fprintf(stderr, "%s\n", ucudnnLayerParallelGetLastError());
  const int code = ucudnnLayerParallelGetCallbackCode();
  if (code != 0) fprintf(stderr, "the callback returned %d\n", code);
  exit(1);
}

/* Makes pseudo-random numbers between -scale and scale, which are equal on every machine. */
static void draw(double* numbers, size_t count, double scale, unsigned long long* seed) {
  for (size_t i = 0; i < count; ++i) {
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    numbers[i] = scale * (ldexp((double)(*seed >> 11), -52) - 1);
  }
}

static double largest_difference(const double* a, const double* b, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; ++i) largest = fmax(largest, fabs(a[i] - b[i]));
  return largest;
}

static const char* name_of(ucudnnLayerParallelOutcome_t outcome) {
  static const char* const names[] = {"converged", "rounding", "early", "direct", "serial"};
  return names[outcome];
}

/* The results of running the blocks in sequence. */
struct serial {
  double *states, *adjoints; /* each has blocks + 1 states, one after the other */
  double* gradients;         /* gradients of b, one block after the other */
};

static struct serial run_serially(struct chain* chain, const double* first) {
  const size_t states = (size_t)chain->blocks + 1;
  struct serial serial = {allocate(states * kState, sizeof(double)),
                          allocate(states * kState, sizeof(double)),
                          allocate((size_t)chain->blocks * kMatrix, sizeof(double))};
  ucudnnLayerParallelRange_t range = {.struct_size = sizeof range, .layers = 1, .factor = 1};
  memcpy(serial.states, first, kState * sizeof(double));
  for (int n = 0; n < chain->blocks; ++n) {
    double* const state = &serial.states[n * kState];
    range.first_layer = n;
    step(chain, &range, state, state + kState, 0);
  }
  const size_t last = (states - 1) * kState;
  memcpy(&serial.adjoints[last], &serial.states[last], kState * sizeof(double));
  for (int n = chain->blocks - 1; n >= 0; --n) {
    const double* const state = &serial.states[n * kState];
    double* const adjoint = &serial.adjoints[n * kState];
    range.first_layer = n;
    adjoint_step(chain, &range, state, adjoint + kState, adjoint, 0);
    gradient_of_b(chain, n, state, adjoint + kState, chain->of_lane,
                  &serial.gradients[n * kMatrix]);
  }
  return serial;
}

static void print_residuals(const ucudnnLayerParallelResult_t* forward,
                            const ucudnnLayerParallelResult_t* adjoint) {
  puts("cycle  residual  of the adjoint");
  for (int k = 1; k < forward->residual_count || k < adjoint->residual_count; ++k) {
    printf("%5d", k);
    for (int i = 0; i < 2; ++i) {
      const ucudnnLayerParallelResult_t* const result = i == 0 ? forward : adjoint;
      if (k < result->residual_count) printf("  %8.1e", result->residuals[k]);
    }
    puts("");
  }
}

/* The solver's tolerance is 1e-11. If F itself amplifies no error, `blocks` steps of 1 / blocks
 * amplify an error by (1 + 1 / blocks)^blocks < e. kAllowed permits a factor of 10. */
static const double kAllowed = 1e-10;

/* Prints a line of the table. Returns 1 if the difference is too large, otherwise 0. */
static int compare(const char* what, const char* outcome, double difference, double allowed) {
  printf("%-10s  %-9s  %.1e\n", what, outcome, difference);
  return !(difference < allowed);
}

/* Returns half the squared norm of the last state, if the first state is u0. */
static double loss(struct chain* chain, const double* u0) {
  double states[2][kState], squares = 0;
  ucudnnLayerParallelRange_t range = {.struct_size = sizeof range, .layers = 1, .factor = 1};
  memcpy(states[0], u0, sizeof states[0]);
  for (int n = 0; n < chain->blocks; ++n) {
    range.first_layer = n;
    step(chain, &range, states[n % 2], states[(n + 1) % 2], 0);
  }
  const double* const last = states[chain->blocks % 2];
  for (int i = 0; i < kState; ++i) squares += last[i] * last[i];
  return squares / 2;
}

/* Returns how far the slope along one direction, computed from the gradient by u0, is from a
 * central difference of the loss. */
static double error_of_slope(struct chain* chain, const double* u0, const double* gradient) {
  double above[kState], below[kState], slope = 0;
  for (int i = 0; i < kState; ++i) {
    const double direction = cos(i);
    above[i] = u0[i] + 1e-4 * direction;
    below[i] = u0[i] - 1e-4 * direction;
    slope += gradient[i] * direction;
  }
  return fabs(slope - (loss(chain, above) - loss(chain, below)) / 2e-4);
}

/* Returns the largest difference between `expected` and the states, or adjoints, that `get`
 * returns. */
static double difference_of_states(ucudnnLayerParallelSolver_t solver, int blocks,
                                   ucudnnLayerParallelStatus_t (*get)(ucudnnLayerParallelSolver_t,
                                                                      int, const void**),
                                   const double* expected) {
  double largest = 0;
  for (int n = 0; n <= blocks; ++n) {
    const void* state = NULL;
    check(get(solver, n, &state));
    largest = fmax(largest, largest_difference(state, &expected[n * kState], kState));
  }
  return largest;
}

/* Returns 1 and prints a message if the solver's number of states is not `expected`, else 0. */
static int count_states(const struct chain* chain, int64_t expected) {
  if (chain->states == expected) return 0;
  fprintf(stderr, "the solver has %lld states; %lld are expected\n", (long long)chain->states,
          (long long)expected);
  return 1;
}

/* Solves forward and adjoint, and compares with `serial`. Returns how many differences are too
 * large, plus how many numbers of states are wrong. */
static int solve(struct chain* chain, const double* first, const struct serial* serial, int lanes) {
  const ucudnnLayerParallelCallbacks_t callbacks = {.struct_size = sizeof callbacks,
                                                    .user = chain,
                                                    .create = create,
                                                    .destroy = destroy,
                                                    .combine = combine,
                                                    .squared_distance = squared_distance,
                                                    .step = step,
                                                    .adjoint_step = adjoint_step};
  /* STORE_C_POINTS keeps every fourth state. With COARSE_SUM, a coarse step adds F of all blocks
   * that it replaces, each computed at the step's input. */
  const ucudnnLayerParallelOptions_t options = {.struct_size = sizeof options,
                                                .coarse = UCUDNN_LAYER_PARALLEL_COARSE_SUM,
                                                .storage = UCUDNN_LAYER_PARALLEL_STORE_C_POINTS,
                                                .lanes = lanes};
  ucudnnLayerParallelSolver_t solver = NULL;
  int64_t states_told = 0;
  check(ucudnnLayerParallelCreate(&solver, chain->blocks, &callbacks, &options));
  check(ucudnnLayerParallelGetStateCount(chain->blocks, &options, 1, &states_told));
  int wrong = count_states(chain, states_told);

  const ucudnnLayerParallelSolveOptions_t to_tolerance = {
      .struct_size = sizeof to_tolerance,
      .tolerance = 1e-11,
      .start = UCUDNN_LAYER_PARALLEL_START_NESTED};
  ucudnnLayerParallelResult_t forward = {.struct_size = sizeof forward};
  check(ucudnnLayerParallelSolveForward(solver, first, &to_tolerance, &forward));

  /* The loss is |u_N|^2 / 2, so its gradient by u_N is u_N. */
  double last[kState];
  const void* reached = NULL;
  check(ucudnnLayerParallelGetState(solver, chain->blocks, &reached));
  memcpy(last, reached, sizeof last);
  ucudnnLayerParallelResult_t adjoint = {.struct_size = sizeof adjoint};
  check(ucudnnLayerParallelSolveAdjoint(solver, last, &to_tolerance, &adjoint));
  check(ucudnnLayerParallelVisitLayers(solver, keep_gradient, chain));

  print_residuals(&forward, &adjoint);
  puts("what        outcome    difference");
  const double states =
      difference_of_states(solver, chain->blocks, ucudnnLayerParallelGetState, serial->states);
  wrong += compare("states", name_of(forward.outcome), states, kAllowed);
  const double adjoints =
      difference_of_states(solver, chain->blocks, ucudnnLayerParallelGetAdjoint, serial->adjoints);
  wrong += compare("adjoints", name_of(adjoint.outcome), adjoints, kAllowed);
  const double gradients =
      largest_difference(chain->gradients, serial->gradients, (size_t)chain->blocks * kMatrix);
  wrong += compare("gradients", "", gradients, kAllowed);
  check(ucudnnLayerParallelGetAdjoint(solver, 0, &reached));
  wrong += compare("slope", "", error_of_slope(chain, first, reached), 1e-6);
  check(ucudnnLayerParallelDestroy(solver));
  return wrong + count_states(chain, 0);
}

int main(int argc, char** argv) {
  const int blocks = argc > 1 ? atoi(argv[1]) : 128;
  const int lanes = argc > 2 ? atoi(argv[2]) : 1;
  if (blocks < 1 || lanes < 1) {
    fprintf(stderr, "usage: attention_chain [BLOCKS [LANES]]; libucudnn_layer_parallel is %s\n",
            ucudnnLayerParallelGetVersionString());
    return 2;
  }
  struct chain chain = {.blocks = blocks,
                        .h = 1.0 / blocks,
                        .weights = allocate((size_t)blocks, sizeof(struct block)),
                        .of_lane = allocate((size_t)lanes, sizeof(struct values)),
                        .gradients = allocate((size_t)blocks * kMatrix, sizeof(double))};
  unsigned long long seed = 1;
  for (int n = 0; n < blocks; ++n) {
    struct block* const block = &chain.weights[n];
    double* const matrices[] = {block->q, block->k, block->v, block->a, block->b};
    for (int i = 0; i < 5; ++i) draw(matrices[i], kMatrix, sqrt(3.0 / kWidth), &seed);
  }
  double first[kState];
  draw(first, kState, 1, &seed);
  printf("%d attention blocks, %d tokens of %d features\n", blocks, kTokens, kWidth);

  struct serial serial = run_serially(&chain, first);
  const int wrong = solve(&chain, first, &serial, lanes);
  free(serial.states);
  free(serial.adjoints);
  free(serial.gradients);
  free(chain.weights);
  free(chain.of_lane);
  free(chain.gradients);
  return wrong != 0;
}
