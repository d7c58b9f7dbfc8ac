/* Layer-parallel multigrid over a program's own layers, in C. A chain of layers
 *     u_n+1 = Phi_n(u_n), n = 0 to N - 1,
 * is solved for all its states at once: several blocks of layers can run at the same time (options,
 * `lanes`). The adjoint chain is solved in the same way. The program supplies the vectors and the
 * layers by callbacks, so the vectors may be in any memory and the layers may run on any device.
 * Residual chains, Phi_n(u) = u + h F_n(u), converge in a few cycles whatever their depth;
 * attention blocks and neural ODEs are such chains. Source of the method: Kirby et al.,
 * "Layer-Parallel Training with GPU Concurrency of Deep Residual Neural Networks via Nonlinear
 * Multigrid".
 *
 * Link with -lucudnn_layer_parallel, which needs neither CUDA nor cuDNN. docs/layer_parallel_api.md
 * has an example program.
 *
 * Functions that can fail return ucudnnLayerParallelStatus_t; none throws or prints. Any thread may
 * call them. Only one thread at a time may use a solver, and a callback must not use its own
 * solver. Two solvers share no data.
 *
 * The first member of each struct, struct_size, is the struct's size. Before the program passes a
 * struct, it sets struct_size to sizeof. Later versions append members, for which 0 is the default,
 * and fill only the members that the program was compiled with. If no version of the struct had
 * this size, functions return UCUDNN_LAYER_PARALLEL_BAD_PARAM and write nothing. */
#ifndef UCUDNN_LAYER_PARALLEL_H_
#define UCUDNN_LAYER_PARALLEL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Statuses that also exist in cudnnStatus_t have the same numbers there. */
typedef enum {
  UCUDNN_LAYER_PARALLEL_SUCCESS = 0,
  UCUDNN_LAYER_PARALLEL_BAD_PARAM = 2000,
  UCUDNN_LAYER_PARALLEL_NOT_SUPPORTED = 3000, /* not in this state, for example before a solve */
  UCUDNN_LAYER_PARALLEL_ALLOC_FAILED = 4003, /* the solver lacks memory, or a thread cannot start */
  UCUDNN_LAYER_PARALLEL_CALLBACK_FAILED = 5000, /* see ucudnnLayerParallelGetCallbackCode */
} ucudnnLayerParallelStatus_t;

/* Returns the version of the loaded library, such as "0.1.0". */
const char* ucudnnLayerParallelGetVersionString(void);

/* Returns one line that says why this thread's last failed call failed, with the value that caused
 * the failure; "" if no call failed. The text is valid until the thread's next call. */
const char* ucudnnLayerParallelGetLastError(void);

/* If this thread's last failed call returned UCUDNN_LAYER_PARALLEL_CALLBACK_FAILED, returns the
 * value that the callback returned, or 0 if the callback made a null pointer. Returns 0 if the last
 * failed call returned another status. If several lanes failed at once, returns the value of the
 * first of these lanes. */
int ucudnnLayerParallelGetCallbackCode(void);

/* --- Callbacks of the program ---------------------------------------------------------------- */

/* The layers that one call of `step` applies: first_layer to first_layer + layers - 1, all to the
 * same input. A residual chain computes
 *     to = from + factor * h * (F_first(from) + ... + F_last(from)).
 * On level 0 there is one layer with factor 1, so `to` is Phi_first(from), whatever the form of
 * Phi. On coarser levels `to` approximates the result of factor * layers layers that run one after
 * the other. The states to which cycles converge do not depend on how `step` approximates that
 * result, but a better approximation needs fewer cycles. */
typedef struct {
  size_t struct_size; /* set by the library */
  int level;          /* 0 is the finest */
  int first_layer;
  int layers;
  double factor;
} ucudnnLayerParallelRange_t;

/* A state is a vector that the program owns, represented by a pointer that is not null; adjoints
 * are states too. A callback returns 0, or another code, which makes the API function fail. An
 * exception that leaves a callback ends the program, because it cannot be unwound through the
 * library. `lane` is a number from 0; callbacks that run at the same time have different lanes, so
 * a callback can have scratch memory for each lane. No two callbacks write to a state at the same
 * time, and none reads a state while another writes it. */
typedef struct {
  size_t struct_size;
  void* user; /* the first argument of each callback */

  /* Creates a state with any values in *state. Called only in ucudnnLayerParallelCreate, on its
   * calling thread. */
  int (*create)(void* user, void** state);
  /* Called only in ucudnnLayerParallelDestroy and ucudnnLayerParallelCreate, on their calling
   * threads. */
  void (*destroy)(void* user, void* state);
  /* Computes y = a * x + b * y. If b is 0, the old value of y may be anything and is not read. */
  int (*combine)(void* user, double a, const void* x, double b, void* y, int lane);
  /* Computes *square = |x - y|^2, or |x|^2 if y is null: squared L2 norms, in double precision. */
  int (*squared_distance)(void* user, const void* x, const void* y, int lane, double* square);

  /* Applies the layers of `range` forward. `from` and `to` are two different states. */
  int (*step)(void* user, const ucudnnLayerParallelRange_t* range, const void* from, void* to,
              int lane);
  /* Applies the transposed Jacobians of the layers of `range` at `state`, the state that layer
   * first_layer read. A residual chain computes
   *     to = from + factor * h * (J_first(state)^T from + ... + J_last(state)^T from)
   * with J_n the Jacobian of F_n. `state`, `from` and `to` are three different states.
   * `adjoint_step` is null if no adjoint is solved. */
  int (*adjoint_step)(void* user, const ucudnnLayerParallelRange_t* range, const void* state,
                      const void* from, void* to, int lane);

  /* `join` and `wait` are null if every other callback and visit has finished its work when it
   * returns. Otherwise each lane is a queue, such as a CUDA stream, that works in the order of the
   * calls; then arguments other than states and `square` are valid only during the call. Work
   * that any lane gets after `join` must start only when all work that the lanes got before `join`
   * is done. `wait` returns when all work of all lanes is done. The thread that called the solver
   * calls `join` and `wait`, while no other callback runs. Functions that solve or read call `wait`
   * before they return, also when they fail. */
  int (*join)(void* user);
  int (*wait)(void* user);
} ucudnnLayerParallelCallbacks_t;

/* --- A solver -------------------------------------------------------------------------------- */

/* Which layers `range` has on coarser levels. There, one step approximates a block of s layers that
 * begins with layer k * s. If s does not divide the number of layers, the last block is shorter.
 * The adjoint has the same blocks. */
typedef enum {
  UCUDNN_LAYER_PARALLEL_COARSE_INJECT = 0, /* the block's first layer, with factor s */
  UCUDNN_LAYER_PARALLEL_COARSE_SUM = 2, /* all layers of the block, with factor 1, for a step that
                                         * averages their weights or applies them in parallel */
} ucudnnLayerParallelCoarse_t;

typedef enum {
  UCUDNN_LAYER_PARALLEL_STORE_ALL = 0,
  UCUDNN_LAYER_PARALLEL_STORE_C_POINTS = 1, /* only the first state of each block of the finest
                                             * level; the layers run again when another state is
                                             * read. Unless skips_first_down is set, the results
                                             * are equal to the last bit */
} ucudnnLayerParallelStorage_t;

typedef enum {
  UCUDNN_LAYER_PARALLEL_THREAD_PER_LANE = 0,  /* each lane has a thread; lane 0 has the caller's */
  UCUDNN_LAYER_PARALLEL_THREAD_OF_CALLER = 1, /* the caller's thread calls the callbacks of all
                                               * lanes, one after the other: for lanes that are
                                               * queues */
} ucudnnLayerParallelThreads_t;

/* A member that is 0 means its default, so `{sizeof options}` means all defaults. */
typedef struct {
  size_t struct_size;
  /* Number of levels. 0: the fewest levels, but at least two, with fewer than eight layers on the
   * coarsest level. 1: the layers run one after the other, without multigrid. */
  int levels;
  /* The factors by which levels are coarsened, each 2 or more; the last factor also holds for all
   * further levels. If coarsening_count is 0, the factor is 4 (2 or 3 for chains of fewer than
   * eight layers). If the factor does not divide a level's layers, the last block is shorter. */
  int coarsening_count;
  const int* coarsening;
  ucudnnLayerParallelCoarse_t coarse;
  ucudnnLayerParallelStorage_t storage;
  /* How many blocks of layers run at once, at most UCUDNN_LAYER_PARALLEL_MOST_LANES; 0 means one
   * block. Results with any number of lanes are equal to the last bit. */
  int lanes;
  ucudnnLayerParallelThreads_t threads;
  /* Half the distance from 1 to the next larger number that an element of a state can hold: 0x1p-24
   * for float. It must be below 1; 0 means 0x1p-53, the value for double. Residuals that are this
   * small relative to the states count as rounding errors. */
  double unit_roundoff;
} ucudnnLayerParallelOptions_t;
#define UCUDNN_LAYER_PARALLEL_MOST_LANES 1024

typedef struct ucudnnLayerParallelSolver* ucudnnLayerParallelSolver_t;

/* Creates a solver for `layers` layers: at least 4, or at least 1 with one level. Copies all
 * arguments; `options` may be null. Creates the threads and all states that the solver will ever
 * need, including the states of the adjoint if there is an adjoint_step. On failure, destroys what
 * it has created. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelCreate(
    ucudnnLayerParallelSolver_t* solver, int layers,
    const ucudnnLayerParallelCallbacks_t* callbacks, const ucudnnLayerParallelOptions_t* options);

/* Destroys the solver and all its states. A null solver is not an error. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelDestroy(ucudnnLayerParallelSolver_t solver);

/* Sets *states to the number of states that ucudnnLayerParallelCreate would create, with or without
 * an adjoint_step. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelGetStateCount(
    int layers, const ucudnnLayerParallelOptions_t* options, int with_adjoint, int64_t* states);

/* --- Solving --------------------------------------------------------------------------------- */

typedef enum {
  UCUDNN_LAYER_PARALLEL_START_BROADCAST = 0, /* all states are copies of the first one */
  UCUDNN_LAYER_PARALLEL_START_NESTED = 1,    /* solves the coarsest level first, then finer ones */
  UCUDNN_LAYER_PARALLEL_START_PREVIOUS = 2,  /* the last solve's states: for a chain that changed
                                              * little. NOT_SUPPORTED before the first solve and
                                              * after a failed solve */
} ucudnnLayerParallelStart_t;

typedef enum {
  UCUDNN_LAYER_PARALLEL_SCALE_ABSOLUTE = 0,
  UCUDNN_LAYER_PARALLEL_SCALE_LARGEST_STATE = 1, /* residuals are divided by the norm of the largest
                                                  * state: for chains whose states grow */
} ucudnnLayerParallelScale_t;

/* A member that is 0 means its default. */
typedef struct {
  size_t struct_size;
  /* The solve ends when its residual is at most `tolerance` or, if `tolerance` is 0, after `cycles`
   * cycles. A tolerance that cannot be reached with unit_roundoff is BAD_PARAM. */
  double tolerance;
  ucudnnLayerParallelScale_t scale;
  /* Without a tolerance, the number of cycles; 0 means 2. With a tolerance, the largest number of
   * cycles; 0 means 50. If these cycles do not reach the tolerance, the layers run one after the
   * other. */
  int cycles;
  ucudnnLayerParallelStart_t start;
  int reserved_cycle; /* unused since an earlier version; must be 0, otherwise BAD_PARAM */
  /* Level l makes one F-relaxation, and then repeats a C- and an F-relaxation c_sweeps[l] times: 0
   * is F, 1 is FCF, 2 is FCFCF. The last of the relaxation_count numbers also holds for all further
   * levels. If relaxation_count is 0, all levels use FCF. */
  int relaxation_count;
  const int* c_sweeps;
  const void* reserved_c_weights; /* unused since an earlier version; must be null */
  /* If not 0, the first cycle does not relax on its way to the coarser levels. */
  int skips_first_down;
  /* If not 0, residuals[0] is computed, which costs a step of every layer. */
  int measures_start;
  /* If not 0 and there is no tolerance, no residual is computed, which saves a step of every block
   * in each cycle. Then divergence is noticed only when a state is not finite. */
  int skips_residuals;
} ucudnnLayerParallelSolveOptions_t;

typedef enum {
  UCUDNN_LAYER_PARALLEL_CONVERGED = 0, /* the residual is at most the tolerance */
  UCUDNN_LAYER_PARALLEL_ROUNDING = 1,  /* rounding keeps the residual above the tolerance */
  UCUDNN_LAYER_PARALLEL_EARLY = 2,     /* `cycles` cycles were made without a tolerance */
  UCUDNN_LAYER_PARALLEL_DIRECT = 3,    /* relaxation alone is exact after so many cycles */
  UCUDNN_LAYER_PARALLEL_SERIAL = 4,    /* layer after layer: one level, or no convergence */
} ucudnnLayerParallelOutcome_t;

/* The pointers belong to the solver. They are valid until its next solve in the same direction, or
 * until it is destroyed. */
typedef struct {
  size_t struct_size;
  ucudnnLayerParallelOutcome_t outcome;
  int cycles;
  /* residuals[k] is the residual after k cycles, in the chosen scale: the L2 norm over the
   * equations of all layers. residuals[0] is NaN if it was not computed. There are no residuals if
   * there is only one level. */
  int residual_count;
  const double* residuals;
  double largest_state; /* norm of the largest state */
  /* The reason why the layers ran one after the other although there are several levels: the cycles
   * diverged, stalled, or did not reach the tolerance. Otherwise "". */
  const char* fallback;
} ucudnnLayerParallelResult_t;

/* Solves for u_1 to u_N from u_0 = first, which is copied. `options` and `result` may be null.
 * result->outcome says how the states were found. After a failed solve there are no states to read
 * until the next solve. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelSolveForward(
    ucudnnLayerParallelSolver_t solver, const void* first,
    const ucudnnLayerParallelSolveOptions_t* options, ucudnnLayerParallelResult_t* result);

/* Solves the adjoint chain for lambda_N-1 to lambda_0 from lambda_N = last, which is copied. The
 * chain is linearised at the states of the last forward solve. If `last` is the gradient of a
 * function of u_N, lambda_n is that function's gradient with respect to u_n. NOT_SUPPORTED without
 * an adjoint_step, or without states of a forward solve. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelSolveAdjoint(
    ucudnnLayerParallelSolver_t solver, const void* last,
    const ucudnnLayerParallelSolveOptions_t* options, ucudnnLayerParallelResult_t* result);

/* --- Reading the states ---------------------------------------------------------------------- */

/* Sets *state to u_number, or *adjoint to lambda_number, for `number` from 0 to N. The state
 * belongs to the solver and may be read until the solver's next call. With
 * UCUDNN_LAYER_PARALLEL_STORE_C_POINTS the call may run layers to compute it. NOT_SUPPORTED if
 * there is no such state: each forward solve discards the adjoint until the next adjoint solve. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelGetState(ucudnnLayerParallelSolver_t solver,
                                                        int number, const void** state);
ucudnnLayerParallelStatus_t ucudnnLayerParallelGetAdjoint(ucudnnLayerParallelSolver_t solver,
                                                          int number, const void** adjoint);

/* Calls visit(user, n, u_n, lambda_n+1, lane) for each layer n. From these two states the program
 * computes the gradient of the layer's weights. All lanes call at once; each lane calls in
 * ascending order of layers. `adjoint` is null if no adjoint is solved. If a visit does not return
 * 0, the call fails as with any callback. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelVisitLayers(
    ucudnnLayerParallelSolver_t solver,
    int (*visit)(void* user, int layer, const void* state, const void* adjoint, int lane),
    void* user);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* UCUDNN_LAYER_PARALLEL_H_ */
