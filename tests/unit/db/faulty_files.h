// Files that fail on demand: an SQLite VFS that passes everything on but one call. Becomes the
// default VFS of the process when it is first armed. For one thread.
#pragma once

namespace ucudnn::test {

enum class FileCall { kWrite, kShortWrite, kSync, kTruncate, kLock, kRead, kFcntlLock };

// Makes the `kth` call (from 1) of a kind fail with an SQLite result code; every later one, too,
// when it `stays` so. A short write leaves half of the bytes in the file. kFcntlLock is the system
// call by which SQLite's own VFS locks, and fails with `code` in errno.
void FailFileCall(FileCall call, int kth, int code, bool stays);

// Ends this process by SIGKILL in place of the `kth` call of a kind from now on; behind half of the
// bytes of a short write.
void DieAtFileCall(FileCall call, int kth);

// Nothing fails any more; the calls that did.
int StopFailing();

}  // namespace ucudnn::test
