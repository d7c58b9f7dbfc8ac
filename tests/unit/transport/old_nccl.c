// An NCCL that is too old for ucudnn. It has only the function that returns its version.
int ncclGetVersion(int* version) {
  *version = 21605;
  return 0;
}
