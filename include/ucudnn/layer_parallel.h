/* Layer-parallel multigrid over a program's own layers, in C: a chain of layers
 *     u_n+1 = Phi_n(u_n), n = 0 to N - 1,
 * is solved for all its states at once, blocks of layers at the same time, and so is its adjoint.
 * The program brings the vectors and the layers as callbacks, which may keep their numbers anywhere
 * and run on anything. Residual chains, Phi_n(u) = u + h F_n(u), converge in a few cycles whatever
 * their depth: attention blocks, neural ODEs. Source of the method: Kirby et al., "Layer-Parallel
 * Training with GPU Concurrency of Deep Residual Neural Networks via Nonlinear Multigrid".
 *
 * Link with -lucudnn_layer_parallel, which needs neither CUDA nor cuDNN. docs/layer_parallel_api.md
 * has a program.
 *
 * Functions return ucudnnLayerParallelStatus_t; none throws or prints. All may be called from any
 * thread, those of one solver by one thread at a time and not from its callbacks; two solvers have
 * nothing in common.
 *
 * Structs begin with their size, which the program sets to what sizeof says before it passes one:
 * later versions append members, of which 0 is the default, and fill those that the program was
 * compiled with. A size that no version had is UCUDNN_LAYER_PARALLEL_BAD_PARAM, and nothing is
 * written. */
#ifndef UCUDNN_LAYER_PARALLEL_H_
#define UCUDNN_LAYER_PARALLEL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A status that cudnnStatus_t has too has the same number there. */
typedef enum {
  UCUDNN_LAYER_PARALLEL_SUCCESS = 0,
  UCUDNN_LAYER_PARALLEL_BAD_PARAM = 2000,
  UCUDNN_LAYER_PARALLEL_NOT_SUPPORTED = 3000,   /* not as things are: nothing solved yet, say */
  UCUDNN_LAYER_PARALLEL_ALLOC_FAILED = 4003,    /* no memory of the solver's own, or no thread */
  UCUDNN_LAYER_PARALLEL_CALLBACK_FAILED = 5000, /* ucudnnLayerParallelGetCallbackCode */
} ucudnnLayerParallelStatus_t;

/* Returns the version of the library that runs: "0.1.0". */
const char* ucudnnLayerParallelGetVersionString(void);

/* Says in one line why the last failed call of this thread failed, with the value that caused it;
 * "" when none failed. Valid until the thread's next call. */
const char* ucudnnLayerParallelGetLastError(void);

/* If this thread's last failed call returned UCUDNN_LAYER_PARALLEL_CALLBACK_FAILED, returns the
 * value that the callback returned, or 0 if the callback made a null pointer. Returns 0 if the last
 * failed call returned another status. If several lanes failed at once, returns the value of the
 * first of these lanes. */
int ucudnnLayerParallelGetCallbackCode(void);

/* --- What the program brings ----------------------------------------------------------------- */

/* The layers that one call of a step applies: first_layer to first_layer + layers - 1, all to the
 * same input. A residual chain computes
 *     to = from + factor * h * (F_first(from) + ... + F_last(from)).
 * On level 0 it is one layer with factor 1: `to` is Phi_first(from), whatever the form of Phi. On
 * coarser levels `to` stands for factor * layers layers one after the other. Any approximation
 * leads to the same states; a closer one takes fewer cycles. */
typedef struct {
  size_t struct_size; /* the library's */
  int level;          /* 0 is the finest */
  int first_layer;
  int layers;
  double factor;
} ucudnnLayerParallelRange_t;

/* A state is a vector that the program owns, known by a pointer that is not null; states and
 * adjoints are of one kind. Callbacks return 0, or a code of the program's that ends the call. An
 * exception that leaves a callback ends the program: the library has an unwinder of its own. `lane`
 * numbers what runs at once, from 0: a callback can keep its scratch memory by lane. No two
 * callbacks write to a state at the same time, and none reads a state while another writes it. */
typedef struct {
  size_t struct_size;
  void* user; /* the first argument of each */

  /* Creates a state of any value in *state. Called only by ucudnnLayerParallelCreate's thread. */
  int (*create)(void* user, void** state);
  /* Called only by the threads of ucudnnLayerParallelDestroy and ucudnnLayerParallelCreate. */
  void (*destroy)(void* user, void* state);
  /* Computes y = a * x + b * y. If b is 0, the old value of y may be anything and is not read. */
  int (*combine)(void* user, double a, const void* x, double b, void* y, int lane);
  /* Computes *square = |x - y|^2, or |x|^2 if y is null: squared L2 norms, in double precision. */
  int (*squared_distance)(void* user, const void* x, const void* y, int lane, double* square);

  /* Applies the layers of `range` forward. `from` and `to` are two different states. */
  int (*step)(void* user, const ucudnnLayerParallelRange_t* range, const void* from, void* to,
              int lane);
  /* Null if no adjoint is solved. Applies the transposed Jacobians of the layers of `range` at
   * `state`, which is the state that layer first_layer read: for a residual chain
   *     to = from + factor * h * (J_first(state)^T from + ... + J_last(state)^T from)
   * with J_n the Jacobian of F_n. `state`, `from` and `to` are three different states. */
  int (*adjoint_step)(void* user, const ucudnnLayerParallelRange_t* range, const void* state,
                      const void* from, void* to, int lane);

  /* Both are null if all other callbacks, and visits, have done their work when they return.
   * Otherwise each lane is a queue, such as a CUDA stream, that works in the order of the calls;
   * arguments other than states and `square` are valid during the call alone. Work that any lane is
   * given after `join` comes after all work that every lane was given before; when `wait` returns,
   * all work is done. Both are called by the thread that called the solver, between the calls of
   * other callbacks. Functions that solve or read call `wait` before they return, also when they
   * fail. */
  int (*join)(void* user);
  int (*wait)(void* user);
} ucudnnLayerParallelCallbacks_t;

/* --- A solver -------------------------------------------------------------------------------- */

/* The layers that `range` holds on coarser levels, where a step stands for a block of s layers,
 * from layer k * s on. The adjoint has the same blocks. If s does not divide the number of layers,
 * the last block is shorter. */
typedef enum {
  UCUDNN_LAYER_PARALLEL_COARSE_INJECT = 0, /* the first of them, with factor s: a step of H = sh */
  UCUDNN_LAYER_PARALLEL_COARSE_SUM = 2,    /* all of them, with factor 1: for a caller that averages
                                            * their weights, say, or runs them side by side */
} ucudnnLayerParallelCoarse_t;

typedef enum {
  UCUDNN_LAYER_PARALLEL_STORE_ALL = 0,
  UCUDNN_LAYER_PARALLEL_STORE_C_POINTS = 1, /* every coarsening-th state of the finest level; others
                                             * follow from them by steps when they are read. Same
                                             * results, to the bit */
} ucudnnLayerParallelStorage_t;

typedef enum {
  UCUDNN_LAYER_PARALLEL_THREAD_PER_LANE = 0,  /* the calling thread is lane 0's */
  UCUDNN_LAYER_PARALLEL_THREAD_OF_CALLER = 1, /* it calls back for every lane, one after the other:
                                               * for lanes that are queues */
} ucudnnLayerParallelThreads_t;

/* A member of 0 has its default, so `{sizeof options}` is all defaults. */
typedef struct {
  size_t struct_size;
  /* Number of levels. 0: as many as leave fewer than eight layers on the coarsest level, but at
   * least two. 1: serial propagation. */
  int levels;
  /* The factor by which each level is coarsened, 2 or more; the last one holds for all further
   * levels. If coarsening_count is 0, the factor is 4 (2 or 3 for chains of fewer than eight
   * layers). Layers behind the last whole block make a shorter block. */
  int coarsening_count;
  const int* coarsening;
  ucudnnLayerParallelCoarse_t coarse;
  ucudnnLayerParallelStorage_t storage;
  /* How many blocks of layers run at once, at most UCUDNN_LAYER_PARALLEL_MOST_LANES; 0: 1. Results
   * do not depend on it, to the bit. */
  int lanes;
  ucudnnLayerParallelThreads_t threads;
  /* Half the distance from 1 to the next larger number that a state can hold: 0x1p-24 for float. It
   * must be below 1; 0 stands for double's value. It decides which residuals count as rounding. */
  double unit_roundoff;
} ucudnnLayerParallelOptions_t;
#define UCUDNN_LAYER_PARALLEL_MOST_LANES 1024

typedef struct ucudnnLayerParallelSolver* ucudnnLayerParallelSolver_t;

/* Creates a solver of `layers` layers, 4 or more unless there is one level. Copies all arguments;
 * `options` may be null. Creates all states that the solver will ever need, those of the adjoint
 * too if there is an adjoint_step, and the threads. If that fails, destroys again what it created.
 */
ucudnnLayerParallelStatus_t ucudnnLayerParallelCreate(
    ucudnnLayerParallelSolver_t* solver, int layers,
    const ucudnnLayerParallelCallbacks_t* callbacks, const ucudnnLayerParallelOptions_t* options);

/* Destroys the solver and all its states. A null solver is no error. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelDestroy(ucudnnLayerParallelSolver_t solver);

/* Returns in *states how many states ucudnnLayerParallelCreate would create, with an adjoint_step
 * or without. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelGetStateCount(
    int layers, const ucudnnLayerParallelOptions_t* options, int with_adjoint, int64_t* states);

/* --- Solving --------------------------------------------------------------------------------- */

typedef enum {
  UCUDNN_LAYER_PARALLEL_START_BROADCAST = 0, /* every state is the first one */
  UCUDNN_LAYER_PARALLEL_START_NESTED = 1,    /* the coarsest level first, then level by level */
  UCUDNN_LAYER_PARALLEL_START_PREVIOUS = 2,  /* as the last solve left the states: for a system that
                                              * changed little. NOT_SUPPORTED before a solve, and
                                              * behind one that failed */
} ucudnnLayerParallelStart_t;

typedef enum {
  UCUDNN_LAYER_PARALLEL_SCALE_ABSOLUTE = 0,
  UCUDNN_LAYER_PARALLEL_SCALE_LARGEST_STATE = 1, /* residuals are divided by the norm of the largest
                                                  * state: for states that grow */
} ucudnnLayerParallelScale_t;

/* A member of 0 has its default. */
typedef struct {
  size_t struct_size;
  /* The solve ends when its residual is at most this. 0: it ends after `cycles`. A tolerance that
   * states of unit_roundoff cannot reach is BAD_PARAM. */
  double tolerance;
  ucudnnLayerParallelScale_t scale;
  /* The number of cycles; with a tolerance the most cycles, after which the states are solved
   * serially. 0: 2, or 50 with a tolerance. */
  int cycles;
  ucudnnLayerParallelStart_t start;
  int reserved_cycle; /* of an earlier version; anything but 0 is BAD_PARAM */
  /* Level l relaxes F, and then c_sweeps[l] times C and F: 0 is F, 1 is FCF, 2 is FCFCF. The last
   * of relaxation_count levels holds for all further levels. If relaxation_count is 0, all levels
   * relax FCF. */
  int relaxation_count;
  const int* c_sweeps;
  const void* reserved_c_weights; /* of an earlier version; anything but null is BAD_PARAM */
  /* If not 0, the first cycle goes down without relaxing. */
  int skips_first_down;
  /* If not 0, residuals[0] is measured, which costs a step of every layer. */
  int measures_start;
  /* If not 0 and there is no tolerance, no residual is measured, which saves a step of every block
   * in each cycle. Divergence then shows only by states that are not finite. */
  int skips_residuals;
} ucudnnLayerParallelSolveOptions_t;

typedef enum {
  UCUDNN_LAYER_PARALLEL_CONVERGED = 0, /* the residual is at most the tolerance */
  UCUDNN_LAYER_PARALLEL_ROUNDING = 1,  /* it is as small as the precision allows, and above that */
  UCUDNN_LAYER_PARALLEL_EARLY = 2,     /* the cycles asked for are done */
  UCUDNN_LAYER_PARALLEL_DIRECT = 3,    /* so many cycles that relaxation alone is exact */
  UCUDNN_LAYER_PARALLEL_SERIAL = 4,    /* one level, or a solve that did not converge: serially */
} ucudnnLayerParallelOutcome_t;

/* Pointers belong to the solver: they are valid until its next solve in the same direction, or
 * until it is destroyed. */
typedef struct {
  size_t struct_size;
  ucudnnLayerParallelOutcome_t outcome;
  int cycles;
  /* residuals[k] is the residual after k cycles, in the scale asked for: the L2 norm over the
   * equations of all layers. residuals[0] is NaN if it was not measured. Serial propagation has no
   * residuals. */
  int residual_count;
  const double* residuals;
  double largest_state; /* its norm */
  /* Says why the states were solved serially although cycles were asked for: the solve diverged,
   * stalled, or ran out of cycles before it reached the tolerance. "" if they were not. */
  const char* fallback;
} ucudnnLayerParallelResult_t;

/* Solves for u_1 to u_N from u_0 = first, which is copied. `options` and `result` may be null.
 * result->outcome says how the states were found. A failed solve leaves no states until the next
 * solve. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelSolveForward(
    ucudnnLayerParallelSolver_t solver, const void* first,
    const ucudnnLayerParallelSolveOptions_t* options, ucudnnLayerParallelResult_t* result);

/* Solves the adjoint chain, linearised at the states of the last forward solve, for lambda_N-1 to
 * lambda_0: the gradients of a function of u_N with respect to each state, from its gradient
 * lambda_N = last, which is copied. NOT_SUPPORTED if there is no adjoint_step or there are no
 * states. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelSolveAdjoint(
    ucudnnLayerParallelSolver_t solver, const void* last,
    const ucudnnLayerParallelSolveOptions_t* options, ucudnnLayerParallelResult_t* result);

/* --- What was solved ------------------------------------------------------------------------- */

/* Returns the state u_number, or the adjoint lambda_number, for `number` from 0 to N. It belongs to
 * the solver and may be read until the solver's next call. If only C-points are stored, the call
 * may run the layers in front of it. NOT_SUPPORTED if there is none: a forward solve leaves no
 * adjoint until the next adjoint solve. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelGetState(ucudnnLayerParallelSolver_t solver,
                                                        int number, const void** state);
ucudnnLayerParallelStatus_t ucudnnLayerParallelGetAdjoint(ucudnnLayerParallelSolver_t solver,
                                                          int number, const void** adjoint);

/* Calls visit(user, n, u_n, lambda_n+1, lane) for each layer n: the two arguments of the gradient
 * of its weights. All lanes call at once; the calls of one lane come in ascending order of layers.
 * `adjoint` is null if none is solved. A visit that does not return 0 ends the call, as any
 * callback does. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelVisitLayers(
    ucudnnLayerParallelSolver_t solver,
    int (*visit)(void* user, int layer, const void* state, const void* adjoint, int lane),
    void* user);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* UCUDNN_LAYER_PARALLEL_H_ */
