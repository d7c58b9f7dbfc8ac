/* Stands in for the CUDA runtime, which a wheel's libraries need next to cuDNN. The loader only
 * looks for its name. */
int cudartStandsHere(void) { return 0; }
