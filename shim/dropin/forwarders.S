// The drop-in libcudnn.so.9: every export of cuDNN is one jump through a slot. A slot starts at a stub
// that has libucudnn fill all of them at the first call; nothing runs before, and nothing else is kept.
// Assembly, because a forwarder must not touch an argument, whatever the signature.
#include <cet.h>

#ifndef _CET_ENDBR
#define _CET_ENDBR
#endif

// enum UcudnnExportKind of shim/api/dropin_fill.h.
.set kind_status, 0
.set kind_size, 1
.set kind_pointer, 2
.set kind_void, 3

  .data
  .p2align 3
slots:
  .section .data.rel.ro, "aw", @progbits
  .p2align 3
names:
  .section .rodata.kinds, "a", @progbits
kinds:

.macro Export index, name, kind
  .text
  .p2align 4
  .globl \name
  .type \name, @function
\name:
  .cfi_startproc
  _CET_ENDBR
  jmp *slots + 8 * \index(%rip)
  .cfi_endproc
  .size \name, . - \name

  .p2align 4
.Lfirst_call_\name:
  .cfi_startproc
  _CET_ENDBR
  movl $\index, %r11d
  jmp FillAndJump
  .cfi_endproc

  .data
  .quad .Lfirst_call_\name
  .section .data.rel.ro, "aw", @progbits
  .quad .Lname_\name
  .section .rodata.kinds, "a", @progbits
  .byte kind_\kind
  .section .rodata.names, "aMS", @progbits, 1
.Lname_\name:
  .asciz "\name"
.endm

#define EXPORT(index, name, kind) Export index, name, kind
#include "exports.inc"

// Index of the export in r11 (free by the ABI at a function's entry). All argument registers are kept:
// six integers, al of variadic calls, the static chain r10, eight vectors. No cuDNN function takes a
// 256-bit argument.
  .text
  .p2align 4
  .type FillAndJump, @function
FillAndJump:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $208, %rsp
  movaps %xmm0, 0(%rsp)
  movaps %xmm1, 16(%rsp)
  movaps %xmm2, 32(%rsp)
  movaps %xmm3, 48(%rsp)
  movaps %xmm4, 64(%rsp)
  movaps %xmm5, 80(%rsp)
  movaps %xmm6, 96(%rsp)
  movaps %xmm7, 112(%rsp)
  movq %rdi, 128(%rsp)
  movq %rsi, 136(%rsp)
  movq %rdx, 144(%rsp)
  movq %rcx, 152(%rsp)
  movq %r8, 160(%rsp)
  movq %r9, 168(%rsp)
  movq %rax, 176(%rsp)
  movq %r10, 184(%rsp)
  movq %r11, 192(%rsp)

  leaq slots(%rip), %rdi
  leaq names(%rip), %rsi
  leaq kinds(%rip), %rdx
  movl $EXPORT_COUNT, %ecx
  movq %rdi, %r8
  call ucudnnPrivateFillDropin@PLT

  movq 192(%rsp), %r11
  leaq slots(%rip), %rax
  movq (%rax, %r11, 8), %r11
  movaps 0(%rsp), %xmm0
  movaps 16(%rsp), %xmm1
  movaps 32(%rsp), %xmm2
  movaps 48(%rsp), %xmm3
  movaps 64(%rsp), %xmm4
  movaps 80(%rsp), %xmm5
  movaps 96(%rsp), %xmm6
  movaps 112(%rsp), %xmm7
  movq 128(%rsp), %rdi
  movq 136(%rsp), %rsi
  movq 144(%rsp), %rdx
  movq 152(%rsp), %rcx
  movq 160(%rsp), %r8
  movq 168(%rsp), %r9
  movq 176(%rsp), %rax
  movq 184(%rsp), %r10
  leave
  .cfi_def_cfa %rsp, 8
  jmp *%r11
  .cfi_endproc
  .size FillAndJump, . - FillAndJump

  .section .note.GNU-stack, "", @progbits
