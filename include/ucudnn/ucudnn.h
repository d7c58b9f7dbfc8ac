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

/* "0.1.0" of the library that runs. */
const char* ucudnnGetVersionString(void);

/* Why the last call of this thread that ucudnn refused was refused; "" when none was. Valid until
 * the thread's next call. */
const char* ucudnnGetLastError(void);

/* --- Options --------------------------------------------------------------------------------- */

/* What the variables of docs/environment.md say, said by the program, and in their words:
 * `variable` is such a name, "UCUDNN_BATCH_SIZE_POLICY", `value` what it takes, "powerOfTwo". Wins
 * over the environment. To be called before the process's first cuDNN call that reaches ucudnn,
 * later CUDNN_STATUS_NOT_SUPPORTED; only UCUDNN_WORKSPACE_LIMIT with a size or `caller` can be
 * changed then, too, for kernels that are asked about or first called from then on: what was
 * promised before stays promised. CUDNN_STATUS_BAD_PARAM: no such variable or value. For instance,
 * ucudnnSetOption("UCUDNN_BENCHMARK_DEVICES", "0,2") has those devices measure beside the one that
 * runs; a device that does not exist is found when measuring begins, which goes on without it. */
cudnnStatus_t ucudnnSetOption(const char* variable, const char* value);

/* UCUDNN_WORKSPACE_LIMIT in bytes for each kernel; UCUDNN_NO_LIMIT is `caller`. */
#define UCUDNN_NO_LIMIT ((size_t)-1)
cudnnStatus_t ucudnnSetWorkspaceLimit(size_t bytes);

/* UCUDNN_TOTAL_WORKSPACE in bytes, above 0. */
cudnnStatus_t ucudnnSetTotalWorkspace(size_t bytes);

/* UCUDNN_BATCH_SIZE_POLICY. */
typedef enum {
  UCUDNN_POLICY_AUTO = 0,
  UCUDNN_POLICY_UNDIVIDED = 1,
  UCUDNN_POLICY_POWER_OF_TWO = 2,
  UCUDNN_POLICY_ALL = 3,
} ucudnnBatchSizePolicy_t;
cudnnStatus_t ucudnnSetBatchSizePolicy(ucudnnBatchSizePolicy_t policy);

/* --- One budget for all kernels -------------------------------------------------------------- */

/* Without UCUDNN_TOTAL_WORKSPACE, or a workspace plan with a total, these have no effect but on the
 * lanes that the report names. */

/* The program orders the convolutions of both handles, whatever streams they are set to: each
 * begins on the device only when those called before it, on either handle, have ended, and no two
 * calls overlap in time. Then the handles share workspace, as one handle on one stream does.
 * Handles that are declared with a common one are ordered all together; one declared with itself
 * orders its own streams. Events are not looked at: where this is said and not kept, results are
 * wrong. CUDNN_STATUS_NOT_SUPPORTED where a convolution ran on one of them before, or they are of
 * different devices. */
cudnnStatus_t ucudnnDeclareOrder(cudnnHandle_t first, cudnnHandle_t second);

/* All convolutions of one iteration have run: the budget of the handle's device is divided among
 * those that ran so far (which may measure them), not only when they have run once again. Where
 * none ran yet, it is divided among those that were asked about, and again once they have run. No
 * effect where it was divided before. CUDNN_STATUS_NOT_SUPPORTED where nothing ran or was asked
 * about, or the handle's stream is captured. */
cudnnStatus_t ucudnnEndRecording(cudnnHandle_t handle);

/* --- Images split over ranks ------------------------------------------------------------------ */

/* Without UCUDNN_SPATIAL these have no effect, and ucudnnSpatialGetCell is
 * CUDNN_STATUS_NOT_SUPPORTED. All ranks must say the same at the same place of their calls. */

/* 0: from now on this rank's calls, on all threads, are its own and see its stripe alone, without
 * the other ranks, which do not wait for them: an evaluation on rank 0, say. 1: they are split.
 * Where ranks are threads, those of the rank whose split calls the calling thread has made;
 * CUDNN_STATUS_NOT_SUPPORTED before its first one. */
cudnnStatus_t ucudnnSpatialEnable(int enabled);

/* The same of the calling thread's calls alone: what it computes of rows that it has fetched
 * itself, say, while other threads' calls are split. */
cudnnStatus_t ucudnnSpatialEnableThread(int enabled);

/* 1: from now on the calling thread's tensors are the same on every rank and whole (a gathered
 * picture, what lies behind global pooling), not stripes: its calls compute what they say,
 * gradients of filters are not summed, and nothing is refused. 0: they are stripes again. Other
 * threads, such as one that runs a backward pass, say it for themselves. */
cudnnStatus_t ucudnnSpatialDeclareReplicated(int replicated);

/* The same of the tensors of one descriptor of the legacy API, on all threads: convolutions whose x
 * or y it describes, and bias gradients of its dy. Until 0, which is to be said before the
 * descriptor is destroyed; under the drop-in destroying it says so. */
cudnnStatus_t ucudnnSpatialDeclareReplicatedTensor(cudnnTensorDescriptor_t tensor, int replicated);

/* 1: filter and bias gradients of split convolutions are summed over the ranks of a group; 0: each
 * rank has its own part, and the program sums. As UCUDNN_SPATIAL_REDUCE, of which it takes the
 * place. CUDNN_STATUS_NOT_SUPPORTED where a split gradient has run before this was said for the
 * first time, or when the other was. */
cudnnStatus_t ucudnnSpatialSetReduce(int sums);

/* The calling thread's next two split calls are the data and the filter gradient of one
 * convolution, in either order, and read the same dy with the same values: the second takes the
 * rows that the first received. Without this each exchanges its own. */
cudnnStatus_t ucudnnSpatialSameGradient(void);

/* 1: from now on the stream of the calling thread's calls does not wait for the sums of filter and
 * bias gradients over ranks, so that the next layers' gradients are computed meanwhile. The program
 * neither reads nor writes such a gradient before ucudnnSpatialAwait on a handle of that stream. 0:
 * what follows a call sees its sum, as at first. */
cudnnStatus_t ucudnnSpatialDefer(int deferred);

/* What is enqueued on the handle's stream from now on comes after all sums that were deferred.
 * While that stream is captured there is nothing to wait for: CUDNN_STATUS_EXECUTION_FAILED where
 * a sum that was deferred before is not over. */
cudnnStatus_t ucudnnSpatialAwait(cudnnHandle_t handle);

/* y becomes x with the rows that lie beside it on other ranks, for what a program computes itself
 * (a pooling, a norm, an interpolation of its own): y has the extents of x, and along each of d, h
 * and w as many elements more on the one side as on the other. What lies outside the whole image is
 * 0; without UCUDNN_SPATIAL x is the whole image. On the handle's stream; all ranks call it alike.
 * One floating-point type; tensors of any positive strides that do not overlap.
 * CUDNN_STATUS_BAD_PARAM where the tensors do not fit each other. */
cudnnStatus_t ucudnnSpatialExchange(cudnnHandle_t handle, cudnnTensorDescriptor_t xDesc,
                                    const void* x, cudnnTensorDescriptor_t yDesc, void* y);

/* Where ranks are threads of one process that no launcher started (UCUDNN_SPATIAL_TRANSPORT=
 * loopback: all on one device, for tests), calls on `handle` are those of `rank`, and each rank has
 * a thread of its own; with `peer` a call's rank is its device's. To be called before the handle's
 * first call. CUDNN_STATUS_NOT_SUPPORTED elsewhere, and for ranks that the grid lacks. */
cudnnStatus_t ucudnnSpatialJoin(cudnnHandle_t handle, int rank);

/* Which part of each image this process holds, or, where ranks are threads, the calling thread's
 * rank: CUDNN_STATUS_NOT_SUPPORTED before its first split call. */
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
/* What a part has of the whole axis, from begin up to but without end, counted from the whole
 * tensor's first row: its rows of x and of y, and the rows, its own among them, that it needs of
 * the tensor that is exchanged (x of forward, dy of the gradients). */
typedef struct {
  size_t struct_size;
  int64_t x_begin, x_end;
  int64_t y_begin, y_end;
  int64_t needed_begin, needed_end;
} ucudnnSpatialRows_t;
/* The geometry of split convolutions, by which ucudnn exchanges rows; of the arguments alone,
 * whether or not anything is split. CUDNN_STATUS_NOT_SUPPORTED where parts that are convolved by
 * themselves are not the whole convolution; ucudnnGetLastError says why. */
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
 * layers of one shape have several names. x and y are the images and outputs, dx and dy where the
 * operation has gradients. Options may still be set afterwards, but for UCUDNN_REAL_CUDNN: the
 * descriptors are that library's. CUDNN_STATUS_NOT_SUPPORTED for shapes ucudnn leaves alone, and
 * for names beyond the first 10,000. */
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

/* How the legacy convolution of these descriptors runs, as it was decided last: the first
 * `requested` of its `*returned` kinds of micro-batches, whose images add up to the mini-batch; of
 * tiles, kinds of tiles of `micro_batch` images each, as many times the mini-batch as an image has
 * tiles. `batches` may be null where `requested` is 0; struct_size of its first element holds for
 * all. CUDNN_STATUS_NOT_SUPPORTED: none was called yet. */
cudnnStatus_t ucudnnGetPlan(ucudnnOperation_t operation, cudnnTensorDescriptor_t x,
                            cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                            cudnnTensorDescriptor_t y, int requested, int* returned,
                            ucudnnMicroBatches_t* batches);

/* Of this process so far. A kernel is a convolution's shape, operation and workspace. */
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

/* The report (JSON, as UCUDNN_REPORT writes it) as it is now. `*bytes` is the room in `text`, and
 * becomes what the text needs with its final zero. `text` may be null, to ask for that. With less
 * room CUDNN_STATUS_BAD_PARAM, and nothing is written. */
cudnnStatus_t ucudnnGetReport(char* text, size_t* bytes);

/* --- cuDNN's functions ----------------------------------------------------------------------- */

/* As the functions of <cudnn.h> of the same names, of the same types, with ucudnn's answers; with
 * UCUDNN_MODE=off the real library's. What these promise, these keep: a workspace or an
 * algorithm that one of them reported is for convolutions called through them (or, with the drop-in
 * preloaded, through cuDNN's names), never for the real library. Their handle is a real one,
 * and all other functions of cuDNN take it. */
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

/* cuDNN 7's names and values. */
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
