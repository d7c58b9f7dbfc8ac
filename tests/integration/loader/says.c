/* Looks up puts with RTLD_DEFAULT, and calls it with the program's argument. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int (*say)(const char*) = (int (*)(const char*))dlsym(RTLD_DEFAULT, "puts");
  return argc < 2 || say == NULL || say(argv[1]) < 0;
}
