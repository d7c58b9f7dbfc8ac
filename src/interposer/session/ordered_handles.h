// Handles whose work the program orders, on all streams: declared handles, and all that were
// declared together with them, are one lane. Thread-compatible: the owner of this object locks it.
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
  // Makes both one lane, together with those that either was declared with before. Changes nothing
  // if memory is out.
  Lane Join(const void* first, const void* second);
  // The lane that `handle` is on; null: it is not ordered with another one.
  const void* NameOf(const void* handle) const;
  // Removes `handle`. Returns the name of its lane if no handle is left on it; else null.
  const void* Leave(const void* handle);

 private:
  std::list<std::set<const void*>> lanes_;  // their addresses name them
};

}  // namespace ucudnn::interposer
