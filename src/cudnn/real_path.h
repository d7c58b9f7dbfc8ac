// Finds the real cuDNN 9, which a drop-in of the same name hides. The real cuDNN is the file that
// the user names, otherwise the file that the loader would have found without ucudnn. Never finds a
// drop-in of ucudnn. Thread-safe. Loads nothing unless `accept` does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::cudnn {

struct RealSearch {
  std::string path;                  // absolute; empty: none was found
  std::vector<std::string> tried;    // "PATH: why not", in the order of the search
  std::vector<std::string> ignored;  // the user's choices that were not used, with the reason
};

// Called with the path of a library that passes CheckReal. An error refuses this library, for
// example because it cannot be loaded, and the search goes on.
using AcceptReal = std::function<Status(const std::string& path)>;

// Searches in this order: `configured` (the user's choice; null or empty: none), libraries already
// loaded, DT_RPATH of loaded objects, LD_LIBRARY_PATH and the program's own run path, DT_RUNPATH of
// loaded objects, ld.so.cache, default directories. Run paths of objects that need cuDNN precede
// run paths of other objects. `self` is an address inside the drop-in, or null.
RealSearch FindReal(const char* configured, const void* self, const AcceptReal& accept = {});

// Returns Ok if the file can be the real library: it is a cuDNN 9, it is not a drop-in of ucudnn,
// and its folder has its sub-libraries. Otherwise the error says why not.
Status CheckReal(const std::string& path, const void* self);

// Expands $ORIGIN, $LIB and $PLATFORM in `paths`, the colon-separated run path of the object at
// `object`. $LIB becomes each of the folders that distributions use for it.
std::vector<std::string> ExpandRunPath(const std::string& paths, const std::string& object);

}  // namespace ucudnn::cudnn
