/* ucudnn's own interface, in C: what a program can say to it and read back from it, and cuDNN's
 * convolution functions as it answers them. Link with -lucudnn (and with cuDNN 9 as before); with
 * the drop-in preloaded as well there is still one library, one set of promises and one report.
 *
 * Functions return cudnnStatus_t, and none throws. Where ucudnn itself refuses something,
 * ucudnnGetLastError() says in words which value is wrong; errors of the real cuDNN are returned
 * unchanged. All functions may be called from any thread; a cuDNN handle is used by one thread at a
 * time, as cuDNN demands.
 *
 * C++ programs include <ucudnn/handle.h> and keep the names of cuDNN's functions. */
#ifndef UCUDNN_UCUDNN_H_
#define UCUDNN_UCUDNN_H_

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>

#if CUDNN_MAJOR != 9
#error "ucudnn works with cuDNN 9 only"
#endif

#ifdef __cplusplus
#define UCUDNN_TYPE_OF(function) decltype(::function)
extern "C" {
#else
#define UCUDNN_TYPE_OF(function) __typeof__(function)
#endif
#pragma GCC visibility push(default)

/* Returns the version of the library that runs: "0.1.0". */
const char* ucudnnGetVersionString(void);

/* Says why ucudnn refused the last call of this thread that it refused; "" when it refused none.
 * Valid until the thread's next call. */
const char* ucudnnGetLastError(void);

/* --- Options --------------------------------------------------------------------------------- */

/* Sets an option by the name and words of docs/environment.md: `variable` is a name such as
 * "UCUDNN_BATCH_SIZE_POLICY", `value` a value such as "powerOfTwo". It wins over the environment.
 * To be called before the process's first cuDNN call that reaches ucudnn; later calls return
 * CUDNN_STATUS_NOT_SUPPORTED. Only UCUDNN_WORKSPACE_LIMIT with a size or `caller` can be changed
 * later, for kernels that are asked about or first called from then on: what was promised before
 * stays promised. CUDNN_STATUS_BAD_PARAM: no such variable or value. For instance,
 * ucudnnSetOption("UCUDNN_BENCHMARK_DEVICES", "0,2") lets these devices measure beside the one that
 * runs; a device that does not exist is noticed when measuring begins, which goes on without it. */
cudnnStatus_t ucudnnSetOption(const char* variable, const char* value);

/* Sets UCUDNN_WORKSPACE_LIMIT in bytes for each kernel; UCUDNN_NO_LIMIT is `caller`. */
#define UCUDNN_NO_LIMIT ((size_t)-1)
cudnnStatus_t ucudnnSetWorkspaceLimit(size_t bytes);

/* Sets UCUDNN_TOTAL_WORKSPACE in bytes, above 0. */
cudnnStatus_t ucudnnSetTotalWorkspace(size_t bytes);

/* Values of UCUDNN_BATCH_SIZE_POLICY. */
typedef enum {
  UCUDNN_POLICY_AUTO = 0,
  UCUDNN_POLICY_UNDIVIDED = 1,
  UCUDNN_POLICY_POWER_OF_TWO = 2,
  UCUDNN_POLICY_ALL = 3,
} ucudnnBatchSizePolicy_t;
cudnnStatus_t ucudnnSetBatchSizePolicy(ucudnnBatchSizePolicy_t policy);

/* --- One budget for all kernels -------------------------------------------------------------- */

/* Without UCUDNN_TOTAL_WORKSPACE, or a workspace plan with a total, these functions change nothing
 * but the lanes that the report names. */

/* Declares that the program orders the convolutions of both handles, whatever streams they are set
 * to: each begins on the device only when those called before it, on either handle, have ended, and
 * no two calls overlap in time. The handles then share workspace as if they were one handle on one
 * stream. Handles that are declared with a common handle are ordered all together; a handle
 * declared with itself orders its own streams. ucudnn does not look at events: if the declaration
 * is false, results are wrong. CUDNN_STATUS_NOT_SUPPORTED if a convolution ran on one of them
 * before, or if they belong to different devices. */
cudnnStatus_t ucudnnDeclareOrder(cudnnHandle_t first, cudnnHandle_t second);

/* Declares that all convolutions of one iteration have run: the budget of the handle's device is
 * divided now among those that ran so far (which may measure them), instead of when they have run
 * once again. If none ran yet, it is divided among those that were asked about, and again once they
 * have run. No effect if it was divided before. CUDNN_STATUS_NOT_SUPPORTED if nothing ran or was
 * asked about, or if the handle's stream is captured. */
cudnnStatus_t ucudnnEndRecording(cudnnHandle_t handle);

/* --- Images split over ranks ------------------------------------------------------------------ */

/* Without UCUDNN_SPATIAL these functions have no effect, and ucudnnSpatialGetCell returns
 * CUDNN_STATUS_NOT_SUPPORTED. All ranks must make the same declarations at the same place of their
 * calls. */

/* 0: from now on this rank's calls, on all threads, run locally on its stripe alone; the other
 * ranks do not wait for them (an evaluation on rank 0, say). 1: this rank's calls are split. If
 * ranks are threads, this holds for the calls of the rank whose split calls the calling thread has
 * made. Returns CUDNN_STATUS_NOT_SUPPORTED before the thread's first split call. */
cudnnStatus_t ucudnnSpatialEnable(int enabled);

/* ucudnnSpatialEnable for the calling thread's calls alone: a thread may compute on rows that it
 * has fetched itself, say, while other threads' calls are split. */
cudnnStatus_t ucudnnSpatialEnableThread(int enabled);

/* 1: from now on the calling thread's tensors are whole and equal on every rank (a gathered
 * picture, what lies behind global pooling), not stripes: its calls run as written, gradients of
 * filters are not summed, and nothing is refused. 0: they are stripes again. Other threads, such as
 * one that runs a backward pass, must call it themselves. */
cudnnStatus_t ucudnnSpatialDeclareReplicated(int replicated);

/* ucudnnSpatialDeclareReplicated for the tensors of one descriptor of the legacy API, on all
 * threads: it covers convolutions whose x or y it describes, and bias gradients of its dy. It holds
 * until a call with 0, which the program must make before it destroys the descriptor; under the
 * drop-in, destroying the descriptor does that. */
cudnnStatus_t ucudnnSpatialDeclareReplicatedTensor(cudnnTensorDescriptor_t tensor, int replicated);

/* 1: filter and bias gradients of split convolutions are summed over the ranks of a group; 0: each
 * rank keeps its own part, and the program sums. Wins over UCUDNN_SPATIAL_REDUCE.
 * CUDNN_STATUS_NOT_SUPPORTED if a call changes or first makes this choice after a split gradient
 * has run. */
cudnnStatus_t ucudnnSpatialSetReduce(int sums);

/* The calling thread's next two split calls are the data and the filter gradient of one
 * convolution, in either order, and read the same dy with the same values: the second takes the
 * rows that the first received. Without this each exchanges its own. */
cudnnStatus_t ucudnnSpatialSameGradient(void);

/* 1: from now on the stream of the calling thread's calls does not wait for the sums of filter and
 * bias gradients over ranks, so that the next layers' gradients are computed meanwhile. The program
 * neither reads nor writes such a gradient before it calls ucudnnSpatialAwait on a handle of that
 * stream. 0, the initial state: work that follows a call sees its sum. */
cudnnStatus_t ucudnnSpatialDefer(int deferred);

/* Work that is enqueued on the handle's stream from now on comes after all sums that were deferred.
 * While that stream is captured it cannot wait: CUDNN_STATUS_EXECUTION_FAILED if a sum that was
 * deferred before is not over. */
cudnnStatus_t ucudnnSpatialAwait(cudnnHandle_t handle);

/* Copies x to y together with the rows that lie beside it on other ranks, for a program's own
 * operation (a pooling, a norm, an interpolation): y has the extents of x, and along each of d, h
 * and w as many further elements on one side as on the other. Elements outside the whole image are
 * 0; without UCUDNN_SPATIAL x is the whole image. Runs on the handle's stream; all ranks call it
 * alike. Both tensors have one floating-point type and any positive strides that do not overlap.
 * CUDNN_STATUS_BAD_PARAM if the tensors do not fit each other. */
cudnnStatus_t ucudnnSpatialExchange(cudnnHandle_t handle, cudnnTensorDescriptor_t xDesc,
                                    const void* x, cudnnTensorDescriptor_t yDesc, void* y);

/* Gives `handle` to a rank, if ranks are threads of one process that no launcher started. With
 * UCUDNN_SPATIAL_TRANSPORT=loopback (all ranks on one device, for tests), calls on `handle` are
 * calls of `rank`, and each rank has a thread of its own; with `peer` the device of a call
 * determines its rank. To be called before the handle's first call. With any other transport than
 * loopback, and for a rank outside the grid, returns CUDNN_STATUS_NOT_SUPPORTED. */
cudnnStatus_t ucudnnSpatialJoin(cudnnHandle_t handle, int rank);

/* The part of each image that this process holds or, if ranks are threads, the part of the calling
 * thread's rank: CUDNN_STATUS_NOT_SUPPORTED before the thread's first split call. */
typedef struct {
  size_t struct_size;
  int rank, ranks;                       /* of the job */
  int groups, d_parts, h_parts, w_parts; /* of the grid; groups have images of their own */
  int group, d, h, w;                    /* this rank's, each counted from 0 */
} ucudnnSpatialCell_t;
cudnnStatus_t ucudnnSpatialGetCell(ucudnnSpatialCell_t* cell);

/* One axis of a convolution whose images are cut into parts: filter taps, stride, padding on both
 * sides, dilation, and how many rows of x each part has, in their order. */
typedef struct {
  size_t struct_size;
  int operation; /* ucudnnOperation_t */
  int filter, stride, pad, dilation;
  int parts;
  const int64_t* extents;
} ucudnnSpatialAxis_t;
/* The rows of one part along the axis, from begin up to but without end, counted from the whole
 * tensor's first row: its rows of x and of y, and the rows, including its own, that it needs of the
 * exchanged tensor (x of forward, dy of the gradients). */
typedef struct {
  size_t struct_size;
  int64_t x_begin, x_end;
  int64_t y_begin, y_end;
  int64_t needed_begin, needed_end;
} ucudnnSpatialRows_t;
/* Computes the geometry of split convolutions, by which ucudnn exchanges rows. It depends on the
 * arguments alone, whether or not anything is split. CUDNN_STATUS_NOT_SUPPORTED if convolving the
 * parts by themselves does not give the whole convolution; ucudnnGetLastError says why. */
cudnnStatus_t ucudnnSpatialGetRows(const ucudnnSpatialAxis_t* axis, int part,
                                   ucudnnSpatialRows_t* rows);

/* --- Reading back ---------------------------------------------------------------------------- */

/* Structs begin with their size, which the program sets to what sizeof says before it passes one:
 * later versions append members, and fill those that the program was compiled with. A size that no
 * version had is CUDNN_STATUS_BAD_PARAM, and nothing is written. */

typedef enum {
  UCUDNN_FORWARD = 0,
  UCUDNN_BACKWARD_DATA = 1,
  UCUDNN_BACKWARD_FILTER = 2,
} ucudnnOperation_t;

/* Calls the convolution of these descriptors `name` in the report, in all three operations; several
 * layers of one shape have several names. x and y are the images and outputs, or dx and dy if the
 * operation has gradients. Options may still be set afterwards, except UCUDNN_REAL_CUDNN, because
 * the descriptors belong to that library. Returns CUDNN_STATUS_NOT_SUPPORTED for shapes that ucudnn
 * leaves alone, and for names beyond the first 10,000. */
cudnnStatus_t ucudnnSetLayerName(const char* name, cudnnTensorDescriptor_t x,
                                 cudnnFilterDescriptor_t w,
                                 cudnnConvolutionDescriptor_t convolution,
                                 cudnnTensorDescriptor_t y);

/* `count` micro-batches of `micro_batch` images each, run one after the other. */
typedef struct {
  size_t struct_size;
  char engine[128]; /* as in the report, "legacy:1"; cut to 127 characters */
  int micro_batch;
  int count;
  size_t workspace_bytes;
  double piece_ms; /* of one micro-batch; negative: nobody measured it */
} ucudnnMicroBatches_t;

/* Says how the legacy convolution of these descriptors runs, by the latest decision. Writes the
 * first `requested` of its `*returned` kinds of micro-batches, whose images add up to the
 * mini-batch. For tiles, these are kinds of tiles of `micro_batch` images each, and their images
 * add up to the mini-batch times the number of tiles of an image. `batches` may be null if
 * `requested` is 0; struct_size of its first element holds for all. CUDNN_STATUS_NOT_SUPPORTED:
 * none was called yet. */
cudnnStatus_t ucudnnGetPlan(ucudnnOperation_t operation, cudnnTensorDescriptor_t x,
                            cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                            cudnnTensorDescriptor_t y, int requested, int* returned,
                            ucudnnMicroBatches_t* batches);

/* Figures of this process so far. A kernel is a convolution's shape, operation and workspace. */
typedef struct {
  size_t struct_size;
  int64_t kernels;         /* that were called */
  int64_t divided_kernels; /* of them */
  int64_t calls;
  int64_t divided_calls; /* calls of divided kernels */
  int64_t measured;      /* measurements made by this process: engines times micro-batch sizes */
  int64_t fallbacks;     /* times that something ran otherwise than planned */
} ucudnnStatistics_t;
cudnnStatus_t ucudnnGetStatistics(ucudnnStatistics_t* statistics);

/* Writes the report (JSON, as UCUDNN_REPORT writes it) as it is now. `*bytes` is the size of
 * `text`, and becomes the size that the report needs with its final zero. `text` may be null, to
 * ask for that size. If `*bytes` is too small, returns CUDNN_STATUS_BAD_PARAM and writes nothing to
 * `text`. */
cudnnStatus_t ucudnnGetReport(char* text, size_t* bytes);

/* --- cuDNN's functions ----------------------------------------------------------------------- */

/* These have the types of the functions of <cudnn.h> of the same names, and give ucudnn's answers;
 * with UCUDNN_MODE=off the real library's. These functions keep what they promise: a workspace or
 * an algorithm that one of them reported is for convolutions called through them (or, with the
 * drop-in preloaded, through cuDNN's names), never for the real library. Their handle is a real
 * one, and all other functions of cuDNN take it. */
extern UCUDNN_TYPE_OF(cudnnCreate) ucudnnCreate;
extern UCUDNN_TYPE_OF(cudnnDestroy) ucudnnDestroy;
extern UCUDNN_TYPE_OF(cudnnSetStream) ucudnnSetStream;

extern UCUDNN_TYPE_OF(cudnnConvolutionForward) ucudnnConvolutionForward;
extern UCUDNN_TYPE_OF(cudnnConvolutionBiasActivationForward) ucudnnConvolutionBiasActivationForward;
extern UCUDNN_TYPE_OF(cudnnConvolutionBackwardData) ucudnnConvolutionBackwardData;
extern UCUDNN_TYPE_OF(cudnnConvolutionBackwardFilter) ucudnnConvolutionBackwardFilter;

extern UCUDNN_TYPE_OF(cudnnGetConvolutionForwardWorkspaceSize)
    ucudnnGetConvolutionForwardWorkspaceSize;
extern UCUDNN_TYPE_OF(cudnnGetConvolutionBackwardDataWorkspaceSize)
    ucudnnGetConvolutionBackwardDataWorkspaceSize;
extern UCUDNN_TYPE_OF(cudnnGetConvolutionBackwardFilterWorkspaceSize)
    ucudnnGetConvolutionBackwardFilterWorkspaceSize;

extern UCUDNN_TYPE_OF(cudnnGetConvolutionForwardAlgorithm_v7)
    ucudnnGetConvolutionForwardAlgorithm_v7;
extern UCUDNN_TYPE_OF(cudnnGetConvolutionBackwardDataAlgorithm_v7)
    ucudnnGetConvolutionBackwardDataAlgorithm_v7;
extern UCUDNN_TYPE_OF(cudnnGetConvolutionBackwardFilterAlgorithm_v7)
    ucudnnGetConvolutionBackwardFilterAlgorithm_v7;

extern UCUDNN_TYPE_OF(cudnnFindConvolutionForwardAlgorithm) ucudnnFindConvolutionForwardAlgorithm;
extern UCUDNN_TYPE_OF(cudnnFindConvolutionBackwardDataAlgorithm)
    ucudnnFindConvolutionBackwardDataAlgorithm;
extern UCUDNN_TYPE_OF(cudnnFindConvolutionBackwardFilterAlgorithm)
    ucudnnFindConvolutionBackwardFilterAlgorithm;

extern UCUDNN_TYPE_OF(cudnnFindConvolutionForwardAlgorithmEx)
    ucudnnFindConvolutionForwardAlgorithmEx;
extern UCUDNN_TYPE_OF(cudnnFindConvolutionBackwardDataAlgorithmEx)
    ucudnnFindConvolutionBackwardDataAlgorithmEx;
extern UCUDNN_TYPE_OF(cudnnFindConvolutionBackwardFilterAlgorithmEx)
    ucudnnFindConvolutionBackwardFilterAlgorithmEx;

/* --- What cuDNN 8 removed -------------------------------------------------------------------- */

/* The names and values of cuDNN 7. */
typedef enum {
  CUDNN_CONVOLUTION_FWD_NO_WORKSPACE = 0,
  CUDNN_CONVOLUTION_FWD_PREFER_FASTEST = 1,
  CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT = 2,
} cudnnConvolutionFwdPreference_t;
typedef enum {
  CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE = 0,
  CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST = 1,
  CUDNN_CONVOLUTION_BWD_FILTER_SPECIFY_WORKSPACE_LIMIT = 2,
} cudnnConvolutionBwdFilterPreference_t;
typedef enum {
  CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE = 0,
  CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST = 1,
  CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT = 2,
} cudnnConvolutionBwdDataPreference_t;

/* cuDNN 7's cudnnGetConvolution*Algorithm: the algorithm to use within `limit_bytes`
 * (..._SPECIFY_WORKSPACE_LIMIT), without workspace, or whatever it needs; the convolution's
 * workspace is then asked for with ucudnnGetConvolution*WorkspaceSize, and may be that of
 * micro-batches. UCUDNN_WORKSPACE_LIMIT holds beside `limit_bytes`. Math types other than the
 * convolution descriptor's are not answered. CUDNN_STATUS_NOT_SUPPORTED: no algorithm fits;
 * CUDNN_STATUS_BAD_PARAM: a null pointer or an unknown preference. */
cudnnStatus_t ucudnnGetConvolutionForwardAlgorithm(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                   cudnnFilterDescriptor_t w,
                                                   cudnnConvolutionDescriptor_t convolution,
                                                   cudnnTensorDescriptor_t y,
                                                   cudnnConvolutionFwdPreference_t preference,
                                                   size_t limit_bytes,
                                                   cudnnConvolutionFwdAlgo_t* algorithm);
cudnnStatus_t ucudnnGetConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataPreference_t preference, size_t limit_bytes,
    cudnnConvolutionBwdDataAlgo_t* algorithm);
cudnnStatus_t ucudnnGetConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterPreference_t preference, size_t limit_bytes,
    cudnnConvolutionBwdFilterAlgo_t* algorithm);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#undef UCUDNN_TYPE_OF

#endif /* UCUDNN_UCUDNN_H_ */
