/* Settings and calls of the null library's graph API; not part of cuDNN. */
#pragma once

#include <cudnn.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the engines whose plans can become native CUDA graphs: engine i if bit i is set. Before the
 * first call, no engine's plans can. */
void nullGraphSetNative(uint64_t engines);

/* Sets the JSON texts of the plans that heuristics list from now on; the texts must stay alive.
 * Before the first call, and with a count of 0, heuristics leave the given descriptors empty. */
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
