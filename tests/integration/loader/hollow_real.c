/* This library looks like cuDNN 9 and has only one function, which no header declares. */
int cudnnSetBackdoor(void) { return 0; }
