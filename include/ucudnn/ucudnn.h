/* The C interface of ucudnn, by which a program sets options, declares facts about its calls, reads
 * plans, statistics and the report, and calls cuDNN's convolution functions with ucudnn's answers.
 * Link with -lucudnn, and with cuDNN 9 as before. If the drop-in is preloaded too, the process
 * still has one ucudnn library, one set of promises and one report.
 *
 * Functions that can fail return cudnnStatus_t, and none throws. If ucudnn itself refuses a call,
 * ucudnnGetLastError() says which value is wrong. Errors of the real cuDNN are returned unchanged.
 * Any thread may call all functions; as cuDNN demands, only one thread at a time may use a handle.
 *
 * C++ programs include <ucudnn/handle.h> and use the names of cuDNN's functions. */
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

/* Returns the version of the loaded library, such as "0.1.0". */
const char* ucudnnGetVersionString(void);

/* Returns why ucudnn refused the latest refused call of this thread; "" if it refused none. The
 * text is valid until the thread's next call. */
const char* ucudnnGetLastError(void);

/* --- Options --------------------------------------------------------------------------------- */

/* Sets the option `variable` to `value`, by the names and values of docs/environment.md, such as
 * "UCUDNN_BATCH_SIZE_POLICY" and "powerOfTwo". Such a value replaces the environment's. The program
 * must set options before the process's first cuDNN call that reaches ucudnn; later calls return
 * CUDNN_STATUS_NOT_SUPPORTED. Only UCUDNN_WORKSPACE_LIMIT can be changed later, to a size or to
 * `caller`. The new limit holds for kernels that are asked about or first called after the change;
 * earlier promises stay valid. Returns CUDNN_STATUS_BAD_PARAM if there is no such variable or
 * value.
 *
 * ucudnnSetOption("UCUDNN_BENCHMARK_DEVICES", "0,2") lets these devices measure, besides the device
 * that runs the calls. If a device does not exist, measuring finds that out when it begins, and
 * uses the other devices. */
cudnnStatus_t ucudnnSetOption(const char* variable, const char* value);

/* Sets UCUDNN_WORKSPACE_LIMIT, the limit in bytes for each kernel; UCUDNN_NO_LIMIT means the value
 * `caller`. */
#define UCUDNN_NO_LIMIT ((size_t)-1)
cudnnStatus_t ucudnnSetWorkspaceLimit(size_t bytes);

/* Sets UCUDNN_TOTAL_WORKSPACE; `bytes` is above 0. */
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

/* If neither UCUDNN_TOTAL_WORKSPACE nor a workspace plan sets a total, the only effect of these
 * functions is on the numbers of `lanes` in the report. */

/* Declares that the program orders the convolutions of both handles, whatever their streams are.
 * That means: a convolution of either handle begins on the device only when all convolutions that
 * were called before it, on either handle, have ended; and no two calls overlap in time. The
 * handles then share workspace as if they were one handle on one stream. Handles that are declared
 * with a common handle form one ordered group; a handle declared with itself orders its own
 * streams. ucudnn does not check events: if the declaration is false, results are wrong. Returns
 * CUDNN_STATUS_NOT_SUPPORTED if a convolution ran on one of the handles before, or if they belong
 * to different devices. */
cudnnStatus_t ucudnnDeclareOrder(cudnnHandle_t first, cudnnHandle_t second);

/* Declares that all convolutions of one iteration have run. Divides the budget of the handle's
 * device now among the kernels that ran, and may measure them first; without this call, the budget
 * is divided when these kernels have run once again in the same order. If no kernel ran yet,
 * divides the budget among the kernels that were asked about, and divides it again once these
 * kernels have run. Has no effect if the budget was divided before. Returns
 * CUDNN_STATUS_NOT_SUPPORTED if no kernel ran or was asked about, or if the handle's stream is
 * being captured. */
cudnnStatus_t ucudnnEndRecording(cudnnHandle_t handle);

/* --- Images split over ranks ------------------------------------------------------------------ */

/* Without UCUDNN_SPATIAL these functions have no effect, and ucudnnSpatialGetCell returns
 * CUDNN_STATUS_NOT_SUPPORTED. All ranks must make the same declarations at the same place in their
 * sequence of calls. */

/* 0: the later calls of this rank, on all threads, run locally on its own stripe; the other ranks
 * do not wait for them. An evaluation on rank 0 alone is an example. 1: this rank's calls are split
 * again. If ranks are threads, the rank is the one whose split calls the calling thread has made;
 * before the thread's first split call, returns CUDNN_STATUS_NOT_SUPPORTED. */
cudnnStatus_t ucudnnSpatialEnable(int enabled);

/* Does the same as ucudnnSpatialEnable for the calling thread's calls only. For example, one thread
 * may compute on rows that it has fetched itself while other threads' calls are split. */
cudnnStatus_t ucudnnSpatialEnableThread(int enabled);

/* 1: the tensors of the calling thread's later calls are not stripes, but whole and equal on every
 * rank, such as a gathered image or the output of global pooling. Its calls run unsplit, gradients
 * of filters are not summed, and no function is refused. 0: the tensors are stripes again. Each
 * thread must call this function itself, including a thread that runs the backward pass. */
cudnnStatus_t ucudnnSpatialDeclareReplicated(int replicated);

/* Does the same as ucudnnSpatialDeclareReplicated for the tensors of one descriptor of the legacy
 * API, on all threads. The declaration is for convolutions whose x or y the descriptor describes,
 * and for bias gradients whose dy it describes. It holds until a call with 0, which the program
 * must make before it destroys the descriptor. With the drop-in preloaded, destroying the
 * descriptor ends the declaration too. */
cudnnStatus_t ucudnnSpatialDeclareReplicatedTensor(cudnnTensorDescriptor_t tensor, int replicated);

/* 1: filter and bias gradients of split convolutions are summed over the ranks of a group. 0: each
 * rank keeps its own part, and the program sums the parts. Replaces the value of
 * UCUDNN_SPATIAL_REDUCE. Returns CUDNN_STATUS_NOT_SUPPORTED if a split gradient has run and the
 * call would change this setting or make it for the first time. */
cudnnStatus_t ucudnnSpatialSetReduce(int sums);

/* Declares that the calling thread's next two split calls are the data gradient and the filter
 * gradient of one convolution, in either order, and read the same dy with the same values. The
 * second call then uses the rows that the first one received; without the declaration each call
 * exchanges rows. */
cudnnStatus_t ucudnnSpatialSameGradient(void);

/* 1: the stream of the calling thread's later calls does not wait for the sums of filter and bias
 * gradients over ranks, so that the next layers' gradients are computed meanwhile. Before the
 * program reads or writes such a gradient, it calls ucudnnSpatialAwait with a handle of that
 * stream. 0, the initial state: work that is enqueued after a call runs after its sum. */
cudnnStatus_t ucudnnSpatialDefer(int deferred);

/* Makes work that is enqueued on the handle's stream from now on wait for all deferred sums. A
 * stream that is being captured cannot wait for a sum that was deferred before the capture: if such
 * a sum is not finished, returns CUDNN_STATUS_EXECUTION_FAILED. */
cudnnStatus_t ucudnnSpatialAwait(cudnnHandle_t handle);

/* Copies x to y and adds the adjacent rows of other ranks, for an operation of the program's own (a
 * pooling, a norm, an interpolation). Along each of d, h and w, y has the extent of x plus the same
 * number of further elements on each side. Elements outside the whole image become 0; without
 * UCUDNN_SPATIAL x is the whole image. Runs on the handle's stream; all ranks must make the same
 * call. Both tensors have the same floating-point type and any positive strides with which elements
 * do not overlap. Returns CUDNN_STATUS_BAD_PARAM if the tensors do not fit each other. */
cudnnStatus_t ucudnnSpatialExchange(cudnnHandle_t handle, cudnnTensorDescriptor_t xDesc,
                                    const void* x, cudnnTensorDescriptor_t yDesc, void* y);

/* Declares which rank uses `handle`, if ranks are threads of one process that no launcher started.
 * With UCUDNN_SPATIAL_TRANSPORT=loopback (all ranks on one device, for tests), calls on `handle`
 * are calls of `rank`, and each rank has its own thread. With `peer` this call is not needed: the
 * device of a call determines its rank. Must be called before the handle's first call. Returns
 * CUDNN_STATUS_NOT_SUPPORTED with any transport other than loopback, and for a rank outside the
 * grid. */
cudnnStatus_t ucudnnSpatialJoin(cudnnHandle_t handle, int rank);

/* The part of each image that this process holds. If ranks are threads, it is the part of the
 * calling thread's rank; before the thread's first split call, ucudnnSpatialGetCell returns
 * CUDNN_STATUS_NOT_SUPPORTED. */
typedef struct {
  size_t struct_size;
  int rank, ranks;                       /* this rank and the number of ranks */
  int groups, d_parts, h_parts, w_parts; /* of the grid; each group has images of its own */
  int group, d, h, w;                    /* this rank's position, each counted from 0 */
} ucudnnSpatialCell_t;
cudnnStatus_t ucudnnSpatialGetCell(ucudnnSpatialCell_t* cell);

/* One axis of a convolution whose images are cut into parts. `filter` is the number of taps, `pad`
 * the padding on each side, and `extents` has the number of rows of x of each part, in order. */
typedef struct {
  size_t struct_size;
  int operation; /* ucudnnOperation_t */
  int filter, stride, pad, dilation;
  int parts;
  const int64_t* extents;
} ucudnnSpatialAxis_t;
/* The rows of one part along the axis, from begin to end - 1, counted from the whole tensor's first
 * row: the part's rows of x and of y, and the rows that the part needs of the exchanged tensor (x
 * of forward, dy of the gradients). The part's own rows are among the needed rows. */
typedef struct {
  size_t struct_size;
  int64_t x_begin, x_end;
  int64_t y_begin, y_end;
  int64_t needed_begin, needed_end;
} ucudnnSpatialRows_t;
/* Computes which rows ucudnn would exchange in a split convolution. The result depends only on the
 * arguments; no split process is needed. Returns CUDNN_STATUS_NOT_SUPPORTED if convolving the parts
 * separately does not give the whole convolution; ucudnnGetLastError says why. */
cudnnStatus_t ucudnnSpatialGetRows(const ucudnnSpatialAxis_t* axis, int part,
                                   ucudnnSpatialRows_t* rows);

/* --- Reading back ---------------------------------------------------------------------------- */

/* The first member of each struct, struct_size, is the struct's size. Before the program passes a
 * struct, it sets struct_size to sizeof. Later versions append members, and fill only the members
 * that the program was compiled with. If no version of the struct had this size, functions return
 * CUDNN_STATUS_BAD_PARAM and write nothing. */

typedef enum {
  UCUDNN_FORWARD = 0,
  UCUDNN_BACKWARD_DATA = 1,
  UCUDNN_BACKWARD_FILTER = 2,
} ucudnnOperation_t;

/* Sets the name of the convolution of these descriptors in the report, for all three operations.
 * Several layers of the same shape may each have a name. x and y describe the images and outputs,
 * or dx and dy if the operation has gradients. Options may still be set afterwards, except
 * UCUDNN_REAL_CUDNN, because the descriptors belong to the real library. Returns
 * CUDNN_STATUS_NOT_SUPPORTED for shapes that ucudnn does not divide, and for names beyond the first
 * 10,000. */
cudnnStatus_t ucudnnSetLayerName(const char* name, cudnnTensorDescriptor_t x,
                                 cudnnFilterDescriptor_t w,
                                 cudnnConvolutionDescriptor_t convolution,
                                 cudnnTensorDescriptor_t y);

/* `count` micro-batches of `micro_batch` images each, which run one after the other. */
typedef struct {
  size_t struct_size;
  char engine[128]; /* engine name of the report, such as "legacy:1"; cut to 127 characters */
  int micro_batch;
  int count;
  size_t workspace_bytes;
  double piece_ms; /* time of one micro-batch; negative if it was not measured */
} ucudnnMicroBatches_t;

/* Gets the latest plan of the legacy convolution of these descriptors. Sets *returned to the number
 * of its kinds of micro-batches, and writes the first `requested` of them to `batches`. The images
 * of all kinds add up to the mini-batch. If the plan cuts images into tiles, the kinds are kinds of
 * tiles, of `micro_batch` images each, and their images add up to the mini-batch times the number
 * of tiles of an image. `batches` may be null if `requested` is 0; only its first element needs
 * struct_size. Returns CUDNN_STATUS_NOT_SUPPORTED if no such convolution was called yet. */
cudnnStatus_t ucudnnGetPlan(ucudnnOperation_t operation, cudnnTensorDescriptor_t x,
                            cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                            cudnnTensorDescriptor_t y, int requested, int* returned,
                            ucudnnMicroBatches_t* batches);

/* Counts of this process so far. A kernel is a convolution's shape, operation and workspace. */
typedef struct {
  size_t struct_size;
  int64_t kernels;         /* kernels that were called */
  int64_t divided_kernels; /* called kernels that are divided */
  int64_t calls;
  int64_t divided_calls; /* calls of divided kernels, except calls that ran undivided */
  int64_t measured;      /* measurements of this process: engines times micro-batch sizes */
  int64_t fallbacks;     /* number of times that a call did not run as planned */
} ucudnnStatistics_t;
cudnnStatus_t ucudnnGetStatistics(ucudnnStatistics_t* statistics);

/* Writes the present report to `text`, as the JSON text that UCUDNN_REPORT writes. Before the call,
 * *bytes is the size of `text`; afterwards it is the size of the report with its final zero. `text`
 * may be null, to ask for that size. If *bytes is too small, returns CUDNN_STATUS_BAD_PARAM and
 * writes nothing to `text`. */
cudnnStatus_t ucudnnGetReport(char* text, size_t* bytes);

/* --- cuDNN's functions ----------------------------------------------------------------------- */

/* These functions have the types of the functions of <cudnn.h> with the same names, and give
 * ucudnn's answers; with UCUDNN_MODE=off they give the real library's answers. A workspace or an
 * algorithm that one of them reported may be used only in convolutions that are called through
 * these functions (or, with the drop-in preloaded, through cuDNN's names), never with the real
 * library. The handles are handles of the real library; all other functions of cuDNN accept
 * them. */
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

/* The preferences of cuDNN 7, with its names and values. */
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

/* Do what cudnnGetConvolution*Algorithm of cuDNN 7 did: they set *algorithm to the algorithm to use
 * without workspace, with any workspace, or (..._SPECIFY_WORKSPACE_LIMIT) within `limit_bytes`. The
 * program then asks for the workspace by ucudnnGetConvolution*WorkspaceSize; the answer may be the
 * workspace of micro-batches. The limit UCUDNN_WORKSPACE_LIMIT holds, too. An algorithm with
 * another math type than the convolution descriptor's is not returned. They return
 * CUDNN_STATUS_NOT_SUPPORTED if no algorithm fits, and CUDNN_STATUS_BAD_PARAM for a null pointer or
 * an unknown preference. */
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
