// Lets a program start with a glibc older than 2.34. Since 2.34 glibc itself runs a program's
// constructors; with older versions the program contained that code. The linker's option `--wrap`
// makes the start-up code call __wrap___libc_start_main. Source: glibc 2.28, csu/elf-init.c.
#include <stddef.h>

typedef int Main(int, char**, char**);
typedef void Initialise(int, char**, char**);

// __libc_start_main of version 2.2.5, which every glibc has. It calls `initialise` if that is not
// null.
int __real___libc_start_main(Main* main, int argc, char** argv, Initialise* initialise,
                             void (*finish)(void), void (*loader_finish)(void), void* stack_end);

extern void _init(void);
extern Initialise* __init_array_start[] __attribute__((visibility("hidden")));
extern Initialise* __init_array_end[] __attribute__((visibility("hidden")));

// Calls _init and the constructors. The loader has already run the preinit array.
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
