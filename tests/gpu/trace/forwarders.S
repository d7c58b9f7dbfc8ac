// Every export of cuDNN, as a jump through UcudnnTraceCall (trace.cpp), which notes the call and says where
// the real function is. Assembly, because a forwarder must not touch an argument, whatever the
// signature.
#include "arguments.inc"

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

// Index of the export in r11.
  .section .text
  .p2align 4
  .type TraceAndJump, @function
TraceAndJump:
  .cfi_startproc
  KeepArguments

  movl %r11d, %edi
  call UcudnnTraceCall
  movq %rax, %r11
  JumpWithKeptArguments
  .cfi_endproc
  .size TraceAndJump, . - TraceAndJump

  .section .note.GNU-stack, "", @progbits
