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

/* The numbers are those of cudnnStatus_t that mean the same. */
typedef enum {
  UCUDNN_LAYER_PARALLEL_SUCCESS = 0,
  UCUDNN_LAYER_PARALLEL_BAD_PARAM = 2000,
  UCUDNN_LAYER_PARALLEL_NOT_SUPPORTED = 3000,   /* not as things are: nothing solved yet, say */
  UCUDNN_LAYER_PARALLEL_ALLOC_FAILED = 4003,    /* no memory of the solver's own, or no thread */
  UCUDNN_LAYER_PARALLEL_CALLBACK_FAILED = 5000, /* ucudnnLayerParallelGetCallbackCode */
} ucudnnLayerParallelStatus_t;

/* "0.1.0" of the library that runs. */
const char* ucudnnLayerParallelGetVersionString(void);

/* Why the last call of this thread that did not succeed did not, in one line with the value; ""
 * when none failed. Valid until the thread's next call. */
const char* ucudnnLayerParallelGetLastError(void);

/* What the callback returned because of which this thread's last call that answered
 * UCUDNN_LAYER_PARALLEL_CALLBACK_FAILED did so; 0 where it made a null pointer instead, and where
 * the last call that did not succeed answered otherwise. Of several lanes that failed at once, that
 * of the first. */
int ucudnnLayerParallelGetCallbackCode(void);

/* --- What the program brings ----------------------------------------------------------------- */

/* Which layers one call of a step applies: first_layer to first_layer + layers - 1, all to the same
 * input. A residual chain computes
 *     to = from + factor * h * (F_first(from) + ... + F_last(from)).
 * On level 0 it is one layer with factor 1: `to` is Phi_first(from), of whatever form it is. On
 * coarser levels `to` stands for factor * layers layers one after the other. Any approximation
 * leads to the same states; the nearer it comes, the fewer cycles it takes. */
typedef struct {
  size_t struct_size; /* the library's */
  int level;          /* 0 is the finest */
  int first_layer;
  int layers;
  double factor;
} ucudnnLayerParallelRange_t;

/* A state is a vector of the program's, known by a pointer that is not null; states and adjoints
 * are of one kind. Callbacks return 0, or a code of the program's that ends the call. An exception
 * that leaves one ends the program: the library has an unwinder of its own. `lane` counts what
 * runs at once, from 0: what a callback works with can be kept by lane. No two of them write to a
 * state at a time, and none reads it then. */
typedef struct {
  size_t struct_size;
  void* user; /* the first argument of each */

  /* *state becomes a new one, of any value. From ucudnnLayerParallelCreate's thread alone. */
  int (*create)(void* user, void** state);
  /* From the threads of ucudnnLayerParallelDestroy and of ucudnnLayerParallelCreate alone. */
  void (*destroy)(void* user, void* state);
  /* y = a * x + b * y. With a b of 0 the old value of y, which may be anything, is not read. */
  int (*combine)(void* user, double a, const void* x, double b, void* y, int lane);
  /* *square = |x - y|^2, or |x|^2 where y is null: L2 norms, in double precision. */
  int (*squared_distance)(void* user, const void* x, const void* y, int lane, double* square);

  /* The layers of `range`, forward. `from` and `to` are two states. */
  int (*step)(void* user, const ucudnnLayerParallelRange_t* range, const void* from, void* to,
              int lane);
  /* Null where no adjoint is solved. The same layers' transposed Jacobians at `state`, which is the
   * state that layer first_layer read: for a residual chain
   *     to = from + factor * h * (J_first(state)^T from + ... + J_last(state)^T from)
   * with J_n the Jacobian of F_n. `state`, `from` and `to` are three states. */
  int (*adjoint_step)(void* user, const ucudnnLayerParallelRange_t* range, const void* state,
                      const void* from, void* to, int lane);

  /* Both null where the callbacks above, and visits, have done their work when they return. Else
   * each lane is a queue, such as a CUDA stream, that does it in the order of the calls; arguments
   * but for states and `square` hold during the call alone. After `join` what any lane is given
   * comes after all that every lane was given before; when `wait` returns, all that was given is
   * done. Both are called by the thread that called the solver, between the other callbacks' calls;
   * what solves and reads waits before it returns, and where it fails, too. */
  int (*join)(void* user);
  int (*wait)(void* user);
} ucudnnLayerParallelCallbacks_t;

/* --- A solver -------------------------------------------------------------------------------- */

/* What `range` is on coarser levels, where a step stands for s layers, those from k * s on. The
 * adjoint has the same blocks; what s does not divide is the last layers. */
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

/* Members of 0 are defaults, so `{sizeof options}` is all defaults. */
typedef struct {
  size_t struct_size;
  /* 0: as many as leave the coarsest below eight layers, at least two. 1: serial propagation. */
  int levels;
  /* By how much each level is coarsened, 2 and more; the last holds for all that follow. None: by 4
   * (chains below eight layers by 2 or 3). Layers behind the last whole block are a shorter one. */
  int coarsening_count;
  const int* coarsening;
  ucudnnLayerParallelCoarse_t coarse;
  ucudnnLayerParallelStorage_t storage;
  /* How many blocks of layers run at once, at most UCUDNN_LAYER_PARALLEL_MOST_LANES; 0: 1. Results
   * do not depend on it, to the bit. */
  int lanes;
  ucudnnLayerParallelThreads_t threads;
  /* Half the distance from 1 to the next number that a state can hold, below 1: 0x1p-24 of float.
   * 0: that of double. Says which residuals are rounding. */
  double unit_roundoff;
} ucudnnLayerParallelOptions_t;
#define UCUDNN_LAYER_PARALLEL_MOST_LANES 1024

typedef struct ucudnnLayerParallelSolver* ucudnnLayerParallelSolver_t;

/* A solver of `layers` layers, 4 and more unless there is one level. Copies what it is given;
 * `options` may be null. Creates all states that it will ever need, those of the adjoint too where
 * there is an adjoint_step, and the threads. Where that fails, all that was created is destroyed
 * again. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelCreate(
    ucudnnLayerParallelSolver_t* solver, int layers,
    const ucudnnLayerParallelCallbacks_t* callbacks, const ucudnnLayerParallelOptions_t* options);

/* Destroys all states. Null is nothing to destroy. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelDestroy(ucudnnLayerParallelSolver_t solver);

/* How many states ucudnnLayerParallelCreate would create, with an adjoint_step or without. */
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

/* Members of 0 are defaults. */
typedef struct {
  size_t struct_size;
  /* The residual at which the solve ends. 0: none; it ends after `cycles`. One below what states of
   * unit_roundoff can reach is BAD_PARAM. */
  double tolerance;
  ucudnnLayerParallelScale_t scale;
  /* With a tolerance at most so many, and then the states are solved serially. 0: 2, or 50 with a
   * tolerance. */
  int cycles;
  ucudnnLayerParallelStart_t start;
  int reserved_cycle; /* of an earlier version; anything but 0 is BAD_PARAM */
  /* F-relaxation and then c_sweeps[l] times C- and F-relaxation on level l: 0 is F, 1 FCF, 2 FCFCF.
   * The last of relaxation_count levels holds for all that follow. None: FCF. */
  int relaxation_count;
  const int* c_sweeps;
  const void* reserved_c_weights; /* of an earlier version; anything but null is BAD_PARAM */
  /* Not 0: the first cycle goes down without relaxing. */
  int skips_first_down;
  /* Not 0: residuals[0] is measured, which costs a step of every layer. */
  int measures_start;
  /* Not 0: without a tolerance no residual is measured, which spares a step of every block in each
   * cycle. That a solve diverges is then seen by states that are not finite alone. */
  int skips_residuals;
} ucudnnLayerParallelSolveOptions_t;

typedef enum {
  UCUDNN_LAYER_PARALLEL_CONVERGED = 0, /* the residual is at most the tolerance */
  UCUDNN_LAYER_PARALLEL_ROUNDING = 1,  /* it is as small as the precision allows, and above that */
  UCUDNN_LAYER_PARALLEL_EARLY = 2,     /* the cycles asked for are done */
  UCUDNN_LAYER_PARALLEL_DIRECT = 3,    /* so many cycles that relaxation alone is exact */
  UCUDNN_LAYER_PARALLEL_SERIAL = 4,    /* one level, or a solve that did not converge: serially */
} ucudnnLayerParallelOutcome_t;

/* Pointers are the solver's: valid until its next solve of the same direction, or its end. */
typedef struct {
  size_t struct_size;
  ucudnnLayerParallelOutcome_t outcome;
  int cycles;
  /* residuals[k] is the one after k cycles, in the scale asked for; [0] NaN where it was not
   * measured. L2, over the equations of all layers. None behind serial propagation. */
  int residual_count;
  const double* residuals;
  double largest_state; /* its norm */
  /* Why the states were solved serially though cycles were asked for: the solve diverged, stalled
   * or was over before the tolerance. "" where they were not. */
  const char* fallback;
} ucudnnLayerParallelResult_t;

/* Solves for u_1 to u_N from u_0 = first, which is copied. `options` and `result` may be null.
 * States are those of result->outcome. Where it fails there are none until the next solve. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelSolveForward(
    ucudnnLayerParallelSolver_t solver, const void* first,
    const ucudnnLayerParallelSolveOptions_t* options, ucudnnLayerParallelResult_t* result);

/* Solves the adjoint chain, linearised at the states of the last forward solve, for lambda_N-1 to
 * lambda_0: the gradients of a function of u_N by each state, from its gradient lambda_N = last,
 * which is copied. NOT_SUPPORTED without adjoint_step, and without states. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelSolveAdjoint(
    ucudnnLayerParallelSolver_t solver, const void* last,
    const ucudnnLayerParallelSolveOptions_t* options, ucudnnLayerParallelResult_t* result);

/* --- What was solved ------------------------------------------------------------------------- */

/* u_number, 0 to N; lambda_number. They are the solver's: to be read, until its next call. With
 * stored C-points the layers in front of it may be run. NOT_SUPPORTED where there is none: a
 * forward solve leaves no adjoint until the next adjoint solve. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelGetState(ucudnnLayerParallelSolver_t solver,
                                                        int number, const void** state);
ucudnnLayerParallelStatus_t ucudnnLayerParallelGetAdjoint(ucudnnLayerParallelSolver_t solver,
                                                          int number, const void** adjoint);

/* visit(user, n, u_n, lambda_n+1, lane) for each layer n, as the gradient of its weights needs
 * them. All lanes call at once; those of one lane come by rising layer. `adjoint` is null where
 * none is solved. What is not 0 ends it, as of any callback. */
ucudnnLayerParallelStatus_t ucudnnLayerParallelVisitLayers(
    ucudnnLayerParallelSolver_t solver,
    int (*visit)(void* user, int layer, const void* state, const void* adjoint, int lane),
    void* user);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* UCUDNN_LAYER_PARALLEL_H_ */
