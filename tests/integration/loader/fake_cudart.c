/* This library stands for the CUDA runtime, which a wheel's libraries need beside cuDNN. The loader
 * only looks for its name. */
int cudartStandsHere(void) { return 0; }
