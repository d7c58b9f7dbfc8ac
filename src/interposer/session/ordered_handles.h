// Handles whose work the program orders, on all streams. A declared handle, and all that were
// declared together with it, are one lane. Thread-compatible: the owner of this object locks it.
#pragma once

#include <list>
#include <set>
#include <vector>

namespace ucudnn::interposer {

class OrderedHandles {
 public:
  struct Lane {
    std::vector<const void*> handles;
    const void* name = nullptr;  // unique as long as one of the handles exists
  };
  // Makes both handles one lane, together with the handles that either was declared with before.
  // Changes nothing if memory is out.
  Lane Join(const void* first, const void* second);
  // Returns the lane that `handle` is on; null if it is not ordered with another one.
  const void* NameOf(const void* handle) const;
  // Removes `handle`. Returns the name of its lane if no handle is left on it; else null.
  const void* Leave(const void* handle);

 private:
  std::list<std::set<const void*>> lanes_;  // their addresses name them
};

}  // namespace ucudnn::interposer
