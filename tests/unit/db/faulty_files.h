// Files that fail on demand, through an SQLite VFS. The VFS passes on all calls except the calls
// that must fail. When it is first armed, it becomes the process's default VFS. Not thread-safe.
#pragma once

namespace ucudnn::test {

enum class FileCall { kWrite, kShortWrite, kSync, kTruncate, kLock, kRead, kFcntlLock };

// Makes the `kth` call (from 1) of a kind fail with an SQLite result code. If `stays`, every later
// call of the kind fails, too. A short write leaves half of the bytes in the file. kFcntlLock is
// the system call by which SQLite's own VFS locks; it fails with `code` in errno.
void FailFileCall(FileCall call, int kth, int code, bool stays);

// Ends this process by SIGKILL instead of making the `kth` call of a kind from now on (1: the next
// one). A short write first writes half of its bytes.
void DieAtFileCall(FileCall call, int kth);

// Stops all failures. Returns how many calls failed.
int StopFailing();

}  // namespace ucudnn::test
