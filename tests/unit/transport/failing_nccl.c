// An NCCL that moves nothing, fails where it is told to, and counts what must be balanced.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef struct Communicator {
  int rank;
} Communicator;
typedef struct {
  char bytes[128];
} UniqueId;

static char failing[64];  // set before ranks begin
static atomic_int groups_open, communicators_alive;

void failing_nccl_fail(const char* function) { strncpy(failing, function, sizeof failing - 1); }
int failing_nccl_open_groups(void) { return groups_open; }
int failing_nccl_communicators(void) { return communicators_alive; }

static Result Outcome(const char* function) { return strcmp(failing, function) == 0 ? 3 : 0; }

Result ncclGetVersion(int* version) {
  *version = 21805;
  return 0;
}
const char* ncclGetErrorString(Result result) { return result == 3 ? "internal error" : "none"; }
const char* ncclGetLastError(Communicator* communicator) {
  return communicator != NULL ? "the link is down" : "";
}
Result ncclGetUniqueId(UniqueId* id) {
  memset(id, 7, sizeof *id);
  return Outcome("ncclGetUniqueId");
}
Result ncclCommInitRankConfig(Communicator** made, int size, UniqueId id, int rank, void* config) {
  (void)size;
  (void)config;
  if (id.bytes[0] != 7 || Outcome("ncclCommInitRankConfig") != 0) return 3;
  *made = malloc(sizeof **made);
  (*made)->rank = rank;
  ++communicators_alive;
  return 0;
}
static Result End(Communicator* communicator) {
  free(communicator);
  --communicators_alive;
  return 0;
}
Result ncclCommDestroy(Communicator* communicator) { return End(communicator); }
Result ncclCommAbort(Communicator* communicator) { return End(communicator); }
Result ncclCommGetAsyncError(Communicator* communicator, Result* error) {
  (void)communicator;
  *error = Outcome("asynchronous");
  return Outcome("ncclCommGetAsyncError");
}
Result ncclGroupStart(void) {
  if (Outcome("ncclGroupStart") != 0) return 3;
  ++groups_open;
  return 0;
}
Result ncclGroupEnd(void) {
  --groups_open;
  return Outcome("ncclGroupEnd");
}
Result ncclSend(const void* data, size_t count, int type, int peer, Communicator* communicator,
                void* stream) {
  (void)data, (void)count, (void)type, (void)peer, (void)communicator, (void)stream;
  return Outcome("ncclSend");
}
Result ncclRecv(void* data, size_t count, int type, int peer, Communicator* communicator,
                void* stream) {
  (void)data, (void)count, (void)type, (void)peer, (void)communicator, (void)stream;
  return Outcome("ncclRecv");
}
Result ncclAllReduce(const void* from, void* to, size_t count, int type, int operation,
                     Communicator* communicator, void* stream) {
  (void)from, (void)to, (void)count, (void)type, (void)operation, (void)communicator, (void)stream;
  return Outcome("ncclAllReduce");
}
