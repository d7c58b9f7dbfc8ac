// Defines a forwarder for every export of cuDNN. A forwarder calls UcudnnTraceCall (trace.cpp),
// which writes the export's name and returns the address of the real function. Then the forwarder
// jumps there. This is assembly because a forwarder must keep all arguments, whatever the signature
// is.
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

// r11 holds the index of the export.
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
