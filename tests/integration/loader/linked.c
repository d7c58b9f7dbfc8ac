/* A program linked with cuDNN like a user's; it is also built as the libraries that programs load
 * with dlopen. */
#include "use_cudnn.h"

int UseLinkedCudnn(void) { return UseCudnn(cudnnCreate, cudnnGetVersion); }

#ifndef AS_LIBRARY
int main(void) { return UseLinkedCudnn(); }
#endif
