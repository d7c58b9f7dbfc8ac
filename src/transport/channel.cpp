#include "transport/channel.h"

#include <algorithm>
#include <string>

namespace ucudnn::transport {

Status CheckMessages(std::span<const Message> messages, int rank, int size) {
  for (const Message& message : messages) {
    const char* fault = nullptr;
    if (message.peer < 0 || message.peer >= size || message.peer == rank) {
      fault = " has no such peer";
    } else if (message.bytes == 0 || message.data == 0) {
      fault = " is empty";
    } else if (std::count_if(messages.begin(), messages.end(), [&](const Message& other) {
                 return other.peer == message.peer;
               }) > 1) {
      fault = " comes twice";
    }
    if (fault == nullptr) continue;
    return Status::Error("a message between rank " + std::to_string(rank) + " and rank " +
                         std::to_string(message.peer) + " of " + std::to_string(size) + fault);
  }
  return Status::Ok();
}

}  // namespace ucudnn::transport
