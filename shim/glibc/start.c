// The start of a program for glibc older than 2.34. Newer loaders run a program's constructors
// themselves; before, the program contained the code for that. `--wrap` leads the start-up code
// here. Source: glibc 2.28, csu/elf-init.c.
#include <stddef.h>

typedef int Main(int, char**, char**);
typedef void Initialise(int, char**, char**);

// Linked with the version node of 2.2.5, which every glibc has. That version calls `initialise` if
// it is given.
int __real___libc_start_main(Main* main, int argc, char** argv, Initialise* initialise,
                             void (*finish)(void), void (*loader_finish)(void), void* stack_end);

extern void _init(void);
extern Initialise* __init_array_start[] __attribute__((visibility("hidden")));
extern Initialise* __init_array_end[] __attribute__((visibility("hidden")));

// The loader has run the preinit array.
static void RunConstructors(int argc, char** argv, char** environment) {
  _init();
  const size_t count = (size_t)(__init_array_end - __init_array_start);
  for (size_t i = 0; i < count; ++i) __init_array_start[i](argc, argv, environment);
}

__attribute__((visibility("hidden"))) int __wrap___libc_start_main(
    Main* main, int argc, char** argv, Initialise* initialise, void (*finish)(void),
    void (*loader_finish)(void), void* stack_end) {
  return __real___libc_start_main(main, argc, argv,
                                  initialise != NULL ? initialise : RunConstructors, finish,
                                  loader_finish, stack_end);
}
