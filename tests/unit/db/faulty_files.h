// Files that fail on demand: an SQLite VFS that passes everything on but one call. Becomes the
// default VFS of the process when it is first armed. For one thread.
#pragma once

namespace ucudnn::test {

enum class FileCall { kWrite, kShortWrite, kSync, kTruncate, kLock, kRead };

// Makes the `kth` call (from 1) of a kind fail with an SQLite result code; every later one, too,
// when it `stays` so. A short write leaves half of the bytes in the file.
void FailFileCall(FileCall call, int kth, int code, bool stays);

// Nothing fails any more; tells whether anything did.
bool StopFailing();

}  // namespace ucudnn::test
