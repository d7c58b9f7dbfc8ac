/* A program linked with cuDNN, as a user's; also built as the libraries that dlopen-ing programs
 * load. */
#include "use_cudnn.h"

int UseLinkedCudnn(void) { return UseCudnn(cudnnCreate, cudnnGetVersion); }

#ifndef AS_LIBRARY
int main(void) { return UseLinkedCudnn(); }
#endif
