/* A CUDA runtime by name only: what a wheel's libraries need beside cuDNN. */
int cudartStandsHere(void) { return 0; }
