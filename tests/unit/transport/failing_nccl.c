// This stand-in for NCCL moves no data. It fails or waits on demand, and counts open groups, living
// communicators, and uses of communicators that have ended.
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int Result;
typedef struct Communicator {
  atomic_bool ended;  // an ended communicator keeps its memory, so that later uses can be counted
  struct Communicator* before;
} Communicator;
typedef struct {
  char bytes[128];
} UniqueId;

static char failing[64];  // the function that fails; set before ranks begin
static atomic_int groups_open, communicators_alive, uses_after_end, waiting_calls;
static _Atomic(Communicator*) last_made;
static atomic_bool waits_for_abort;          // makes ncclGroupEnd and ncclAllReduce wait
static _Thread_local Communicator* grouped;  // the communicator of the open group

void failing_nccl_fail(const char* function) { strncpy(failing, function, sizeof failing - 1); }
int failing_nccl_open_groups(void) { return groups_open; }
int failing_nccl_communicators(void) { return communicators_alive; }
void failing_nccl_wait(int waits) { waits_for_abort = waits != 0; }
int failing_nccl_waiting_calls(void) { return waiting_calls; }
int failing_nccl_uses_after_end(void) { return uses_after_end; }

static Result Outcome(const char* function) { return strcmp(failing, function) == 0 ? 3 : 0; }
static void Use(const Communicator* communicator) {
  if (communicator != NULL && communicator->ended) ++uses_after_end;
}
void failing_nccl_use_last(void) { Use(last_made); }
static void AwaitAbort(const Communicator* communicator) {
  if (!waits_for_abort) return;
  ++waiting_calls;
  while (!communicator->ended) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

Result ncclGetVersion(int* version) {
  *version = 21805;
  return 0;
}
const char* ncclGetErrorString(Result result) { return result == 3 ? "internal error" : "none"; }
const char* ncclGetLastError(Communicator* communicator) {
  Use(communicator);
  return communicator != NULL ? "the link is down" : "";
}
Result ncclGetUniqueId(UniqueId* id) {
  memset(id, 7, sizeof *id);
  return Outcome("ncclGetUniqueId");
}
Result ncclCommInitRankConfig(Communicator** made, int size, UniqueId id, int rank, void* config) {
  (void)size, (void)rank, (void)config;
  if (id.bytes[0] != 7 || Outcome("ncclCommInitRankConfig") != 0) return 3;
  *made = calloc(1, sizeof **made);
  (*made)->before = atomic_exchange(&last_made, *made);
  ++communicators_alive;
  return 0;
}
static Result End(Communicator* communicator) {
  Use(communicator);
  communicator->ended = true;
  --communicators_alive;
  return 0;
}
Result ncclCommDestroy(Communicator* communicator) { return End(communicator); }
Result ncclCommAbort(Communicator* communicator) { return End(communicator); }
Result ncclCommGetAsyncError(Communicator* communicator, Result* error) {
  Use(communicator);
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
  if (grouped != NULL) AwaitAbort(grouped);
  grouped = NULL;
  return Outcome("ncclGroupEnd");
}
Result ncclSend(const void* data, size_t count, int type, int peer, Communicator* communicator,
                void* stream) {
  (void)data, (void)count, (void)type, (void)peer, (void)stream;
  Use(communicator);
  grouped = communicator;
  return Outcome("ncclSend");
}
Result ncclRecv(void* data, size_t count, int type, int peer, Communicator* communicator,
                void* stream) {
  (void)data, (void)count, (void)type, (void)peer, (void)stream;
  Use(communicator);
  grouped = communicator;
  return Outcome("ncclRecv");
}
Result ncclAllReduce(const void* from, void* to, size_t count, int type, int operation,
                     Communicator* communicator, void* stream) {
  (void)from, (void)to, (void)count, (void)type, (void)operation, (void)stream;
  Use(communicator);
  AwaitAbort(communicator);
  return Outcome("ncclAllReduce");
}
