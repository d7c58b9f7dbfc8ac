// Defines _dl_find_object for libgcc. A static libgcc that was built with glibc 2.35 or later uses
// _dl_find_object to unwind exceptions; older glibc has no such function, and a library that needs
// it would not load. The linker's option `--wrap` makes libgcc call this definition, which uses
// only functions of all supported glibc. Thread-safe. Source: glibc's manual, "Dynamic Linker
// Introspection".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#ifdef DLFO_STRUCT_HAS_EH_DBASE

struct search {
  uintptr_t address;
  struct dl_find_object* found;
};

// Callback of dl_iterate_phdr. Returns non-zero, which ends the iteration, if the object contains
// the address.
static int holds_address(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  struct search* const search = data;
  uintptr_t first = UINTPTR_MAX;
  uintptr_t end = 0;
  void* table = NULL;
  int holds = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const segment = &object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_GNU_EH_FRAME) table = (void*)begin;
    if (segment->p_type != PT_LOAD) continue;
    if (begin < first) first = begin;
    if (begin + segment->p_memsz > end) end = begin + segment->p_memsz;
    if (search->address >= begin && search->address - begin < segment->p_memsz) holds = 1;
  }
  if (!holds) return 0;
  *search->found = (struct dl_find_object){
      .dlfo_map_start = (void*)first, .dlfo_map_end = (void*)end, .dlfo_eh_frame = table};
  return 1;
}

// Returns 0 and fills `result` if an object contains `address` and has an unwind table, else
// returns -1. The link map is not filled, because the unwinder does not read it.
__attribute__((visibility("hidden"))) int __wrap__dl_find_object(void* address,
                                                                 struct dl_find_object* result) {
  struct search search = {(uintptr_t)address, result};
  return dl_iterate_phdr(holds_address, &search) != 0 && result->dlfo_eh_frame != NULL ? 0 : -1;
}

#endif
