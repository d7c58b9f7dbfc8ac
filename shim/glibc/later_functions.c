// Defines functions, and one variable, that glibc has only in versions after 2.28, by means of
// functions that every glibc has. The linker drops unused functions. Thread-safe.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// These are functions of glibc since 2.33; in older versions the headers replaced them by other
// calls. On x86-64 the kernel's struct stat equals both struct stat and struct stat64 of glibc.
// Source: the system calls' manual pages.
HIDDEN int fstatat(int folder, const char* restrict path, struct stat* restrict status, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, status, flags);
}
HIDDEN int stat(const char* restrict path, struct stat* restrict status) {
  return fstatat(AT_FDCWD, path, status, 0);
}
HIDDEN int lstat(const char* restrict path, struct stat* restrict status) {
  return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
HIDDEN int fstat(int file, struct stat* status) { return (int)syscall(SYS_fstat, file, status); }

HIDDEN int fstatat64(int folder, const char* restrict path, struct stat64* restrict status,
                     int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, status, flags);
}
HIDDEN int stat64(const char* restrict path, struct stat64* restrict status) {
  return fstatat64(AT_FDCWD, path, status, 0);
}
HIDDEN int lstat64(const char* restrict path, struct stat64* restrict status) {
  return fstatat64(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
HIDDEN int fstat64(int file, struct stat64* status) {
  return (int)syscall(SYS_fstat, file, status);
}

// With glibc 2.38 or later the headers rename these functions to variants that also read binary
// numbers. Nothing here reads binary numbers, so the older functions are enough.
#define OLDER(type, name) type Older_##name(const char*, char**, int) __asm__(#name)
OLDER(long, strtol);
OLDER(unsigned long, strtoul);
OLDER(long long, strtoll);
OLDER(unsigned long long, strtoull);
int Older_vsscanf(const char*, const char*, va_list) __asm__("__isoc99_vsscanf");

HIDDEN long __isoc23_strtol(const char* text, char** end, int base) {
  return Older_strtol(text, end, base);
}
HIDDEN unsigned long __isoc23_strtoul(const char* text, char** end, int base) {
  return Older_strtoul(text, end, base);
}
HIDDEN long long __isoc23_strtoll(const char* text, char** end, int base) {
  return Older_strtoll(text, end, base);
}
HIDDEN unsigned long long __isoc23_strtoull(const char* text, char** end, int base) {
  return Older_strtoull(text, end, base);
}
HIDDEN int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int read = Older_vsscanf(text, format, values);
  va_end(values);
  return read;
}

// Since glibc 2.32, libstdc++ reads this variable to see whether it may count references without
// atomics. A library cannot know whether the program has one thread, so the value is always 0 (no).
HIDDEN char __libc_single_threaded = 0;

// Calls glibc's pthread_cond_clockwait, which exists since 2.30. With an older glibc, waits by the
// wall clock. If that clock is set back meanwhile, the wait takes too long.
typedef int ClockWait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
HIDDEN int pthread_cond_clockwait(pthread_cond_t* restrict condition,
                                  pthread_mutex_t* restrict mutex, clockid_t clock,
                                  const struct timespec* restrict until) {
  ClockWait* const real = (ClockWait*)dlvsym(RTLD_DEFAULT, "pthread_cond_clockwait", "GLIBC_2.30");
  if (real != NULL) return real(condition, mutex, clock, until);
  const long kBillion = 1000000000;
  struct timespec now;
  struct timespec wall;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &wall) != 0) return EINVAL;
  wall.tv_sec += until->tv_sec - now.tv_sec;
  wall.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (wall.tv_nsec < 0) {
    wall.tv_nsec += kBillion;
    wall.tv_sec -= 1;
  } else if (wall.tv_nsec >= kBillion) {
    wall.tv_nsec -= kBillion;
    wall.tv_sec += 1;
  }
  return pthread_cond_timedwait(condition, mutex, &wall);
}
