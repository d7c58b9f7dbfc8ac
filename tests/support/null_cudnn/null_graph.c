/* The graph API of the null library: execution plans made from JSON, variant packs, and
 * executions that return at once. The engines are 0, 5, 28, 38, 40 and 67. Engine 38 needs a
 * workspace of 1024 bytes for each image, engine 67 of 2048, engine 5 of 64, and engine 40 of 256
 * for each row of each image; engines 0 and 28 need none. Destroyed descriptors are kept in a list,
 * so that making a descriptor again allocates nothing. */
#include <cudnn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/null_cudnn/null_graph.h"

enum { kMostJson = 8192, kMostOperands = 16 };

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  struct Descriptor* next; /* in the list `spare` */
  char json[kMostJson];
  int64_t json_bytes, images, rows, engine, workspace_bytes;
  void* pointers[kMostOperands];
  int64_t uids[kMostOperands];
  int64_t operands;
  void* workspace;
};

static __thread struct Descriptor* spare = NULL;
static long executions = 0;
static uint64_t native_engines = 0; /* bit i stands for engine i; engine 67 is never native */

static const char* const* listed = NULL;
static int64_t listed_count = 0;

void nullGraphSetNative(uint64_t engines) { native_engines = engines; }
void nullGraphSetListed(const char* const* jsons, int64_t count) {
  listed = jsons;
  listed_count = count;
}

long nullGraphExecutions(void) { return executions; }
int64_t nullGraphImages(cudnnBackendDescriptor_t plan) {
  return ((struct Descriptor*)plan)->images;
}
int64_t nullGraphEngine(cudnnBackendDescriptor_t plan) {
  return ((struct Descriptor*)plan)->engine;
}
const char* nullGraphJson(cudnnBackendDescriptor_t plan) {
  return ((struct Descriptor*)plan)->json;
}
void* nullGraphPointer(cudnnBackendDescriptor_t pack, int64_t uid) {
  const struct Descriptor* descriptor = pack;
  for (int64_t i = 0; i < descriptor->operands; ++i) {
    if (descriptor->uids[i] == uid) return descriptor->pointers[i];
  }
  return NULL;
}
void* nullGraphWorkspace(cudnnBackendDescriptor_t pack) {
  return ((struct Descriptor*)pack)->workspace;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* out) {
  struct Descriptor* made = spare;
  if (made != NULL) {
    spare = made->next;
  } else {
    made = malloc(sizeof *made);
  }
  if (made == NULL) return CUDNN_STATUS_ALLOC_FAILED;
  made->type = type;
  made->json[0] = '\0';
  made->json_bytes = made->operands = 0;
  made->images = made->rows = made->engine = made->workspace_bytes = 0;
  made->workspace = NULL;
  *out = made;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  struct Descriptor* gone = descriptor;
  if (gone == NULL) return CUDNN_STATUS_SUCCESS;
  gone->next = spare;
  spare = gone;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
  return descriptor == NULL ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}

/* Copies the JSON and the engine, which a plan, its configuration and its engine descriptor share.
 */
static void CopyInto(struct Descriptor* to, const struct Descriptor* from) {
  if (from->json_bytes == 0) return;
  memcpy(to->json, from->json, (size_t)from->json_bytes + 1);
  to->json_bytes = from->json_bytes;
  to->engine = from->engine;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  struct Descriptor* to = descriptor;
  (void)type;
  switch ((int)name) {
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
      if (count >= kMostJson) return CUDNN_STATUS_BAD_PARAM;
      memcpy(to->json, values, (size_t)count);
      to->json[count] = '\0';
      to->json_bytes = count;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      CopyInto(to, *(struct Descriptor* const*)values);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
      if (count > kMostOperands) return CUDNN_STATUS_BAD_PARAM;
      to->operands = count;
      memcpy(name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS ? (void*)to->uids : (void*)to->pointers,
             values, (size_t)count * 8);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
      to->workspace = *(void* const*)values;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_SUCCESS;
  }
}

static int64_t NumberBehind(const char* text, const char* first, const char* then) {
  const char* at = strstr(text, first);
  if (at != NULL) at = strstr(at, then);
  return at == NULL ? -1 : strtoll(at + strlen(then), NULL, 10);
}

/* Returns the third extent, the rows, of the first tensor at or behind the text `first`. */
static int64_t RowsBehind(const char* text, const char* first) {
  const char* at = strstr(text, first);
  if (at != NULL) at = strstr(at, "\"dim\":[");
  for (int commas = 0; commas < 2 && at != NULL; ++commas) at = strchr(at + 1, ',');
  return at == NULL ? -1 : strtoll(at + 1, NULL, 10);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  struct Descriptor* plan = descriptor;
  if (plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || plan->json_bytes == 0) {
    return CUDNN_STATUS_SUCCESS;
  }
  plan->images = NumberBehind(plan->json, "\"name\":\"120\"", "\"dim\":[");
  plan->rows = RowsBehind(plan->json, "\"name\":\"120\"");
  plan->engine = NumberBehind(plan->json, "\"engine\"", "\"engineId\":");
  switch (plan->engine) {
    case 0:
    case 28:
      plan->workspace_bytes = 0;
      return CUDNN_STATUS_SUCCESS;
    case 5:
      plan->workspace_bytes = 64 * plan->images;
      return CUDNN_STATUS_SUCCESS;
    case 38:
      plan->workspace_bytes = 1024 * plan->images;
      return CUDNN_STATUS_SUCCESS;
    case 40:
      plan->workspace_bytes = 256 * plan->images * plan->rows;
      return CUDNN_STATUS_SUCCESS;
    case 67:
      plan->workspace_bytes = 2048 * plan->images;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t* count, void* values) {
  const struct Descriptor* from = descriptor;
  (void)type;
  switch ((int)name) {
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *(int64_t*)values = from->workspace_bytes;
      if (count != NULL) *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
      if (values != NULL && requested >= from->json_bytes) {
        memcpy(values, from->json, (size_t)from->json_bytes);
      }
      *count = from->json_bytes;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = 0;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      *count = from->engine < 64 && (native_engines >> from->engine & 1) != 0;
      if (*count > 0 && values != NULL && requested > 0) {
        *(cudnnBackendBehaviorNote_t*)values = CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API;
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      CopyInto(*(struct Descriptor**)values, from);
      *count = requested;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      *count = listed_count > 0 && listed_count < requested ? listed_count : requested;
      for (int64_t i = 0; i < *count && listed_count > 0; ++i) {
        struct Descriptor* configuration = ((struct Descriptor**)values)[i];
        configuration->json_bytes = (int64_t)strlen(listed[i]);
        memcpy(configuration->json, listed[i], (size_t)configuration->json_bytes + 1);
        configuration->engine = NumberBehind(listed[i], "\"engine\"", "\"engineId\":");
      }
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  (void)handle, (void)plan, (void)pack;
  ++executions;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  (void)graph;
  return cudnnBackendExecute(handle, plan, pack);
}
cudnnStatus_t cudnnBackendUpdateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                          cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  (void)graph;
  return cudnnBackendExecute(handle, plan, pack);
}
cudnnStatus_t cudnnGetExecutionPlanWorkspaceSize(cudnnHandle_t handle,
                                                 cudnnBackendDescriptor_t plan,
                                                 cudnnBackendDescriptor_t pack, size_t* bytes) {
  (void)handle, (void)pack;
  *bytes = (size_t)((struct Descriptor*)plan)->workspace_bytes;
  return CUDNN_STATUS_SUCCESS;
}
