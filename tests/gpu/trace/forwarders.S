// Every export of cuDNN, as a jump through UcudnnTraceCall (trace.cpp), which notes the call and says where
// the genuine function is. Assembly, because a forwarder must not touch an argument, whatever the
// signature.
#include <cet.h>

#ifndef _CET_ENDBR
#define _CET_ENDBR
#endif

.macro Export index, name
  .section .text
  .p2align 4
  .globl \name
  .type \name, @function
\name:
  .cfi_startproc
  _CET_ENDBR
  movl $\index, %r11d
  jmp TraceAndJump
  .cfi_endproc
  .size \name, . - \name
.endm

#define EXPORT(index, name, kind) Export index, name
#include "exports.inc"

// Index of the export in r11. All argument registers are kept: six integers, al of variadic calls,
// the static chain r10, eight vectors.
  .section .text
  .p2align 4
  .type TraceAndJump, @function
TraceAndJump:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $192, %rsp
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

  movl %r11d, %edi
  call UcudnnTraceCall
  movq %rax, %r11

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
  .size TraceAndJump, . - TraceAndJump

  .section .note.GNU-stack, "", @progbits
