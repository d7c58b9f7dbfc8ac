// Replaces dlsym for the whole process. It is in assembly because glibc resolves RTLD_NEXT and
// RTLD_DEFAULT by the return address. A call that is not redirected jumps to the real dlsym with
// the caller's return address, so that RTLD_NEXT means the library after the caller, not the
// library after this one.
#include <cet.h>

#ifndef _CET_ENDBR
#define _CET_ENDBR
#endif

// void* dlsym(void* handle, const char* name)
  .text
  .p2align 4
  .globl dlsym
  .type dlsym, @function
dlsym:
  .cfi_startproc
  _CET_ENDBR
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  movq 24(%rsp), %rdx  // the return address, which is in the caller
  call ucudnn_redirected
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jz 1f
  ret
1:
  jmp *ucudnn_real_dlsym(%rip)
  .cfi_endproc
  .size dlsym, . - dlsym

  .section .note.GNU-stack, "", @progbits
