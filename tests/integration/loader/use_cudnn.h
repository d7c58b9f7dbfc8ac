/* Test programs call UseCudnn to show which cuDNN they have reached. UseCudnn makes two calls: the
 * hook of test_hooks.cpp answers `create`, and the real library answers `version`. */
#pragma once

#include <cudnn.h>
#include <stdio.h>

typedef cudnnStatus_t(CUDNNWINAPI* CreateFunction)(cudnnHandle_t*);
typedef size_t(CUDNNWINAPI* VersionFunction)(void);

static inline int UseCudnn(CreateFunction create, VersionFunction version) {
  cudnnHandle_t handle = NULL;
  const int status = (int)create(&handle);
  printf("create=%d handle=%p version=%zu\n", status, (void*)handle, version());
  fflush(stdout);
  return 0;
}
