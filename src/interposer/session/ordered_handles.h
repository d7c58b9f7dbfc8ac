// Handles whose work the program orders, on whichever streams: those that it declared, and all that
// were declared with them, are one lane. Thread-compatible: whoever owns the object locks it.
#pragma once

#include <list>
#include <set>
#include <vector>

namespace ucudnn::interposer {

class OrderedHandles {
 public:
  struct Lane {
    std::vector<const void*> handles;
    const void* name = nullptr;  // no other lane's, as long as one of the handles is there
  };
  // Both become one lane, with those that either was declared with before. Changes nothing when
  // memory is out.
  Lane Join(const void* first, const void* second);
  // The lane that `handle` is on; null: it is ordered with nobody.
  const void* NameOf(const void* handle) const;
  // `handle` is gone. The name of its lane where nobody is left on it; else null.
  const void* Leave(const void* handle);

 private:
  std::list<std::set<const void*>> lanes_;  // their addresses name them
};

}  // namespace ucudnn::interposer
