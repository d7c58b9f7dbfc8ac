/* This program is linked with cuDNN, like a user's program. Its source is also built as libraries,
 * which other test programs load with dlopen. */
#include "use_cudnn.h"

int UseLinkedCudnn(void) { return UseCudnn(cudnnCreate, cudnnGetVersion); }

#ifndef AS_LIBRARY
int main(void) { return UseLinkedCudnn(); }
#endif
