/* Looks like cuDNN 9 and has one function that no header declares, so it lacks all others. */
int cudnnSetBackdoor(void) { return 0; }
