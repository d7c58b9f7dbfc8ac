// TCP sockets of the system: addresses, listening, connecting. All are nonblocking, closed by exec,
// and send at once. Thread-compatible.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/descriptor.h"
#include "transport/meeting.h"

namespace ucudnn::transport {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  bool IsLoopback() const;
  // Returns whether an interface of this host has this address.
  bool IsOfThisHost() const;
};

// Asks the system's resolver, which may take seconds for an unknown name.
Result<std::vector<SocketAddress>> AddressesOf(const std::string& host, uint16_t port);
SocketAddress LoopbackAddress(uint16_t port);

// Returns whether the text is localhost or a numeric loopback address. A host's own name may
// resolve to a loopback address on that host, and to another one elsewhere.
bool IsLoopbackText(const std::string& host);

enum class Interfaces { kLoopback, kLoopback6, kAll };

struct ListeningSocket {
  Descriptor socket;
  uint16_t port = 0;
  int error = 0;  // errno if there is no socket
};
// Listens at `port`; 0: at a free one.
ListeningSocket ListenAt(Interfaces interfaces, uint16_t port);
// Accepts the next connection. Returns none if none waits (EAGAIN in errno) or there is no
// descriptor for it.
Descriptor AcceptFrom(const Descriptor& listening);

// Returns the other end of a connection, as "10.0.0.7:51000".
std::string OtherSideOf(int connection);

struct ConnectedSocket {
  Descriptor socket;
  int error = 0;  // errno if there is none; ETIMEDOUT after the deadline
};
ConnectedSocket ConnectTo(const SocketAddress& address, Clock::time_point deadline);

// This host's name, and the numeric addresses of its interfaces other than loopback.
std::string HostName();
std::vector<std::string> InterfaceAddresses();

}  // namespace ucudnn::transport
