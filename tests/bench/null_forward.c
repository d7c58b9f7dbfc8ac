/* A cuDNN 9 whose one function returns at once, so a call costs only the way to it. */
int cudnnActivationForward(void* handle, void* activation, const void* alpha, void* x_descriptor,
                           const void* x, const void* beta, void* y_descriptor, void* y) {
  return handle == y && activation == x_descriptor && alpha == x && beta == y_descriptor;
}
