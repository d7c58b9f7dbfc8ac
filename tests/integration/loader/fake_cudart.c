/* A CUDA runtime by name only, which a wheel's libraries need beside cuDNN. */
int cudartStandsHere(void) { return 0; }
