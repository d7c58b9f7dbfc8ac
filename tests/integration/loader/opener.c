/* This program reaches cuDNN at run time, in one way for each mode:
 *   soname                      dlopen("libcudnn.so.9") and dlsym (TensorFlow)
 *   preloaded PATH              the wheel's file by absolute path first, then the soname (JAX)
 *   path PATH                   dlopen(PATH) and dlsym on that handle (the cudnn Python package)
 *   consumer local|deepbind PATH   a library that needs cuDNN (PyTorch's extension modules)
 *   fork                        a child forked after cuDNN was loaded and before it was called
 *   exec PROGRAM                becomes another program
 *   threads                     eight threads whose first calls coincide */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "use_cudnn.h"

static void* Open(const char* name, int flags) {
  void* library = dlopen(name, flags);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return library;
}

static int UseLibrary(const char* name) {
  void* cudnn = Open(name, RTLD_NOW | RTLD_LOCAL);
  return UseCudnn((CreateFunction)dlsym(cudnn, "cudnnCreate"),
                  (VersionFunction)dlsym(cudnn, "cudnnGetVersion"));
}

static int UseSoname(void) { return UseLibrary("libcudnn.so.9"); }

static int UseConsumer(const char* how, const char* path) {
  const int flag = strcmp(how, "deepbind") == 0 ? RTLD_DEEPBIND : 0;
  void* consumer = Open(path, RTLD_NOW | RTLD_LOCAL | flag);
  return ((int (*)(void))dlsym(consumer, "UseLinkedCudnn"))();
}

static int UseInForkedChild(void) {
  Open("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  const pid_t child = fork();
  if (child == 0) _exit(UseSoname());
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0 ? UseSoname() : 1;
}

static pthread_barrier_t barrier;

static void* UseAtOnce(void* cudnn) {
  CreateFunction create = (CreateFunction)dlsym(cudnn, "cudnnCreate");
  VersionFunction version = (VersionFunction)dlsym(cudnn, "cudnnGetVersion");
  pthread_barrier_wait(&barrier);
  UseCudnn(create, version);
  return NULL;
}

static int UseFromThreads(void) {
  enum { kThreads = 8 };
  void* cudnn = Open("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  pthread_t threads[kThreads];
  pthread_barrier_init(&barrier, NULL, kThreads);
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, UseAtOnce, cudnn);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  return 0;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "soname") == 0) return UseSoname();
  if (strcmp(mode, "preloaded") == 0 && argc == 3) {
    Open(argv[2], RTLD_NOW | RTLD_LOCAL);
    return UseSoname();
  }
  if (strcmp(mode, "path") == 0 && argc == 3) return UseLibrary(argv[2]);
  if (strcmp(mode, "consumer") == 0 && argc == 4) return UseConsumer(argv[2], argv[3]);
  if (strcmp(mode, "fork") == 0) return UseInForkedChild();
  if (strcmp(mode, "exec") == 0 && argc == 3) {
    execl(argv[2], argv[2], (char*)NULL);
    return 1;
  }
  if (strcmp(mode, "threads") == 0) return UseFromThreads();
  fprintf(stderr, "unknown mode '%s'\n", mode);
  return 2;
}
