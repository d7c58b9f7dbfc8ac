// The drop-in libcudnn.so.9. Each export jumps to the address in its slot. Initially every slot
// holds the address of a stub, and the first call of any stub makes libucudnn fill all slots. The
// drop-in runs no other code, and its only state is the slots. It is in assembly because a
// forwarder must keep all arguments, whatever the signature.
#include "arguments.inc"

// These are the values of enum UcudnnExportKind in shim/api/dropin_fill.h.
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

// Fills all slots and jumps to the target of the export whose index is in r11.
  .text
  .p2align 4
  .type FillAndJump, @function
FillAndJump:
  .cfi_startproc
  KeepArguments

  leaq slots(%rip), %rdi
  leaq names(%rip), %rsi
  leaq kinds(%rip), %rdx
  movl $EXPORT_COUNT, %ecx
  movq %rdi, %r8
  call ucudnnPrivateFillDropin@PLT

  movq KEPT_INDEX, %r11
  leaq slots(%rip), %rax
  movq (%rax, %r11, 8), %r11
  JumpWithKeptArguments
  .cfi_endproc
  .size FillAndJump, . - FillAndJump

  .section .note.GNU-stack, "", @progbits
