// An NCCL of a release before those that ucudnn takes, with all it needs to say so.
int ncclGetVersion(int* version) {
  *version = 21605;
  return 0;
}
