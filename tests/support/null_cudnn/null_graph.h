/* Settings and calls of the null library's graph API; not part of cuDNN. */
#pragma once

#include <cudnn.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the engines, as bits, whose plans can become CUDA graphs: none before it is called. */
void nullGraphSetNative(uint64_t engines);

/* Sets the plans that heuristics list from now on: plans of `count` JSON texts, which must stay
 * alive. Before it is called, and with a count of 0, heuristics leave the given descriptors empty.
 */
void nullGraphSetListed(const char* const* jsons, int64_t count);

long nullGraphExecutions(void);
/* Returns the number of images of a finalized plan. */
int64_t nullGraphImages(cudnnBackendDescriptor_t plan);
int64_t nullGraphEngine(cudnnBackendDescriptor_t plan);
const char* nullGraphJson(cudnnBackendDescriptor_t plan);
/* Returns the pointer that a variant pack has for `uid`. */
void* nullGraphPointer(cudnnBackendDescriptor_t pack, int64_t uid);
void* nullGraphWorkspace(cudnnBackendDescriptor_t pack);

#ifdef __cplusplus
}
#endif
