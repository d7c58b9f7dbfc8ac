// Decides which look-ups the dlsym of entry.S redirects to the drop-in: look-ups of cuDNN functions
// that the handle would find in a real libcudnn.so.9. Look-ups by cuDNN or ucudnn itself, and with
// the handles RTLD_DEFAULT and RTLD_NEXT, are not redirected. Any thread may call this code, even
// while the loader starts the program, before any constructor. Several threads may make the first
// call at once: each stores the same values in the static variables. The code allocates no memory
// and takes no lock itself.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

typedef void* (*Dlsym)(void* handle, const char* name);

static void* NoDlsym(void* handle, const char* name) {
  (void)handle;
  (void)name;
  return NULL;
}

HIDDEN Dlsym ucudnn_real_dlsym = NULL;
HIDDEN void* ucudnn_redirected(void* handle, const char* name, const void* caller);

static Dlsym RealDlsym(void) {
  Dlsym real = __atomic_load_n(&ucudnn_real_dlsym, __ATOMIC_ACQUIRE);
  if (real != NULL) return real;
  // dlsym cannot look up itself, but dlvsym can look up dlsym. glibc has dlsym under two versions:
  // GLIBC_2.2.5 in libdl, and GLIBC_2.34 in libc, to which it was moved.
  for (const char* const* version = (const char* const[]){"GLIBC_2.2.5", "GLIBC_2.34", NULL};
       real == NULL && *version != NULL; ++version) {
    real = (Dlsym)dlvsym(RTLD_NEXT, "dlsym", *version);
  }
  if (real == NULL) real = NoDlsym;
  __atomic_store_n(&ucudnn_real_dlsym, real, __ATOMIC_RELEASE);
  return real;
}

// Returns the library that contains `address`; null if there is none.
static const struct link_map* LibraryAt(const void* address) {
  Dl_info info;
  struct link_map* map = NULL;
  return dladdr1(address, &info, (void**)&map, RTLD_DL_LINKMAP) != 0 ? map : NULL;
}

// Returns the library's DT_SONAME; an empty text if it has none.
static const char* Soname(const struct link_map* library) {
  const char* strings = NULL;
  ElfW(Xword) offset = 0;
  if (library == NULL || library->l_ld == NULL) return "";
  for (const ElfW(Dyn)* entry = library->l_ld; entry->d_tag != DT_NULL; ++entry) {
    // The file holds an offset here; glibc replaces it with an address when it loads the library.
    if (entry->d_tag == DT_STRTAB) strings = (const char*)entry->d_un.d_ptr;
    if (entry->d_tag == DT_SONAME) offset = entry->d_un.d_val;
  }
  return strings != NULL && offset != 0 ? strings + offset : "";
}

static int StartsWith(const char* text, const char* start) {
  return strncmp(text, start, strlen(start)) == 0;
}

// Returns the drop-in in this library's folder; null if it cannot be opened. Normally LD_PRELOAD
// has already loaded it.
static void* DropIn(void) {
  static void* opened = NULL;
  void* drop_in = __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
  if (drop_in != NULL) return drop_in;
  Dl_info self;
  char path[4096];
  if (dladdr((const void*)&ucudnn_redirected, &self) == 0 || self.dli_fname == NULL) return NULL;
  const char* const slash = strrchr(self.dli_fname, '/');
  const int folder = slash != NULL ? (int)(slash - self.dli_fname) : 0;
  const int length = snprintf(path, sizeof path, "%.*s/libcudnn.so.9", folder, self.dli_fname);
  if (slash == NULL || length < 0 || (size_t)length >= sizeof path) return NULL;
  drop_in = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (drop_in == NULL) {
    dlerror();  // clears the error, which the program's dlerror must not return
    return NULL;
  }
  __atomic_store_n(&opened, drop_in, __ATOMIC_RELEASE);
  return drop_in;
}

// Returns the drop-in's function. Returns null if the look-up is not redirected; the real dlsym
// then answers, and reports errors.
void* ucudnn_redirected(void* handle, const char* name, const void* caller) {
  const Dlsym dlsym_of = RealDlsym();
  if (name == NULL || !StartsWith(name, "cudnn") || handle == RTLD_NEXT || handle == RTLD_DEFAULT) {
    return NULL;
  }
  // cuDNN looks up functions in its own libraries, and ucudnn looks up the real functions. If these
  // look-ups were redirected, the functions would call themselves for ever.
  const char* const asker = Soname(LibraryAt(caller));
  if (StartsWith(asker, "libcudnn") || StartsWith(asker, "libucudnn")) return NULL;
  void* const real = dlsym_of(handle, name);
  if (real == NULL) return NULL;
  const struct link_map* const library = LibraryAt(real);
  if (strcmp(Soname(library), "libcudnn.so.9") != 0) return NULL;
  void* const drop_in = DropIn();
  return drop_in != NULL ? dlsym_of(drop_in, name) : NULL;
}
