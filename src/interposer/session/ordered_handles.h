// Handles whose work the program orders, even if they have different streams. All handles that were
// declared together, directly or through a third handle, are one lane. Thread-compatible: the owner
// of this object locks it.
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
  // Makes one lane of both handles and of the lanes to which they belong already. Changes nothing
  // if host memory is out.
  Lane Join(const void* first, const void* second);
  // Returns the name of the lane of `handle`; null if the handle is not ordered with another one.
  const void* NameOf(const void* handle) const;
  // Removes `handle`. Returns the name of its lane if no handle is left in it; otherwise null.
  const void* Leave(const void* handle);

 private:
  std::list<std::set<const void*>> lanes_;  // the address of each set is the lane's name
};

}  // namespace ucudnn::interposer
