/* A cuDNN 9 with one function, which returns at once, so that only the cost of reaching it is
 * measured. */
int cudnnActivationForward(void* handle, void* activation, const void* alpha, void* x_descriptor,
                           const void* x, const void* beta, void* y_descriptor, void* y) {
  return handle == y && activation == x_descriptor && alpha == x && beta == y_descriptor;
}
