/* What the null library's graph API was told; not part of cuDNN. */
#pragma once

#include <cudnn.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The engines that say that their plans become CUDA graphs, as bits: none before it is called. */
void nullGraphSetNative(uint64_t engines);

/* What heuristics list from now on: the plans of `count` JSON texts, which stay where they are.
 * Before it is called, and with none, they fill what they are given with nothing. */
void nullGraphSetListed(const char* const* jsons, int64_t count);

long nullGraphExecutions(void);
/* Of a finalized plan. */
int64_t nullGraphImages(cudnnBackendDescriptor_t plan);
int64_t nullGraphEngine(cudnnBackendDescriptor_t plan);
const char* nullGraphJson(cudnnBackendDescriptor_t plan);
/* Of a variant pack. */
void* nullGraphPointer(cudnnBackendDescriptor_t pack, int64_t uid);
void* nullGraphWorkspace(cudnnBackendDescriptor_t pack);

#ifdef __cplusplus
}
#endif
